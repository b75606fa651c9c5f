/** From frames to the bodies of inserts: decode, enrich, rows, one part per table and ClickHouse partition. */

import { tableOf } from '#clickhouse/rollups.ts';
import { type ByteText, RowWriter } from '#clickhouse/row-binary.ts';
import { type BatchName, deadLetterColumns, monthOf, type RowOrigin, writeDeadLetterRow } from '#clickhouse/rows.ts';
import { type EventRow, eventColumns, writeEventRow } from '#clickhouse/rows-events.ts';
import { type InstallRow, installColumns, writeInstallRow } from '#clickhouse/rows-installs.ts';
import { matchColumns, writeMatchRow } from '#clickhouse/rows-matches.ts';
import { clickJson } from '#common/log/click-line.ts';
import { frameRecordsMax, payloadOf } from '#common/log/frame.ts';
import { type Click, cut } from '#common/log/record.ts';
import { type Attribution, decodeSdkRecords, type SdkRecord } from './attribution/attribution.ts';
import { ClickFastPath } from './click-fast-path.ts';
import { ClickRows } from './click-rows.ts';
import type { Erasures } from './erasures.ts';
import type { FormedBatch, FormedPart, LogFrame } from './formed-batch.ts';
import { type RowPlace, rowKey } from './formed-batch.ts';
import { matchRow } from './match-rows.ts';
import type { PipelineRun } from './pipeline.ts';
import { decodeClick, decodeClicks, isRejection, type RejectionReason } from './record-decoder.ts';
import { dayOf, type Visitors } from './steps/visitor.ts';

export interface FormerOptions {
  readonly pipeline: PipelineRun;
  readonly visitors: Visitors;
  /** The UTC days of clicks, each prepared before its clicks are enriched. */
  readonly days: {
    readonly has: (day: number) => boolean;
    prepare(days: ReadonlySet<number>): Promise<void>;
  };
  /** Makes rows of installs and events. */
  readonly attribution: Attribution;
  /** Who was erased; nobody if absent. */
  readonly erasures?: Erasures;
}

/** Longest part of a bad record that is kept. */
const deadLetterCharsMax = 4_096;

/** A row of a click is a little shorter than its record; few are longer. */
const rowBytesPerClickByte = 1.05;

class PartBody {
  readonly table: string;
  readonly partition: string;
  readonly columns: readonly string[];
  readonly writer: RowWriter;
  rows = 0;
  timeFrom = Number.POSITIVE_INFINITY;
  timeTo = 0;

  constructor(table: string, partition: string, columns: readonly string[], expectedBytes: number) {
    this.table = table;
    this.partition = partition;
    this.columns = columns;
    this.writer = new RowWriter(expectedBytes);
  }

  /** Where each row begins; only when asked for. */
  readonly places: RowPlace[] = [];

  /** Counts a row that is about to be written. */
  add(time: number): RowWriter {
    return this.addSome(1, time, time);
  }

  addSome(rows: number, timeFrom: number, timeTo: number): RowWriter {
    this.rows += rows;
    if (timeFrom < this.timeFrom) this.timeFrom = timeFrom;
    if (timeTo > this.timeTo) this.timeTo = timeTo;
    return this.writer;
  }
}

export interface FormChanges {
  /** Keys of rows that ClickHouse refuses: they become dead letters. */
  readonly refused?: ReadonlySet<string>;
  /** Keys of rows that are stored already, as rows or as dead letters: they are left out. */
  readonly stored?: ReadonlySet<string>;
  /** Whether parts say where each row begins. */
  readonly isPlaced?: boolean;
}

interface RowsOfFrame {
  readonly rows: ByteText;
  readonly timeFrom: number;
  readonly timeTo: number;
}

/** A batch that is being formed. */
class Forming {
  readonly batch: BatchName;
  readonly fromSdks: SdkRecord[] = [];
  readonly rejections = new Map<RejectionReason, number>();
  readonly #changes: FormChanges;
  readonly #isErased: (frame: LogFrame) => boolean;
  /** Of the frames: about what the rows of a batch of clicks take. */
  #clickBytes = 0;
  readonly #bodies = new Map<string, PartBody>();

  constructor(
    batch: BatchName,
    frames: readonly LogFrame[],
    changes: FormChanges,
    /** Whether a frame may hold records of somebody who was erased: what is refused of it is not kept. */
    isErased: (frame: LogFrame) => boolean,
  ) {
    this.#isErased = isErased;
    this.batch = batch;
    this.#changes = changes;
    for (const { header, bytes } of frames) if (header.kind === 'click') this.#clickBytes += bytes.length;
  }

  /** Where the next row of a table goes; `undefined` for one that ClickHouse refuses. */
  row(table: string, columns: readonly string[], time: number, origin: RowOrigin): RowWriter | undefined {
    const body = this.#bodyFor(table, columns, time);
    const { refused, isPlaced } = this.#changes;
    if (refused !== undefined || isPlaced === true) {
      const key = rowKey(table, origin.producer_id, origin.frame_no, origin.idx);
      if (refused?.has(key) === true) return undefined;
      body.places.push({ start: body.writer.bytes.length, key });
    }
    return body.add(time);
  }

