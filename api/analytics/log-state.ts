/**
 * The size of the log and the state of its replicas, as reported by NATS. It is queried only on demand, with a
 * connection per query; answers are shared for `keptMs`.
 */
import { isObject, objectIn } from '#common/json-object.ts';
import { Nats } from '#common/stores/nats.ts';

const keptMs = 5_000;
const timeLimitMs = 2_000;

export interface LogState {
  readonly bytes: number;
  readonly bytes_max: number;
  readonly copies: number;
  readonly copies_current: number;
}

export interface LogReaderOptions {
  /** If empty, the state of the log is unknown. */
  readonly natsUrl: string;
  readonly installation: string;
  readonly onNatsError: (error: unknown) => void;
}

/** Null if unknown: NATS is unavailable, or this process lacks the permission. Never rejects. */
export function logStateFrom(options: LogReaderOptions): () => Promise<LogState | null> {
  let kept: { readonly untilMs: number; readonly state: Promise<LogState | null> } | null = null;
  return () => {
    if (options.natsUrl === '') return Promise.resolve(null);
    const nowMs = performance.now();
    if (kept === null || kept.untilMs < nowMs) kept = { untilMs: nowMs + keptMs, state: read(options) };
    return kept.state;
  };
}

/** An answer after the time limit is discarded; the connection is closed in any case. */
async function read(options: LogReaderOptions): Promise<LogState | null> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<null>((resolve) => {
    timer = setTimeout(() => resolve(null), timeLimitMs);
  });
  const asked = ask(options).catch((error: unknown) => {
    options.onNatsError(error);
    return null;
  });
  const state = await Promise.race([asked, late]);
  clearTimeout(timer);
  return state;
}

async function ask({ natsUrl: url, installation, onNatsError: onRefusal }: LogReaderOptions): Promise<LogState | null> {
  const nats = await Nats.connect({ url, name: 'trust', installation, onRefusal, waitsForServer: false });
  try {
    const answer = await nats.request(nats.names.api('STREAM.INFO'), undefined, timeLimitMs);
    return answer === undefined ? null : stateIn(objectIn(answer.bytes.toString('utf8')));
  } finally {
    await nats.close();
  }
}

/** A server outside a cluster reports no replicas: there is one copy. */
function stateIn({ config, state, cluster }: Record<string, unknown>): LogState | null {
  if (!isObject(config) || !isObject(state)) return null;
  const replicas = isObject(cluster) && Array.isArray(cluster['replicas']) ? cluster['replicas'].filter(isObject) : [];
  return {
    bytes: Number(state['bytes']),
    bytes_max: Number(config['max_bytes']),
    copies: Number(config['num_replicas'] ?? 1),
    copies_current: 1 + replicas.filter(({ current, offline }) => current === true && offline !== true).length,
  };
}
