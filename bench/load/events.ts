/**
 * Measures the CPU per event of the SDK edge, journal included, next to a minimal server that parses and validates the
 * same bytes and stores nothing. Batches of 50 events and of one event of 700 bytes; both servers take turns in one
 * run, and the median ratio counts.
 */
import { parseArgs } from 'node:util';
import { post, type RequestOf } from './post-client.ts';
import { writeResult } from './result-file.ts';
import { median, openSdkStage, requestBytes } from './sdk-stage.ts';
import { Subject } from './subject.ts';

/** The target ratio for batches of this size; null if there is none. */
const CASES = [
  { perBatch: 50, targetRatio: 1.4 },
  { perBatch: 1, targetRatio: null },
] as const;
const EVENT_BYTES = 700;
const CONNECTIONS = 16;
const ID_DIGITS = 12;

/** A request with placeholders for its event ids: each is a run of `#`. */
export function eventsRequest(key: string, perBatch: number): Buffer {
  const timestamp = new Date().toISOString();
  const event = (n: number) => {
    const known = {
      name: n % 10 === 0 ? 'purchase' : 'screen_view',
      event_id: `e-${'#'.repeat(ID_DIGITS)}`,
      timestamp,
      device_id: `device-${n}`,
      user_id: `user-${n}`,
      session_id: 'session-1',
      ...(n % 10 === 0 ? { revenue: { amount: '19.99', currency: 'EUR' } } : {}),
      properties: {
        screen: 'Product',
        sku: `A-${n}`,
        price: 19.99,
        tags: ['a', 'b'],
        nested: { ok: true, n },
        text: '',
      },
    };
    known.properties.text = 'x'.repeat(EVENT_BYTES - JSON.stringify(known).length);
    return known;
  };
  const body = JSON.stringify({
    events: Array.from({ length: perBatch }, (_, n) => event(n)),
    context: { platform: 'ios' },
  });
  return requestBytes('/sdk/events', key, '198.51.100.7', body);
}

/** Requests with distinct event ids: a counter is written into the bytes of one template. */
function batches(key: string, perBatch: number): RequestOf {
  const template = eventsRequest(key, perBatch);
  const places: number[] = [];
  for (let at = template.indexOf('e-###'); at !== -1; at = template.indexOf('e-###', at + 1)) places.push(at + 2);
  return (n) => {
    const bytes = Buffer.from(template);
    for (const [index, at] of places.entries()) {
      bytes.write(String(n * perBatch + index).padStart(ID_DIGITS, '0'), at, 'latin1');
    }
    return bytes;
  };
}

export async function benchEvents(args: readonly string[]): Promise<void> {
  const { values } = parseArgs({
    args: [...args],
    options: { seconds: { type: 'string', default: '2' }, rounds: { type: 'string', default: '4' } },
  });
  const stage = await openSdkStage((line) => console.error(line));
  const bare = Subject.start('bare', 'bench/baseline/bare-events.ts', {});
  try {
    const [, barePort] = await bare.line(/port (\d+)/);
    const sides = {
      bare: { subject: bare, port: Number(barePort) },
      gateway: { subject: stage.gateway, port: stage.port },
    };
    const cases: Figures[] = [];
    for (const { perBatch, targetRatio } of CASES) {
      const figures = await runCase(sides, batches(stage.key, perBatch), perBatch, values);
      cases.push({ ...figures, target_ratio: targetRatio });
    }
    report(cases, stage.gateway.read().rssBytes);
  } finally {
    await bare.stop();
    await stage.close();
  }
}

interface Side {
  readonly subject: Subject;
  readonly port: number;
}

interface Round {
  readonly bare_us: number;
  readonly gateway_us: number;
  readonly ratio: number;
  readonly gateway_events_per_s: number;
}

interface Figures extends Round {
  readonly events_per_batch: number;
  readonly target_ratio?: number | null;
  readonly rounds: readonly Round[];
}

/** Ids continue from case to case, so that none is used twice. */
let nextRequest = 1;

async function runCase(
  { bare, gateway }: { bare: Side; gateway: Side },
  requestOf: RequestOf,
  perBatch: number,
  { seconds, rounds }: { seconds: string; rounds: string },
): Promise<Figures> {
  const measure = async ({ subject, port }: Side, forSeconds: number) => {
    const before = subject.read().cpuUs;
    const options = { port, connections: CONNECTIONS, seconds: forSeconds, status: 202, requestOf, from: nextRequest };
    const run = await post(options);
    nextRequest += run.answered + CONNECTIONS;
    if (run.failed > 0) throw new Error(`${run.failed} of ${run.answered} requests to ${subject.name} failed`);
    const events = run.answered * perBatch;
    return { us: (subject.read().cpuUs - before) / events, perSecond: events / run.seconds };
  };
  await measure(bare, 1);
  await measure(gateway, 2);
  const all: Round[] = [];
  for (let n = 1; n <= Number(rounds); n++) {
    const base = await measure(bare, Number(seconds));
    const ours = await measure(gateway, Number(seconds));
    const ratio = ours.us / base.us;
    all.push({ bare_us: base.us, gateway_us: ours.us, ratio, gateway_events_per_s: ours.perSecond });
    const figures = `bare ${base.us.toFixed(2)} µs, gateway ${ours.us.toFixed(2)} µs per event, ${ratio.toFixed(2)} ×`;
    console.error(`batches of ${perBatch}, round ${n}: ${figures}`);
  }
  const middle = (pick: (round: Round) => number) => median(all.map(pick));
  return {
    events_per_batch: perBatch,
    bare_us: middle((round) => round.bare_us),
    gateway_us: middle((round) => round.gateway_us),
    ratio: middle((round) => round.ratio),
    gateway_events_per_s: middle((round) => round.gateway_events_per_s),
    rounds: all,
  };
}

function report(cases: readonly Figures[], rssBytes: number): void {
  console.table(
    cases.map((one) => ({
      'events per batch': one.events_per_batch,
      'bare µs': one.bare_us.toFixed(2),
      'gateway µs': one.gateway_us.toFixed(2),
      ratio: one.ratio.toFixed(2),
      target: one.target_ratio ?? '',
      'events/s': Math.round(one.gateway_events_per_s),
    })),
  );
  writeResult('events', { event_bytes: EVENT_BYTES, rss_bytes: rssBytes, cases });
}
