/** One step of enrichment: which columns it adds to the row of a click, and their encoded values. */
import type { ByteText } from '#clickhouse/row-binary.ts';
import type { Click } from '#common/log/record.ts';

export interface Step<Name extends string = string> {
  /** A verb phrase; the label of the step's metrics. */
  readonly name: Name;
  readonly columns: readonly string[];
  /** The fields of a click that the columns depend on; the step reads no others. */
  readonly reads: readonly (keyof Click)[];
  /** Never rejects a click. Values repeat, so a step caches encoded columns rather than values. */
  readonly columnsOf: (click: Click) => ByteText;
}
