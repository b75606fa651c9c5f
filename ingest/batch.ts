/**
 * From frames to the bodies of inserts: decode, enrich, rows, one part per table and ClickHouse partition. The same frames
 * under the same batch id give the same bytes, so a batch can be formed again after a crash.
 */
import { createHash } from 'node:crypto';
import { RowWriter } from '#clickhouse/row-binary.ts';
import {
  type ClickRow,
  clickColumns,
  deadLetterColumns,
  partitionOf,
  type RowOrigin,
  writeClickRow,
  writeDeadLetterRow,
} from '#clickhouse/rows.ts';
import { eventColumns, writeEventRow } from '#clickhouse/rows-events.ts';
import { installColumns, writeInstallRow } from '#clickhouse/rows-installs.ts';
import { type FrameHeader, payloadOf } from '#common/log/frame.ts';
import { type Click, cut } from '#common/log/record.ts';
import { type Attribution, decodeSdkRecord, type SdkRecord } from './attribution/attribution.ts';
import type { BatchPart, FrameRun } from './checkpoints.ts';
import type { EnrichedClick, PipelineRun } from './pipeline.ts';
import { decodeClick, isRejection, type RejectionReason } from './record-decoder.ts';
import { dayOf } from './steps/address.ts';

/** A frame as it came out of the log. */
export interface LogFrame {
  readonly header: FrameHeader;
  readonly bytes: Buffer;
  /** When the log took it, epoch ms. */
  readonly streamTime: number;
}

export interface FormedPart extends BatchPart {
  readonly columns: readonly string[];
  readonly body: Buffer;
}

export interface FormedBatch {
  readonly batchId: string;
  readonly frames: readonly LogFrame[];
  readonly parts: readonly FormedPart[];
  readonly streamTime: number;
  readonly rows: number;
  readonly rejections: ReadonlyMap<RejectionReason, number>;
}

export interface FormerOptions {
  readonly pipeline: PipelineRun;
  /** Called with the UTC days of a batch before it is enriched. */
  readonly prepareDays: (days: ReadonlySet<number>) => Promise<void>;
  /** Makes rows of installs and events. */
  readonly attribution: Attribution;
}

/** Longest part of a bad record that is kept. */
const deadLetterCharsMax = 4_096;

class PartBody {
  readonly table: string;
  readonly partition: string;
  readonly columns: readonly string[];
  readonly writer = new RowWriter();
  rows = 0;
  timeFrom = Number.POSITIVE_INFINITY;
  timeTo = 0;

  constructor(table: string, partition: string, columns: readonly string[]) {
    this.table = table;
    this.partition = partition;
    this.columns = columns;
  }

  /** Counts a row that is about to be written. */
  add(time: number): RowWriter {
    this.rows++;
    if (time < this.timeFrom) this.timeFrom = time;
    if (time > this.timeTo) this.timeTo = time;
    return this.writer;
  }
}

export class BatchFormer {
  readonly #options: FormerOptions;

  constructor(options: FormerOptions) {
    this.#options = options;
  }

  /** Before the first batch after a partition was taken, and again once what its last owner left was settled. */
  async begin(nowMs: number): Promise<void> {
    await this.#options.attribution.begin(nowMs);
  }

