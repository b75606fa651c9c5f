/**
 * The log: one JetStream stream with a subject per kind and partition. The first process that needs it creates it; its configuration is
 * read back, because a server silently drops fields it does not know. Settings that an operator may change while there are
 * records in it are changed by ingest only, so that processes with different settings do not conflict.
 */
import { isObject } from '#common/json-object.ts';
import type { NatsClient } from '#common/stores/nats.ts';
import { sleep, systemTime, type Time } from '#common/time.ts';
import type { LogNames } from './log-names.ts';

const duplicateWindowMs = 600_000;
export const logAgeMaxMs = 259_200_000;
const nanosPerMs = 1_000_000;

export interface LogStreamOptions {
  readonly bytesMax: number;
  readonly replicas: number;
}

export type StreamOutcome =
  /** `changed`: what differed from the expected configuration and was updated. */
  | { readonly state: 'ready'; readonly changed: readonly string[]; readonly installationId: string }
  /** It was stamped by another installation. */
  | { readonly state: 'foreign'; readonly installationId: string }
  | { readonly state: 'unavailable'; readonly reason: string }
  | { readonly state: 'different'; readonly fields: readonly string[] };

type StreamConfig = Record<string, unknown>;

/** The process that needs the stream. */
export interface StreamCaller {
  /** Whether to update mutable settings; other processes accept a difference in them. */
  readonly isOwner?: boolean;
  /** The caller's installation: an owner stamps a stream that has no stamp. Empty: any installation is accepted. */
  readonly installationId?: string;
}

/** Changing these of an existing stream loses nothing. */
const changeable = new Set(['max_bytes', 'max_age', 'duplicate_window', 'num_replicas']);

function wanted({ stream, records }: LogNames, options: LogStreamOptions): StreamConfig {
  return {
    name: stream,
    subjects: [records],
    retention: 'limits',
    discard: 'new',
    storage: 'file',
    max_bytes: options.bytesMax,
    max_age: logAgeMaxMs * nanosPerMs,
    max_msgs: -1,
    max_consumers: -1,
    max_msgs_per_subject: -1,
    max_msg_size: -1,
    duplicate_window: duplicateWindowMs * nanosPerMs,
    deny_delete: true,
    num_replicas: options.replicas,
  };
}

function differences(have: StreamConfig, want: StreamConfig): string[] {
  return Object.keys(want).filter((name) => JSON.stringify(have[name]) !== JSON.stringify(want[name]));
}

/** By default, the server limits its storage to three quarters of the free disk. */
function reasonWithRemedy({ reason, errorCode }: JetStreamAnswer): string {
  return errorCode === storageLacks
    ? `${reason}: raise max_file_store of NATS (and its disk), or lower LOG_BYTES_MAX`
    : reason;
}

/**
 * Creates the stream if absent, and compares its configuration with the expected one.
 */
export async function ensureLogStream(
  nats: NatsClient,
  options: LogStreamOptions,
  { isOwner = false, installationId = '' }: StreamCaller,
): Promise<StreamOutcome> {
  const { names } = nats;
  const want = wanted(names, options);
  let info = await askJetStream(nats, names.api('STREAM.INFO'));
  if (info.errorCode === streamNotFound) info = await askJetStream(nats, names.api('STREAM.CREATE'), want);
  const have = configIn(info.answer);
  if (have === undefined) return { state: 'unavailable', reason: reasonWithRemedy(info) };
  const fields = differences(have, want);
  const fixed = fields.filter((name) => !changeable.has(name));
  if (fixed.length > 0) return { state: 'different', fields: fixed };
  const stamped = stampOf(have);
  if (stamped !== '' && installationId !== '' && stamped !== installationId) {
    return { state: 'foreign', installationId: stamped };
  }
  const isStampWanted = isOwner && stamped === '' && installationId !== '';
  if (!isOwner || (fields.length === 0 && !isStampWanted)) {
    return { state: 'ready', changed: [], installationId: stamped };
  }
  const metadata = {
    ...(isObject(have.metadata) ? have.metadata : {}),
    ...(isStampWanted ? { [stamp]: installationId } : {}),
  };
  const update = await askJetStream(nats, names.api('STREAM.UPDATE'), { ...have, ...want, metadata });
  const updated = configIn(update.answer);
  if (updated === undefined) {
    return { state: 'unavailable', reason: `JetStream does not change its ${fields.join(', ')}: ${update.reason}` };
  }
  const left = differences(updated, want);
  if (left.length > 0) return { state: 'different', fields: left };
  return { state: 'ready', changed: fields, installationId: stampOf(updated) };
}

