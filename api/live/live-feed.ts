/**
 * Streams records as they are written to the log. One reader of the log serves all clients of the process; it and its
 * connection exist only while there is a client. Nothing waits for a client, and edge and ingest processes do not know
 * about clients.
 *
 * A client that resumes from a position reads the log separately, until it has caught up with the shared reader.
 */
import { payloadOf, readFrame } from '#common/log/frame.ts';
import type { RecordKind } from '#common/log/record.ts';
import { Nats } from '#common/stores/nats.ts';
import { sleep, systemTime } from '#common/time.ts';
import { type LiveRecord, liveRecordOf } from './live-record.ts';
import { type LiveFilter, LiveStream, positionText, type RecordPosition, recordsPerSecondMax } from './live-stream.ts';
import { isAfter, type LogPosition, readTail, type TailItem, TailLost } from './log-tail.ts';

export interface LiveFeedOptions {
  /** If empty, there is no live feed. */
  readonly natsUrl: string;
  readonly installation: string;
  readonly log: { warn(fields: object, message: string): void };
  readonly onNatsError: (error: unknown) => void;
  readonly heartbeatMs?: number;
}

export const streamsMax = 200;
export const streamsPerCallerMax = 10;
/** So that one tenant leaves streams to others. */
export const streamsPerOrganizationMax = 20;
/** Servers and proxies close connections that are silent for longer. */
const defaultHeartbeatMs = 5_000;
/** How often permissions are checked again. */
const checkMs = 500;
/** How far back a client can resume. */
export const replayMsMax = 300_000;
/** If the shared reader is further behind than this, it skips to the end. */
const lagMsMax = 10_000;
/** Clocks of machines differ by less than this. */
const clockSkewMs = 2_000;
const retryMs = 1_000;

export interface LiveClient {
  /** Id of the user or the server key. */
  readonly callerId: string;
  readonly filter: LiveFilter;
  /** The last position that the client has seen; null: it starts now. */
  readonly after: RecordPosition | null;
  /** The stream ends after this time; 0: after sending what the log holds. */
  readonly seconds: number;
  /** Whether the client may still watch. */
  readonly mayWatch: () => Promise<boolean>;
}

type Message = Extract<TailItem, { state: 'message' }>;

/** The shared reader, from the first client to the last. */
interface Run {
  readonly ending: AbortController;
  /** The connection, once it is reading; null if the log cannot be read. */
  readonly nats: Promise<Nats | null>;
  ended: Promise<void>;
}

export class LiveFeed {
  readonly #options: LiveFeedOptions;
  readonly #streams = new Map<LiveStream, LiveClient>();
  /** Whose permissions are being checked. */
  readonly #asked = new Set<LiveStream>();
  #run: Run | null = null;
  #isStopped = false;
  /** The last message that the shared reader has read. */
  #position: LogPosition | null = null;
  /** When the reader was last known to be at the end of the log. */
  #idleMs = 0;

  constructor(options: LiveFeedOptions) {
    this.#options = options;
  }

  get isConfigured(): boolean {
    return this.#options.natsUrl !== '';
  }

  /** Number of readers of the log, for tests that show that there is none without a client. */
  get isReading(): boolean {
    return this.#run !== null;
  }

