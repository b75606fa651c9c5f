/**
 * Forms batches of a simulation: rows with only the columns that the order of effects depends on. It skips the same
 * records as the real former: rows that are already stored, and repeats of installs and events.
 */
import { tableOf } from '#clickhouse/rollups.ts';
import { type BatchName, monthOf } from '#clickhouse/rows.ts';
import { payloadOf } from '#common/log/frame.ts';
import type { RecordKind } from '#common/log/record.ts';
import type { IdUse } from '#ingest/attribution/first-seen.ts';
import type { FirstSeenGroup } from '#ingest/attribution/first-seen-group.ts';
import type { InstallLookup } from '#ingest/attribution/install-lookup.ts';
import type { FormChanges } from '#ingest/batch-builder.ts';
import type { FormedBatch, FormedPart, LogFrame } from '#ingest/formed-batch.ts';
import { rowKey } from '#ingest/formed-batch.ts';
import { timeWithin } from '#ingest/frame-clock.ts';
import type { Retention } from '#ingest/retention.ts';
import type { SimulatedRow } from './clickhouse-content.ts';

export const simulatedApp = 'app';
const devices = 100;

/** The device of an install or event, derived from its id: events and installs of one device arrive in any order. */
export function deviceOf(id: string): string {
  return `device-${Number(id.slice(id.indexOf('-') + 1)) % devices}`;
}

/** A record as it is in the log. */
export interface SimulatedRecord {
  /** The id of the record, even if it is a repeat. */
  readonly n: number;
  readonly time: number;
  /** Of an install or event. */
  readonly id?: string;
}

export function recordsOf({ header, bytes }: Pick<LogFrame, 'header' | 'bytes'>): SimulatedRecord[] {
  const lines = payloadOf(bytes, header).toString().trimEnd().split('\n');
  return lines.map((line) => JSON.parse(line) as SimulatedRecord);
}

type Read = SimulatedRecord & {
  readonly kind: RecordKind;
  readonly producer_id: string;
  readonly frame_no: number;
  readonly idx: number;
};

interface ThinFormerParts {
  readonly firstSeen: FirstSeenGroup;
  readonly installs: InstallLookup;
  readonly retention: Retention;
}

export class ThinFormer {
  readonly #firstSeen: FirstSeenGroup;
  readonly #installs: InstallLookup;
  readonly #retention: Retention;

  constructor({ firstSeen, installs, retention }: ThinFormerParts) {
    this.#firstSeen = firstSeen;
    this.#installs = installs;
    this.#retention = retention;
  }

  async begin(partition: number, untilMs: number): Promise<void> {
    await this.#retention.refresh();
    await this.#firstSeen.at(partition).load(untilMs);
  }

  async form(batch: BatchName, frames: readonly LogFrame[], changes: FormChanges = {}): Promise<FormedBatch> {
    const read = frames.flatMap((frame): Read[] => {
      const { kind, producer_id, frame_no, written_at } = frame.header;
      const oldest = this.#retention.oldestOf(kind);
      return recordsOf(frame).map((record, idx) => {
        const time = timeWithin(record.time, written_at, oldest);
        return { ...record, time, kind, producer_id, frame_no, idx };
      });
    });
    const claims = read.flatMap((one) => claimOf(one) ?? []);
    const verdicts = claims.length === 0 ? [] : await this.#firstSeen.at(batch.partition).settle(claims);
    const sources = read.flatMap(({ kind, id = '' }) =>
      kind === 'event' ? [{ app_id: simulatedApp, install_id: '', device_id: deviceOf(id) }] : [],
    );
    const installs = (await this.#installs.find(sources)).values();
    let at = 0;
    const parts = new Map<string, SimulatedRow[]>();
    for (const one of read) {
      const install = one.kind === 'event' ? (installs.next().value?.install_id ?? '') : '';
      if (claimOf(one) !== undefined && verdicts[at++] === false) continue;
      const { n, time, id = '', kind, producer_id, frame_no, idx } = one;
      const table = tableOf(kind);
      if (changes.stored?.has(rowKey(table, producer_id, frame_no, idx)) === true) continue;
      const month = monthOf(time);
      const rows = parts.get(table + month) ?? [];
      parts.set(table + month, rows);
      const of = { log_partition: batch.partition, batch_no: batch.batch_no };
      rows.push({ n, table, month, producer_id, frame_no, idx, time, id, install, sign: 1, isLearned: false, ...of });
    }
    const formed = [...parts.values()].map(partOf);
    return {
      batch,
      frames,
      parts: formed,
      streamTime: Math.max(0, ...frames.map((frame) => frame.streamTime)),
      rows: formed.reduce((sum, part) => sum + part.rows, 0),
      rejections: new Map(),
    };
  }
}

/** Rows of one table and month. */
export function partOf(rows: readonly SimulatedRow[]): FormedPart {
  return {
    table: rows[0]?.table ?? '',
    partition: rows[0]?.month ?? '',
    rows: rows.length,
    time_from: rows.reduce((least, row) => Math.min(least, row.time), Number.POSITIVE_INFINITY),
    time_to: rows.reduce((most, row) => Math.max(most, row.time), 0),
    columns: [],
    places: [],
    body: Buffer.from(JSON.stringify(rows)),
  };
}

function claimOf({ kind, id = '', time, producer_id, frame_no, idx }: Read): IdUse | undefined {
  if (kind === 'click' || kind === 'match') return undefined;
  return { kind, app_id: simulatedApp, id, received_at: time, origin: { producer_id, frame_no, idx } };
}