  /** Whether rows are left out, or their places are wanted. */
  get isChanged(): boolean {
    const { refused, stored, isPlaced } = this.#changes;
    return refused !== undefined || stored !== undefined || isPlaced === true;
  }

  isStored(table: string, { producer_id, frame_no, idx }: RowOrigin): boolean {
    return this.#changes.stored?.has(rowKey(table, producer_id, frame_no, idx)) ?? false;
  }

  /** @returns false when they are of more than one partition. */
  addClicks({ rows, timeFrom, timeTo }: RowsOfFrame, columns: readonly string[], count: number): boolean {
    if (monthOf(timeFrom) !== monthOf(timeTo)) return false;
    const body = this.#bodyFor('clicks', columns, timeFrom);
    body.addSome(count, timeFrom, timeTo).encoded(rows);
    return true;
  }

  #bodyFor(table: string, columns: readonly string[], time: number): PartBody {
    const partition = monthOf(time);
    const key = table + partition;
    let body = this.#bodies.get(key);
    if (body === undefined) {
      body = new PartBody(table, partition, columns, table === 'clicks' ? this.#clickBytes * rowBytesPerClickByte : 0);
      this.#bodies.set(key, body);
    }
    return body;
  }

  reject(frame: LogFrame, idx: number, line: string, reason: RejectionReason): void {
    const { kind, producer_id, frame_no, written_at: time } = frame.header;
    if (this.isStored(tableOf(kind), { producer_id, frame_no, idx })) return;
    this.rejections.set(reason, (this.rejections.get(reason) ?? 0) + 1);
    const row = { producer_id, frame_no, idx, kind, reason, time, record: this.#isErased(frame) ? '' : kept(line) };
    writeDeadLetterRow(this.#bodyFor('dead_letters', deadLetterColumns, time).add(time), row, this.batch);
  }

  /** What is sent, in the order in which tables were met. */
  parts(): FormedPart[] {
    return [...this.#bodies.values()].filter((body) => body.rows > 0).map(partOf);
  }
}

export class BatchFormer {
  readonly #options: FormerOptions;
  readonly #clickRows: ClickRows;
  readonly #fastPath: ClickFastPath;

  constructor(options: FormerOptions) {
    this.#options = options;
    const { pipeline, visitors, days } = options;
    this.#clickRows = new ClickRows(pipeline);
    this.#fastPath = new ClickFastPath({ clickRows: this.#clickRows, pipeline, visitors, isDayKnown: days.has });
  }

  /** Before the first batch after a partition was taken, and again once what its last owner left was settled. */
  async begin(partition: number, untilMs: number): Promise<void> {
    await this.#options.erasures?.refresh();
    await this.#options.attribution.begin(partition, untilMs);
  }

  /** @param frames of one partition. */
  async form(batch: BatchName, frames: readonly LogFrame[], changes: FormChanges = {}): Promise<FormedBatch> {
    const isErased = (frame: LogFrame) => this.#options.erasures?.mayCover(frame.header.written_at) === true;
    const forming = new Forming(batch, frames, changes, isErased);
    for (const frame of frames) {
      if (frame.header.kind === 'click') {
        if (!(await this.#addPlainClicks(forming, frame))) await this.#addClicks(forming, frame);
      } else if (frame.header.kind === 'match') this.#addMatches(forming, frame);
      else addSdkRecords(forming, frame, frame.header.kind);
    }
    const { installs, events } = await this.#options.attribution.rows(batch.partition, forming.fromSdks);
    const { erasures } = this.#options;
    for (const found of installs) {
      const row = erasures?.install(found) ?? found;
      if (forming.isStored('installs', row)) continue;
      const into = forming.row('installs', installColumns, row.time, row);
      if (into === undefined) rejectSdkRow(forming, frames, 'install', row);
      else writeInstallRow(into, row, batch);
    }
    for (const found of events) {
      const row = erasures?.event(found) ?? found;
      if (forming.isStored('events', row)) continue;
      const into = forming.row('events', eventColumns, row.time, row);
      if (into === undefined) rejectSdkRow(forming, frames, 'event', row);
      else writeEventRow(into, row, batch);
    }
    const parts = forming.parts();
    return {
      batch,
      frames,
      parts,
      streamTime: Math.max(0, ...frames.map((frame) => frame.streamTime)),
      rows: parts.reduce((sum, part) => sum + part.rows, 0),
      rejections: forming.rejections,
    };
  }

  /** @returns false when the frame's clicks must be looked at one by one. */
  async #addPlainClicks(forming: Forming, frame: LogFrame): Promise<boolean> {
    const { producer_id, frame_no, records, written_at } = frame.header;
    if (forming.isChanged || this.#options.erasures?.mayCover(written_at) === true) return false;
    const origin = { batch: forming.batch, producer_id, frame_no };
    const payload = payloadOf(frame.bytes, frame.header);
    let read = this.#fastPath.rowsOf(payload, records, origin);
    while (read !== undefined && 'unknownDay' in read) {
      await this.#options.days.prepare(new Set([read.unknownDay]));
      read = this.#fastPath.rowsOf(payload, records, origin);
    }
    return read !== undefined && forming.addClicks(read, this.#clickRows.columns, records);
  }

  #addMatches(forming: Forming, frame: LogFrame): void {
    const { producer_id, frame_no, records } = frame.header;
    const { erasures } = this.#options;
    const lines = linesOf(payloadOf(frame.bytes, frame.header).toString(), records);
    for (const [idx, line] of lines.entries()) {
      const origin = { producer_id, frame_no, idx };
      const read = matchRow(line, origin);
      if ('reason' in read) {
        forming.reject(frame, idx, line, read.reason);
        continue;
      }
      if (forming.isStored('matches', origin)) continue;
      const row = erasures?.match(read) ?? read;
      const into = forming.row('matches', matchColumns, row.time, origin);
      if (into === undefined) forming.reject(frame, idx, JSON.stringify(row), 'refused');
      else writeMatchRow(into, row, forming.batch);
    }
  }

  /** Frame by frame, so that what a frame is made into is thrown away before the next. */
  async #addClicks(forming: Forming, frame: LogFrame): Promise<void> {
    const { producer_id, frame_no, records } = frame.header;
    const text = payloadOf(frame.bytes, frame.header).toString();
    let clicks = decodeClicks(text, records);
    let indexes = inOrder;
    if (clicks === undefined) {
      const found: Click[] = [];
      const places: number[] = [];
      for (const [idx, line] of linesOf(text, records).entries()) {
        const read = decodeClick(line);
        if (isRejection(read)) forming.reject(frame, idx, line, read.reason);
        else places[found.push(read) - 1] = idx;
      }
      [clicks, indexes] = [found, places];
    }
    await this.#options.days.prepare(new Set(clicks.map((click) => dayOf(click.time))));
    const origin = { batch: forming.batch, producer_id, frame_no };
    const { erasures } = this.#options;
    const kept =
      erasures?.mayCover(frame.header.written_at) === true ? clicks.map((one) => erasures.click(one)) : clicks;
    const rows = this.#clickRows.encode(kept, indexes, origin);
    for (const [at, click] of kept.entries()) {
      const idx = indexes[at] ?? 0;
      if (forming.isStored('clicks', { producer_id, frame_no, idx })) continue;
      const into = forming.row('clicks', this.#clickRows.columns, click.time, { producer_id, frame_no, idx });
      if (into === undefined) forming.reject(frame, idx, clickJson(click), 'refused');
      else into.encoded(rows[at] ?? '');
    }
  }
}

/** An install or event that ClickHouse refuses, as it would have been stored. */
function rejectSdkRow(
  forming: Forming,
  frames: readonly LogFrame[],
  kind: 'install' | 'event',
  row: InstallRow | EventRow,
): void {
  const { producer_id, frame_no, idx } = row;
  const frame = frames.find(
    ({ header }) => header.kind === kind && header.producer_id === producer_id && header.frame_no === frame_no,
  );
  if (frame !== undefined) forming.reject(frame, idx, JSON.stringify(row), 'refused');
}

function addSdkRecords(forming: Forming, frame: LogFrame, kind: 'install' | 'event'): void {
  const { producer_id, frame_no, records } = frame.header;
  const lines = linesOf(payloadOf(frame.bytes, frame.header).toString(), records);
  for (const [idx, line] of lines.entries()) {
    for (const read of decodeSdkRecords(kind, line, { producer_id, frame_no, idx })) {
      if ('reason' in read) forming.reject(frame, read.origin.idx, line, read.reason);
      else forming.fromSdks.push(read);
    }
  }
}

function partOf(body: PartBody): FormedPart {
  return {
    table: body.table,
    partition: body.partition,
    columns: body.columns,
    body: body.writer.bytes,
    rows: body.rows,
    places: body.places,
    time_from: body.timeFrom,
    time_to: body.timeTo,
  };
}

const inOrder: readonly number[] = Array.from({ length: frameRecordsMax }, (_, idx) => idx);

/** Each line of a frame; those that its header announces and that are not there are empty. */
function linesOf(text: string, records: number): string[] {
  const lines = text.split('\n');
  if (lines.at(-1) === '') lines.pop();
  while (lines.length < records) lines.push('');
  return lines;
}

/** A bad record as far as it can be shown: cut, and without what is no character. */
function kept(line: string): string {
  const text = line.length > deadLetterCharsMax ? cut(line, deadLetterCharsMax) : line;
  return Buffer.from(text).toString();
}