  async form(batchId: string, frames: readonly LogFrame[]): Promise<FormedBatch> {
    const bodies = new Map<string, PartBody>();
    const bodyFor = (table: string, columns: readonly string[], time: number): PartBody => {
      const partition = partitionOf(time);
      const key = table + partition;
      let body = bodies.get(key);
      if (body === undefined) {
        body = new PartBody(table, partition, columns);
        bodies.set(key, body);
      }
      return body;
    };
    const clicks: EnrichedClick[] = [];
    const fromSdks: SdkRecord[] = [];
    const rejections = new Map<RejectionReason, number>();
    for (const frame of frames) {
      readRecords(frame, (line, origin) => {
        const { kind } = frame.header;
        const read = kind === 'click' ? decodeClick(line) : decodeSdkRecord(kind, line, origin);
        if (!isRejection(read)) {
          if ('record' in read) fromSdks.push(read);
          else clicks.push({ click: read, row: clickRow(read, origin) });
          return;
        }
        rejections.set(read.reason, (rejections.get(read.reason) ?? 0) + 1);
        const time = frame.header.written_at;
        const row = { ...origin, kind, reason: read.reason, time, record: kept(line) };
        writeDeadLetterRow(bodyFor('dead_letters', deadLetterColumns, time).add(time), row, batchId);
      });
    }
    await this.#options.prepareDays(new Set(clicks.map(({ click }) => dayOf(click.time))));
    this.#options.pipeline.run(clicks);
    for (const { row } of clicks) writeClickRow(bodyFor('clicks', clickColumns, row.time).add(row.time), row, batchId);
    const { installs, events } = await this.#options.attribution.rows(fromSdks);
    for (const row of installs)
      writeInstallRow(bodyFor('installs', installColumns, row.time).add(row.time), row, batchId);
    for (const row of events) writeEventRow(bodyFor('events', eventColumns, row.time).add(row.time), row, batchId);
    return {
      batchId,
      frames,
      parts: [...bodies.values()].map((body) => partOf(body, batchId)),
      streamTime: Math.max(0, ...frames.map((frame) => frame.streamTime)),
      rows: [...bodies.values()].reduce((sum, body) => sum + body.rows, 0),
      rejections,
    };
  }
}

function partOf(body: PartBody, batchId: string): FormedPart {
  const { bytes } = body.writer;
  return {
    table: body.table,
    partition: body.partition,
    columns: body.columns,
    body: bytes,
    rows: body.rows,
    sha256: createHash('sha256').update(bytes).digest('hex'),
    token: `${batchId}:${body.table}:${body.partition}`,
    time_from: body.timeFrom,
    time_to: body.timeTo,
  };
}

/** Each line of a frame; those that its header announces and that are not there count as missing. */
function readRecords(frame: LogFrame, read: (line: string, origin: RowOrigin) => void): void {
  const { producer_id, frame_no, records } = frame.header;
  const lines = payloadOf(frame.bytes, frame.header).toString().split('\n');
  if (lines.at(-1) === '') lines.pop();
  for (let idx = 0; idx < lines.length || idx < records; idx++) read(lines[idx] ?? '', { producer_id, frame_no, idx });
}

/** A bad record as far as it can be shown: cut, and without what is no character. */
function kept(line: string): string {
  const text = line.length > deadLetterCharsMax ? cut(line, deadLetterCharsMax) : line;
  return Buffer.from(text).toString();
}

function clickRow(click: Click, origin: RowOrigin): ClickRow {
  return {
    click_id: click.click_id,
    organization_id: click.organization_id,
    app_id: click.app_id,
    link_id: click.link_id,
    time: click.time,
    ip: '',
    user_agent: click.user_agent,
    platform: '',
    os: '',
    os_version: '',
    browser: '',
    device_model: '',
    language: '',
    country: '',
    referrer_host: '',
    campaign: click.campaign,
    utm_source: click.utm_source,
    utm_medium: click.utm_medium,
    utm_campaign: click.utm_campaign,
    utm_term: click.utm_term,
    utm_content: click.utm_content,
    query: click.query,
    trigger: click.trigger,
    is_bot: false,
    bot_reason: '',
    visitor: 0,
    producer_id: origin.producer_id,
    frame_no: origin.frame_no,
    idx: origin.idx,
  };
}

/** Frames in their order as runs of consecutive numbers. */
export function runsOf(frames: readonly LogFrame[]): FrameRun[] {
  const runs: { producer_id: string; kind: FrameRun['kind']; from: number; to: number }[] = [];
  for (const { header } of frames) {
    const last = runs.at(-1);
    const { producer_id, kind, frame_no } = header;
    if (last?.producer_id === producer_id && last.kind === kind && last.to === frame_no - 1) last.to = frame_no;
    else runs.push({ producer_id, kind, from: frame_no, to: frame_no });
  }
  return runs;
}
