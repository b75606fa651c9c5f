/**
 * The log: one JetStream stream with a subject per kind and partition. Whoever needs it first makes it; its configuration is
 * read back, because a server that does not know a field drops it in silence.
 */
import type { NatsClient } from '#common/nats.ts';
import { sleep, systemTime } from '#common/time.ts';
import type { LogNames } from './log-names.ts';

const duplicateWindowMs = 600_000;
const ageMaxMs = 259_200_000;
const nanosPerMs = 1_000_000;

export interface LogStreamOptions {
  readonly bytesMax: number;
  readonly replicas: number;
}

export type StreamOutcome =
  | { readonly state: 'ready' }
  | { readonly state: 'unavailable'; readonly reason: string }
  | { readonly state: 'different'; readonly fields: readonly string[] };

function wanted(
  { stream, records }: LogNames,
  options: LogStreamOptions,
): Record<string, string | number | boolean | string[]> {
  return {
    name: stream,
    subjects: [records],
    retention: 'limits',
    discard: 'new',
    storage: 'file',
    max_bytes: options.bytesMax,
    max_age: ageMaxMs * nanosPerMs,
    max_msgs: -1,
    max_consumers: -1,
    max_msgs_per_subject: -1,
    max_msg_size: -1,
    duplicate_window: duplicateWindowMs * nanosPerMs,
    deny_delete: true,
    num_replicas: options.replicas,
  };
}

/** Makes the stream if it is not there, and compares what is there with what is wanted. */
export async function ensureLogStream(nats: NatsClient, options: LogStreamOptions): Promise<StreamOutcome> {
  const { names } = nats;
  const want = wanted(names, options);
  let info = await ask(nats, names.api('STREAM.INFO'), '');
  if (info.errorCode === streamNotFound) {
    info = await ask(nats, names.api('STREAM.CREATE'), JSON.stringify(want));
  }
  if (info.config === undefined) return { state: 'unavailable', reason: info.reason };
  const have = info.config;
  const fields = Object.keys(want).filter((name) => JSON.stringify(have[name]) !== JSON.stringify(want[name]));
  return fields.length === 0 ? { state: 'ready' } : { state: 'different', fields };
}

const streamNotFound = 10_059;

interface Answer {
  readonly config?: Record<string, unknown>;
  readonly errorCode: number;
  readonly reason: string;
}

async function ask(nats: NatsClient, subject: string, body: string): Promise<Answer> {
  const message = await nats.request(subject, Buffer.from(body));
  if (message === undefined || message.status !== 0) return { errorCode: 0, reason: 'JetStream does not answer' };
  const parsed: unknown = JSON.parse(message.bytes.toString());
  if (!isObject(parsed)) return { errorCode: 0, reason: 'JetStream answers something else than an object' };
  const { error, config } = parsed;
  if (isObject(error))
    return { errorCode: Number(error.err_code ?? 0), reason: String(error.description ?? 'refused') };
  return isObject(config)
    ? { config, errorCode: 0, reason: '' }
    : { errorCode: 0, reason: 'JetStream answers without a configuration' };
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

const retryMinMs = 250;
const retryMaxMs = 5_000;

/**
 * Waits until the log is there as it is wanted.
 * @throws Error when it is there but different: publishing into it could lose records.
 */
export async function keepLogStream(
  nats: NatsClient,
  options: LogStreamOptions,
  warn: (line: string) => void,
  time = systemTime,
): Promise<void> {
  for (let delayMs = retryMinMs; ; delayMs = Math.min(delayMs * 2, retryMaxMs)) {
    const outcome = await ensureLogStream(nats, options);
    if (outcome.state === 'ready' || nats.isClosed) return;
    if (outcome.state === 'different') {
      throw new Error(`The stream ${nats.names.stream} has other settings than wanted: ${outcome.fields.join(', ')}.`);
    }
    warn(`the log is not there yet: ${outcome.reason}`);
    await sleep(time, delayMs);
  }
}
