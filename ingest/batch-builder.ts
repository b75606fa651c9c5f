/** A batch under construction: one body of rows per table and month, and the records that became dead letters. */
import { tableOf } from '#clickhouse/rollups.ts';
import { type ByteText, RowWriter } from '#clickhouse/row-binary.ts';
import { type BatchName, deadLetterColumns, monthOf, type RowOrigin, writeDeadLetterRow } from '#clickhouse/rows.ts';
import { cut } from '#common/log/record.ts';
import { type FormedPart, type LogFrame, type RowPlace, rowKey } from './formed-batch.ts';
import type { RejectionReason } from './record-decoder.ts';

/** Options that make a batch contain something other than all rows of its frames. */
export interface FormChanges {
  /** Keys of rows that ClickHouse refuses: they become dead letters. */
  readonly refused?: ReadonlySet<string>;
  /** Keys of rows that are already stored, as rows or as dead letters: they are omitted. */
  readonly stored?: ReadonlySet<string>;
  /** Whether parts report where each row begins. */
  readonly isPlaced?: boolean;
}

/** Encoded clicks of one frame. */
export interface FrameRows {
  readonly rows: ByteText;
  readonly timeFrom: number;
  readonly timeTo: number;
}

/** Maximum stored length of a rejected record. */
const deadLetterCharsMax = 4_096;

/** The row of a click is usually a little shorter than its record. */
const rowBytesPerClickByte = 1.05;

export class BatchBuilder {
  readonly batch: BatchName;
  readonly rejections = new Map<RejectionReason, number>();
  readonly #changes: FormChanges;
  readonly #isErased: (frame: LogFrame) => boolean;
  /** Bytes of the click frames: about the size of the click rows. */
  #clickBytes = 0;
  readonly #bodies = new Map<string, PartBody>();

  /**
   * @param isErased whether a frame may contain records of an erased visitor: texts of its rejected records are not
   * stored.
   */
  constructor(
    batch: BatchName,
    frames: readonly LogFrame[],
    changes: FormChanges,
    isErased: (frame: LogFrame) => boolean,
  ) {
    this.batch = batch;
    this.#changes = changes;
    this.#isErased = isErased;
    for (const { header, bytes } of frames) if (header.kind === 'click') this.#clickBytes += bytes.length;
  }

  /** Whether rows are omitted, or their positions are requested. */
  get isChanged(): boolean {
    const { refused, stored, isPlaced } = this.#changes;
    return refused !== undefined || stored !== undefined || isPlaced === true;
  }

  isStored(table: string, { producer_id, frame_no, idx }: RowOrigin): boolean {
    return this.#changes.stored?.has(rowKey(table, producer_id, frame_no, idx)) ?? false;
  }

  /** A writer for the next row of a table; `undefined` for a row that ClickHouse refuses. */
  row(table: string, columns: readonly string[], time: number, origin: RowOrigin): RowWriter | undefined {
    const body = this.#bodyFor(table, columns, time);
    const { refused, isPlaced } = this.#changes;
    if (refused !== undefined || isPlaced === true) {
      const key = rowKey(table, origin.producer_id, origin.frame_no, origin.idx);
      if (refused?.has(key) === true) return undefined;
      body.places.push({ start: body.writer.bytes.length, key });
    }
    return body.add(1, time, time);
  }

  /** Adds all clicks of a frame. @returns false if they belong to more than one month. */
  addClicks({ rows, timeFrom, timeTo }: FrameRows, columns: readonly string[], count: number): boolean {
    if (monthOf(timeFrom) !== monthOf(timeTo)) return false;
    this.#bodyFor('clicks', columns, timeFrom).add(count, timeFrom, timeTo).encoded(rows);
    return true;
  }

  /** Turns a record into a dead letter. */
  reject(frame: LogFrame, idx: number, line: string, reason: RejectionReason): void {
    const { kind, producer_id, frame_no, written_at: time } = frame.header;
    if (this.isStored(tableOf(kind), { producer_id, frame_no, idx })) return;
    this.rejections.set(reason, (this.rejections.get(reason) ?? 0) + 1);
    const record = this.#isErased(frame) ? '' : printable(line);
    const row = { producer_id, frame_no, idx, kind, reason, time, record };
    writeDeadLetterRow(this.#bodyFor('dead_letters', deadLetterColumns, time).add(1, time, time), row, this.batch);
  }

  /** The parts to send, in the order in which their tables first occurred. */
  parts(): FormedPart[] {
    return [...this.#bodies.values()].filter((body) => body.rows > 0).map((body) => body.part());
  }

  #bodyFor(table: string, columns: readonly string[], time: number): PartBody {
    const partition = monthOf(time);
    const key = table + partition;
    let body = this.#bodies.get(key);
    if (body === undefined) {
      const expectedBytes = table === 'clicks' ? this.#clickBytes * rowBytesPerClickByte : 0;
      body = new PartBody(table, partition, columns, expectedBytes);
      this.#bodies.set(key, body);
    }
    return body;
  }
}

/** Rows of one table and month. */
class PartBody {
  readonly writer: RowWriter;
  readonly places: RowPlace[] = [];
  rows = 0;
  readonly #table: string;
  readonly #partition: string;
  readonly #columns: readonly string[];
  #timeFrom = Number.POSITIVE_INFINITY;
  #timeTo = 0;

  constructor(table: string, partition: string, columns: readonly string[], expectedBytes: number) {
    this.#table = table;
    this.#partition = partition;
    this.#columns = columns;
    this.writer = new RowWriter(expectedBytes);
  }

  /** Counts rows that the caller is about to write. */
  add(rows: number, timeFrom: number, timeTo: number): RowWriter {
    this.rows += rows;
    if (timeFrom < this.#timeFrom) this.#timeFrom = timeFrom;
    if (timeTo > this.#timeTo) this.#timeTo = timeTo;
    return this.writer;
  }

  part(): FormedPart {
    return {
      table: this.#table,
      partition: this.#partition,
      columns: this.#columns,
      body: this.writer.bytes,
      rows: this.rows,
      places: this.places,
      time_from: this.#timeFrom,
      time_to: this.#timeTo,
    };
  }
}

/** A rejected record in printable form: truncated, and without invalid characters. */
function printable(line: string): string {
  const text = line.length > deadLetterCharsMax ? cut(line, deadLetterCharsMax) : line;
  return Buffer.from(text).toString();
}
