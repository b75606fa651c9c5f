/**
 * Forms a batch: reads the records of its frames, enriches them, and encodes them as rows, one body per table and
 * month.
 *
 *   click            fast path, or: decode ▶ erase ▶ enrichment.ts ▶ row
 *   install, event   decode ▶ drop repeats ▶ find click and install (attribution/) ▶ erase ▶ row
 *   match            decode ▶ truncate the address ▶ erase ▶ row
 *
 * A record that cannot be decoded, and a row that ClickHouse refuses, becomes a dead letter.
 */
import type { BatchName } from '#clickhouse/rows.ts';
import { type EventRow, eventColumns, writeEventRow } from '#clickhouse/rows-events.ts';
import { type InstallRow, installColumns, writeInstallRow } from '#clickhouse/rows-installs.ts';
import { matchColumns, writeMatchRow } from '#clickhouse/rows-matches.ts';
import { HOUR_MS } from '#common/durations.ts';
import { EVENT_AGE_MAX_MS } from '#common/event-time.ts';
import { clickJson } from '#common/log/click-line.ts';
import { frameRecordsMax, payloadOf } from '#common/log/frame.ts';
import type { Click } from '#common/log/record.ts';
import { type Attribution, decodeSdkRecords, type SdkRecord } from './attribution/attribution.ts';
import { BatchBuilder, type FormChanges } from './batch-builder.ts';
import { ClickFastPath } from './click-fast-path.ts';
import { ClickRows } from './click-rows.ts';
import type { Enrichment } from './enrichment.ts';
import type { Erasures } from './erasures.ts';
import { type FormedBatch, type LogFrame, streamTimeOf } from './formed-batch.ts';
import { timeWithin } from './frame-clock.ts';
import { matchRow } from './match-rows.ts';
import { decodeClick, decodeClicks, isRejection } from './record-decoder.ts';
import type { Retention } from './retention.ts';
import { dayOf, type Visitors } from './visitors.ts';

export interface FormerOptions {
  readonly enrichment: Enrichment;
  readonly visitors: Visitors;
  /** The UTC days of clicks; each must be prepared before its clicks are enriched. */
  readonly days: {
    readonly has: (day: number) => boolean;
    prepare(days: ReadonlySet<number>): Promise<void>;
  };
  /** Turns installs and events into rows. */
  readonly attribution: Attribution;
  /** Visitors to erase; none if absent. */
  readonly erasures?: Erasures;
  /** If absent, rows of any age are stored. */
  readonly retention?: Pick<Retention, 'refresh' | 'oldestOf'>;
}

export class BatchFormer {
  readonly #options: FormerOptions;
  readonly #clickRows: ClickRows;
  readonly #fastPath: ClickFastPath;

  constructor(options: FormerOptions) {
    this.#options = options;
    const { enrichment, visitors, days } = options;
    this.#clickRows = new ClickRows(enrichment);
    this.#fastPath = new ClickFastPath({ clickRows: this.#clickRows, enrichment, visitors, isDayKnown: days.has });
  }

  /** Called when a partition is acquired, before its first batch. */
  async begin(partition: number, untilMs: number): Promise<void> {
    await this.#options.erasures?.refresh();
    await this.#options.retention?.refresh();
    await this.#options.attribution.begin(partition, untilMs);
  }

