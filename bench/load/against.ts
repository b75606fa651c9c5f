/**
 * `npm run bench -- --against URL`: load on a deployed system, by autocannon. Every request is a real click; its user
 * agent is a bot's, so the statistics count it separately from people's clicks.
 */
import { parseArgs } from 'node:util';
import autocannon from 'autocannon';
import { writeResult } from './result-file.ts';

export interface AgainstResult {
  readonly url: string;
  readonly connections: number;
  readonly requests: number;
  readonly per_second: number;
  readonly p50_ms: number;
  readonly p97_5_ms: number;
  readonly p99_ms: number;
  readonly max_ms: number;
  /** Answers by their first digit, and requests without an answer. */
  readonly answers: Readonly<Record<'2xx' | '3xx' | '4xx' | '5xx' | 'none', number>>;
}

export interface AgainstOptions {
  readonly url: string;
  readonly seconds: number;
  readonly connections: number;
  /** Requests per second of all connections together; 0: as many as are answered. */
  readonly rate: number;
}

/** Of several attempts (IPv4 and IPv6), an error has a code but no message. */
function reasonOf(error: Error | undefined): string {
  return error?.message || (error !== undefined && 'code' in error ? String(error.code) : '');
}

const userAgent = 'Signpost-bench/1.0 (bot)';

export class AgainstError extends Error {}

/** @throws AgainstError if not one request is answered; it ends at the first failures then. */
export async function loadAgainst({ url, seconds, connections, rate }: AgainstOptions): Promise<AgainstResult> {
  let isAnswered = false;
  let failures = 0;
  let reason = 'no answer in time';
  const options = {
    ...{ url, connections, duration: seconds, headers: { 'user-agent': userAgent } },
    ...(rate > 0 ? { overallRate: rate } : {}),
  };
  const result = await new Promise<autocannon.Result>((done, fail) => {
    const load = autocannon(options, (error: Error | null, ended) => (error ? fail(error) : done(ended)));
    load.on('response', () => {
      isAnswered = true;
    });
    load.on('reqError', (error: Error | undefined) => {
      reason = reasonOf(error) || reason;
      if (!isAnswered && ++failures >= connections) load.stop?.();
    });
  });
  if (!isAnswered) throw new AgainstError(`${url} does not answer: ${reason}. Nothing was measured.`);
  const answers = { '2xx': result['2xx'], '3xx': result['3xx'], '4xx': result['4xx'], '5xx': result['5xx'] };
  const { latency } = result;
  return {
    ...{ url, connections, requests: result.requests.total, per_second: Math.round(result.requests.average) },
    ...{ p50_ms: latency.p50, p97_5_ms: latency.p97_5, p99_ms: latency.p99, max_ms: latency.max },
    answers: { ...answers, none: result.errors + result.timeouts },
  };
}

export async function benchAgainst(args: readonly string[]): Promise<void> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      against: { type: 'string', default: '' },
      seconds: { type: 'string', default: '10' },
      connections: { type: 'string', default: '64' },
      rate: { type: 'string', default: '0' },
    },
  });
  if (!URL.canParse(values.against)) throw new AgainstError('--against must be a URL, for example of a short link');
  const [seconds, connections, rate] = [values.seconds, values.connections, values.rate].map(Number);
  if (!(seconds && connections && rate !== undefined && rate >= 0))
    throw new AgainstError('--seconds, --connections and --rate must be numbers');
  const result = await loadAgainst({ url: values.against, seconds, connections, rate });
  console.table({ ...result, answers: JSON.stringify(result.answers) });
  writeResult('against', result);
}