  /** Adds a client. `full`: the caller, an organization or the process has too many streams; `unavailable`: the log can't be read. */
  async open(client: LiveClient): Promise<LiveStream | 'full' | 'unavailable'> {
    if (!this.isConfigured || this.#isStopped) return 'unavailable';
    if (this.#isFullFor(client)) return 'full';
    const { filter, after, seconds } = client;
    const stream = new LiveStream(filter, after);
    this.#streams.set(stream, client);
    stream.signal.addEventListener('abort', () => this.#leave(stream), { once: true });
    while (this.#run?.ending.signal.aborted) await this.#run.ended;
    this.#run ??= this.#begin();
    const nats = await this.#run.nats;
    if (nats === null) {
      stream.end();
      return 'unavailable';
    }
    stream.send(helloText(after ?? this.now()));
    if (seconds > 0) stream.endAfter(seconds * 1_000);
    if (after !== null) void this.#replay(nats, stream, after);
    else if (seconds === 0) stream.end();
    return stream;
  }

  #isFullFor({ callerId, filter }: LiveClient): boolean {
    const clients = [...this.#streams.values()];
    const own = clients.filter((one) => one.callerId === callerId).length;
    const isFull = (organization: string) =>
      clients.filter((one) => one.filter.organizationIds.includes(organization)).length >= streamsPerOrganizationMax;
    return clients.length >= streamsMax || own >= streamsPerCallerMax || filter.organizationIds.some(isFull);
  }

  /** Ends all streams. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    for (const stream of this.#streams.keys()) stream.end();
    await this.#run?.ended;
  }

  /** The position of the shared reader: a client that resumes from it misses nothing. */
  now(): RecordPosition {
    const idleMs = (this.#idleMs || Date.now()) - clockSkewMs;
    const position = this.#position;
    if (position === null || position.timeMs < idleMs) return { timeMs: idleMs, sequence: 0, record: 0 };
    return { ...position, record: RECORDS_END };
  }

  #leave(stream: LiveStream): void {
    this.#streams.delete(stream);
    if (this.#streams.size === 0) this.#run?.ending.abort();
  }

  #begin(): Run {
    const ending = new AbortController();
    let settle: (nats: Nats | null) => void = () => undefined;
    const nats = new Promise<Nats | null>((resolve) => {
      settle = resolve;
    });
    const run: Run = { ending, nats, ended: Promise.resolve() };
    const heart = setInterval(() => this.#beat(), this.#options.heartbeatMs ?? defaultHeartbeatMs);
    const checks = setInterval(() => this.#check(), checkMs);
    run.ended = this.#read(ending.signal, settle).finally(() => {
      clearInterval(heart);
      clearInterval(checks);
      settle(null);
      this.#run = null;
      this.#position = null;
      this.#idleMs = 0;
    });
    return run;
  }

  #beat(): void {
    const position = this.now();
    for (const stream of this.#streams.keys()) {
      if (stream.isReplaying) continue;
      stream.endSecond(Date.now());
      stream.send(`id: ${positionText(position)}\n\n`);
    }
  }

  /** Ends the streams of clients that may not watch any more. While Postgres is slow, a stream is asked about once. */
  #check(): void {
    for (const [stream, client] of this.#streams) {
      if (this.#asked.has(stream)) continue;
      this.#asked.add(stream);
      const ended = client.mayWatch().then((mayWatch) => {
        if (!mayWatch) stream.end();
      });
      void ended.finally(() => this.#asked.delete(stream));
    }
  }

  async #read(signal: AbortSignal, opened: (nats: Nats) => void): Promise<void> {
    const { natsUrl: url, installation, log, onNatsError } = this.#options;
    let nats: Nats;
    try {
      nats = await Nats.connect({ url, name: 'live', installation, onRefusal: onNatsError, waitsForServer: false });
    } catch (error) {
      onNatsError(error);
      return;
    }
    try {
      let isOpen = false;
      while (!signal.aborted) {
        try {
          for await (const item of readTail(nats, this.#restart(), signal)) {
            if (item.state === 'opened') opened(nats);
            isOpen = true;
            this.#take(item);
          }
        } catch (error) {
          if (!(error instanceof TailLost)) throw error;
          log.warn({ reason: error.message }, 'the live feed lost the log; reading it again');
          if (!isOpen) return;
          await sleep(systemTime, retryMs);
        }
      }
    } finally {
      await nats.close();
    }
  }

  /** Where reading resumes after it was interrupted; null: the end of the log. */
  #restart(): number | null {
    const fromMs = Math.max(this.#position?.timeMs ?? 0, this.#idleMs - clockSkewMs);
    if (fromMs <= 0) return null;
    if (Date.now() - fromMs <= lagMsMax) return fromMs;
    for (const stream of this.#streams.keys()) if (!stream.isReplaying) stream.send(gapText(fromMs, Date.now()));
    return null;
  }

  #take(item: TailItem): void {
    if (item.state === 'idle') this.#idleMs = Date.now();
    if (item.state !== 'message') return;
    if (this.#position !== null && !isAfter(item.position, this.#position)) return;
    this.#position = item.position;
    const live = [...this.#streams.keys()].filter((stream) => !stream.isReplaying);
    this.#give(item, live);
  }

  async #replay(nats: Nats, stream: LiveStream, after: RecordPosition): Promise<void> {
    const fromMs = Math.max(after.timeMs, Date.now() - replayMsMax);
    if (fromMs > after.timeMs) stream.send(gapText(after.timeMs, fromMs));
    let idles = 0;
    try {
      for await (const item of readTail(nats, fromMs, stream.signal)) {
        if (item.state === 'message') {
          this.#give(item, [stream]);
          await stream.room();
        }
        if (item.state === 'idle') idles++;
        const isAtEnd = idles > 0 || (item.state === 'message' && item.isLast);
        const shared = this.#position;
        const hasReached = shared === null ? isAtEnd : !isAfter(shared, stream.reached);
        // Reads twice, because records of the shared reader may have arrived in between; otherwise they were purged.
        if (hasReached || idles > 1) break;
      }
    } catch (error) {
      if (!(error instanceof TailLost)) throw error;
      stream.send(gapText(stream.reached.timeMs, Date.now()));
    }
    stream.isReplaying = false;
    if (this.#streams.get(stream)?.seconds === 0) stream.end();
  }

  /** Sends the records of a message to the clients that want them. A message in another format has none. */
  #give(message: Message, streams: readonly LiveStream[]): void {
    const { bytes, position } = message;
    let record = 0;
    for (let at = 0; at < bytes.length; ) {
      const read = readFrame(bytes, at);
      if (read.state !== 'frame') break;
      const payload = payloadOf(bytes, read.header, at);
      const wanting = wantedBy(payload, streams);
      if (wanting.length > 0) giveLines(payload, read.header.kind, position, record, wanting);
      record += read.header.records;
      at += read.bytes;
    }
    for (const stream of streams) stream.reached = { ...position, record: RECORDS_END };
  }
}

/** The position after the last record of any message. */
const RECORDS_END = 999_999_999;

/** Clients of an organization whose id appears in the frame. */
function wantedBy(payload: Buffer, streams: readonly LiveStream[]): LiveStream[] {
  const has = new Map<string, boolean>();
  return streams.filter(({ filter }) =>
    filter.organizationIds.some((id) => {
      const known = has.get(id) ?? payload.includes(id);
      has.set(id, known);
      return known;
    }),
  );
}

function giveLines(
  payload: Buffer,
  kind: RecordKind,
  { timeMs, sequence }: LogPosition,
  first: number,
  streams: readonly LiveStream[],
): void {
  let record = first;
  for (const line of payload.toString('utf8').split('\n')) {
    if (line === '') continue;
    const here = { timeMs, sequence, record: record++ };
    let parsed: LiveRecord | null | undefined;
    for (const stream of streams) {
      if (!isLater(here, stream.reached) || !stream.mayWant(line) || !stream.samples(timeMs)) continue;
      parsed ??= liveRecordOf(kind, line);
      if (parsed !== null && stream.wants(parsed)) stream.send(recordText(here, parsed));
    }
  }
}

function isLater(one: RecordPosition, other: RecordPosition): boolean {
  return isAfter(one, other) || (!isAfter(other, one) && one.record > other.record);
}

/** Null fields and empty strings are omitted. */
function recordText(position: RecordPosition, { kind, app_id, link_id, shown }: LiveRecord): string {
  const data = JSON.stringify({ app_id, link_id, ...shown }, (_key, value: unknown) =>
    value === '' ? undefined : value,
  );
  return `id: ${positionText(position)}\nevent: ${kind}\ndata: ${data}\n\n`;
}

function gapText(fromMs: number, toMs: number): string {
  const data = { from: new Date(fromMs).toISOString(), to: new Date(toMs).toISOString() };
  return `event: gap\ndata: ${JSON.stringify(data)}\n\n`;
}

/** The first event of a stream. */
function helloText(position: RecordPosition): string {
  const data = JSON.stringify({ records_per_second_max: recordsPerSecondMax });
  return `retry: 2000\nid: ${positionText(position)}\nevent: hello\ndata: ${data}\n\n`;
}