  /** @param frames frames of one partition. */
  async form(batch: BatchName, frames: readonly LogFrame[], changes: FormChanges = {}): Promise<FormedBatch> {
    const builder = new BatchBuilder(batch, frames, changes, (frame) => this.#isErased(frame));
    const fromSdks: SdkRecord[] = [];
    for (const frame of frames) {
      if (frame.header.kind === 'click') {
        if (!(await this.#addPlainClicks(builder, frame))) await this.#addClicks(builder, frame);
      } else if (frame.header.kind === 'match') this.#addMatches(builder, frame);
      else this.#addSdkRecords(fromSdks, builder, frame, frame.header.kind);
    }
    await this.#addSdkRows(builder, frames, fromSdks);
    const parts = builder.parts();
    return {
      batch,
      frames,
      parts,
      streamTime: streamTimeOf(frames),
      rows: parts.reduce((sum, part) => sum + part.rows, 0),
      rejections: builder.rejections,
    };
  }

  /** Whether a frame may contain records of an erased visitor. */
  #isErased(frame: LogFrame): boolean {
    return this.#options.erasures?.mayCover(frame.header.written_at) === true;
  }

  /** Rows of a frame with an earlier time would be dropped at once. */
  #oldestIn({ header }: LogFrame): number {
    return this.#options.retention?.oldestOf(header.kind) ?? 0;
  }

  /** @returns false if the frame's clicks must be read one by one. */
  async #addPlainClicks(builder: BatchBuilder, frame: LogFrame): Promise<boolean> {
    if (builder.isChanged || this.#isErased(frame)) return false;
    const { producer_id, frame_no, records } = frame.header;
    const origin = { batch: builder.batch, producer_id, frame_no };
    const payload = payloadOf(frame.bytes, frame.header);
    let read = this.#fastPath.rowsOf(payload, records, origin);
    while (read !== undefined && 'unknownDay' in read) {
      await this.#options.days.prepare(new Set([read.unknownDay]));
      read = this.#fastPath.rowsOf(payload, records, origin);
    }
    if (read === undefined) return false;
    const oldest = this.#oldestIn(frame);
    const isPossible = (time: number) => timeWithin(time, frame.header.written_at, oldest) === time;
    if (!isPossible(read.timeFrom) || !isPossible(read.timeTo)) return false;
    return builder.addClicks(read, this.#clickRows.columns, records);
  }

  /** Handles one frame at a time, so that its objects are garbage before the next frame is read. */
  async #addClicks(builder: BatchBuilder, frame: LogFrame): Promise<void> {
    const { producer_id, frame_no } = frame.header;
    const [read, indexes] = clicksOf(builder, frame);
    const oldest = this.#oldestIn(frame);
    const clicks = read.map((click) => inTime(click, frame, oldest));
    await this.#options.days.prepare(new Set(clicks.map((click) => dayOf(click.time))));
    const { erasures } = this.#options;
    const kept = erasures !== undefined && this.#isErased(frame) ? clicks.map((one) => erasures.click(one)) : clicks;
    const rows = this.#clickRows.encode(kept, indexes, { batch: builder.batch, producer_id, frame_no });
    for (const [at, click] of kept.entries()) {
      const origin = { producer_id, frame_no, idx: indexes[at] ?? 0 };
      if (builder.isStored('clicks', origin)) continue;
      const into = builder.row('clicks', this.#clickRows.columns, click.time, origin);
      if (into === undefined) builder.reject(frame, origin.idx, clickJson(click), 'refused');
      else into.encoded(rows[at] ?? '');
    }
  }

  #addMatches(builder: BatchBuilder, frame: LogFrame): void {
    const { producer_id, frame_no } = frame.header;
    const { erasures } = this.#options;
    const oldest = this.#oldestIn(frame);
    for (const [idx, line] of linesOf(frame).entries()) {
      const origin = { producer_id, frame_no, idx };
      const read = matchRow(line, origin);
      if ('reason' in read) {
        builder.reject(frame, idx, line, read.reason);
        continue;
      }
      if (builder.isStored('matches', origin)) continue;
      const match = inTime(read, frame, oldest);
      const row = erasures?.match(match) ?? match;
      const into = builder.row('matches', matchColumns, row.time, origin);
      if (into === undefined) builder.reject(frame, idx, JSON.stringify(row), 'refused');
      else writeMatchRow(into, row, builder.batch);
    }
  }

  /** Adds the valid installs or events of a frame, and rejects the others. */
  #addSdkRecords(to: SdkRecord[], builder: BatchBuilder, frame: LogFrame, kind: SdkRecord['kind']): void {
    const { producer_id, frame_no } = frame.header;
    const oldest = this.#oldestIn(frame);
    for (const [idx, line] of linesOf(frame).entries()) {
      for (const read of decodeSdkRecords(kind, line, { producer_id, frame_no, idx })) {
        if ('reason' in read) builder.reject(frame, read.origin.idx, line, read.reason);
        else if (isKept(read, frame, oldest)) to.push(read);
        else builder.reject(frame, read.origin.idx, line, 'too_old');
      }
    }
  }