/** The metadata field with the stream's owner. */
const stamp = 'signpost_installation_id';

function stampOf({ metadata }: StreamConfig): string {
  const value = isObject(metadata) ? metadata[stamp] : undefined;
  return typeof value === 'string' ? value : '';
}

const streamNotFound = 10_059;
const storageLacks = 10_047;

interface JetStreamAnswer {
  /** Empty if there is none. */
  readonly answer: Record<string, unknown>;
  /** 0 if there is none. */
  readonly errorCode: number;
  /** What went wrong; empty if nothing did. */
  readonly reason: string;
}

/** One request to JetStream's API. */
async function askJetStream(nats: NatsClient, subject: string, body?: object): Promise<JetStreamAnswer> {
  const message = await nats.request(subject, Buffer.from(body === undefined ? '' : JSON.stringify(body)));
  if (message === undefined || message.status !== 0) return noAnswer('JetStream does not answer');
  const parsed: unknown = JSON.parse(message.bytes.toString());
  if (!isObject(parsed)) return noAnswer('JetStream answers something other than an object');
  const { error } = parsed;
  if (!isObject(error)) return { answer: parsed, errorCode: 0, reason: '' };
  return { answer: {}, errorCode: Number(error.err_code ?? 0), reason: String(error.description ?? 'refused') };
}

function noAnswer(reason: string): JetStreamAnswer {
  return { answer: {}, errorCode: 0, reason };
}

function configIn({ config }: Record<string, unknown>): StreamConfig | undefined {
  return isObject(config) ? config : undefined;
}

/** How full the log is. Sequences belong to this instance of the stream: they restart if it is created again. */
export interface LogFill {
  /** When the stream was created, as the server reports it. */
  readonly created: string;
  /** Empty while no ingest has stamped the stream. */
  readonly installationId: string;
  readonly messages: number;
  readonly bytes: number;
  readonly bytesMax: number;
  readonly firstSequence: number;
  readonly lastSequence: number;
}

/** @returns `undefined` if JetStream does not report it. */
export async function logFill(nats: NatsClient): Promise<LogFill | undefined> {
  const { answer } = await askJetStream(nats, nats.names.api('STREAM.INFO'));
  const { state, created } = answer;
  const config = configIn(answer);
  if (!isObject(state) || config === undefined) return undefined;
  return {
    created: String(created),
    installationId: stampOf(config),
    messages: Number(state.messages),
    bytes: Number(state.bytes),
    bytesMax: Number(config.max_bytes),
    firstSequence: Number(state.first_seq),
    lastSequence: Number(state.last_seq),
  };
}

/** Removes a partition's messages up to a sequence. @returns how many; `undefined` if JetStream does not report it. */
export async function purgeLog(nats: NatsClient, partition: number, upTo: number): Promise<number | undefined> {
  const { names } = nats;
  const what = { filter: names.subjectsOf(partition), seq: upTo + 1 };
  const { answer } = await askJetStream(nats, names.api('STREAM.PURGE'), what);
  return typeof answer.purged === 'number' ? answer.purged : undefined;
}

const retryMinMs = 250;
const retryMaxMs = 5_000;

/**
 * Waits until the log exists as expected. @returns the id of the installation that the stream belongs to; empty while
 * no ingest has stamped it. @throws Error if it exists but is different, or another installation's: publishing into it
 * could lose records.
 */
export async function keepLogStream(
  nats: NatsClient,
  options: LogStreamOptions,
  warn: (line: string) => void,
  caller: StreamCaller & { readonly time?: Time } = {},
): Promise<string> {
  for (let delayMs = retryMinMs; ; delayMs = Math.min(delayMs * 2, retryMaxMs)) {
    const outcome = await ensureLogStream(nats, options, caller);
    if (outcome.state === 'different') {
      throw new Error(`The stream ${nats.names.stream} has unexpected settings: ${outcome.fields.join(', ')}.`);
    }
    if (outcome.state === 'foreign') {
      throw new Error(
        `The stream ${nats.names.stream} on NATS belongs to a different installation of Signpost (${outcome.installationId}): ` +
          'give this one its own name with INSTALLATION, or use another NATS server.',
      );
    }
    if (outcome.state === 'ready') {
      if (outcome.changed.length > 0) warn(`the settings of the log were changed: ${outcome.changed.join(', ')}`);
      return outcome.installationId;
    }
    if (nats.isClosed) return '';
    warn(`the log does not exist yet: ${outcome.reason}`);
    await sleep(caller.time ?? systemTime, delayMs);
  }
}