  async #addSdkRows(builder: BatchBuilder, frames: readonly LogFrame[], records: readonly SdkRecord[]): Promise<void> {
    const { installs, events } = await this.#options.attribution.rows(builder.batch.partition, records);
    const { erasures } = this.#options;
    for (const found of installs) {
      const row = erasures?.install(found) ?? found;
      if (builder.isStored('installs', row)) continue;
      const into = builder.row('installs', installColumns, row.time, row);
      if (into === undefined) rejectSdkRow(builder, frames, 'install', row);
      else writeInstallRow(into, row, builder.batch);
    }
    for (const found of events) {
      const row = erasures?.event(found) ?? found;
      if (builder.isStored('events', row)) continue;
      const into = builder.row('events', eventColumns, row.time, row);
      if (into === undefined) rejectSdkRow(builder, frames, 'event', row);
      else writeEventRow(into, row, builder.batch);
    }
  }
}

/** Turns an install or event that ClickHouse refuses into a dead letter, which contains the row. */
function rejectSdkRow(
  builder: BatchBuilder,
  frames: readonly LogFrame[],
  kind: 'install' | 'event',
  row: InstallRow | EventRow,
): void {
  const { producer_id, frame_no, idx } = row;
  const frame = frames.find(
    ({ header }) => header.kind === kind && header.producer_id === producer_id && header.frame_no === frame_no,
  );
  if (frame !== undefined) builder.reject(frame, idx, JSON.stringify(row), 'refused');
}

/** An edge whose clock jumps may write one time in a record and another in its frame. */
function inTime<T extends { readonly time: number }>(record: T, { header }: LogFrame, oldest: number): T {
  const time = timeWithin(record.time, header.written_at, oldest);
  return record.time === time ? record : { ...record, time };
}

/**
 * Bounds the times of an install or event that its edge wrote. @returns false for an event that happened, according to
 * its app, so long ago that ClickHouse would drop it at once.
 */
function isKept({ kind, record }: SdkRecord, { header }: LogFrame, oldest: number): boolean {
  if (kind === 'install') {
    record.time = timeWithin(record.time, header.written_at, oldest);
    record.installed_at = timeWithin(record.installed_at, record.time, 0);
  } else {
    record.received_at = timeWithin(record.received_at, header.written_at, oldest);
    // An edge also accepts what only its store's clock finds possible.
    record.time = timeWithin(record.time, record.received_at, record.received_at - EVENT_AGE_MAX_MS - HOUR_MS);
  }
  return record.time >= Math.min(oldest, header.written_at);
}

const inOrder: readonly number[] = Array.from({ length: frameRecordsMax }, (_, idx) => idx);

/** The valid clicks of a frame, and the index of each. */
function clicksOf(
  builder: BatchBuilder,
  frame: LogFrame,
): readonly [clicks: readonly Click[], indexes: readonly number[]] {
  const all = decodeClicks(payloadOf(frame.bytes, frame.header).toString(), frame.header.records);
  if (all !== undefined) return [all, inOrder];
  const clicks: Click[] = [];
  const indexes: number[] = [];
  for (const [idx, line] of linesOf(frame).entries()) {
    const read = decodeClick(line);
    if (isRejection(read)) builder.reject(frame, idx, line, read.reason);
    else indexes[clicks.push(read) - 1] = idx;
  }
  return [clicks, indexes];
}

/** All lines of a frame. Lines that its header announces but that are missing are empty. */
function linesOf({ bytes, header }: LogFrame): string[] {
  const lines = payloadOf(bytes, header).toString().split('\n');
  if (lines.at(-1) === '') lines.pop();
  while (lines.length < header.records) lines.push('');
  return lines;
}
