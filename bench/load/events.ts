/**
 * CPU per event of the SDK edge, journal included, beside a bare server that parses and validates the same bytes and keeps
 * nothing. Batches of 50 events of 700 bytes, both in turns in one run; the median ratio counts.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { arch, cpus } from 'node:os';
import { parseArgs } from 'node:util';
import { post, type RequestOf } from './post-client.ts';
import { median, openSdkStage, requestBytes } from './sdk-stage.ts';
import { Subject } from './subject.ts';

const PER_BATCH = 50;
const EVENT_BYTES = 700;
const CONNECTIONS = 16;
const ID_DIGITS = 12;

/** Requests whose event ids are all different: a counter is written into the bytes of one template. */
function batches(key: string): RequestOf {
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
    events: Array.from({ length: PER_BATCH }, (_, n) => event(n)),
    context: { platform: 'ios' },
  });
  const template = requestBytes('/sdk/events', key, '198.51.100.7', body);
  const places: number[] = [];
  for (let at = template.indexOf('e-###'); at !== -1; at = template.indexOf('e-###', at + 1)) places.push(at + 2);
  return (n) => {
    const bytes = Buffer.from(template);
    for (const [index, at] of places.entries()) {
      bytes.write(String(n * PER_BATCH + index).padStart(ID_DIGITS, '0'), at, 'latin1');
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
  const [, barePort] = await bare.line(/port (\d+)/);
  const requestOf = batches(stage.key);
  let from = 1;
  const measure = async (subject: Subject, port: number, seconds: number) => {
    const before = subject.read().cpuUs;
    const run = await post({ port, connections: CONNECTIONS, seconds, status: 202, requestOf, from });
    from += run.answered + CONNECTIONS;
    if (run.failed > 0) throw new Error(`${run.failed} of ${run.answered} requests to ${subject.name} failed`);
    const events = run.answered * PER_BATCH;
    return { us: (subject.read().cpuUs - before) / events, perSecond: events / run.seconds };
  };
  try {
    await measure(bare, Number(barePort), 1);
    await measure(stage.gateway, stage.port, 2);
    const rounds: { bare_us: number; gateway_us: number; ratio: number; gateway_events_per_s: number }[] = [];
    for (let n = 0; n < Number(values.rounds); n++) {
      const base = await measure(bare, Number(barePort), Number(values.seconds));
      const ours = await measure(stage.gateway, stage.port, Number(values.seconds));
      rounds.push({
        bare_us: base.us,
        gateway_us: ours.us,
        ratio: ours.us / base.us,
        gateway_events_per_s: ours.perSecond,
      });
      console.error(
        `round ${n + 1}: bare ${base.us.toFixed(2)} µs, gateway ${ours.us.toFixed(2)} µs an event, ${(ours.us / base.us).toFixed(2)} ×`,
      );
    }
    const result = {
      what: 'events',
      machine: `${cpus().length} × ${cpus()[0]?.model ?? arch()}`,
      batch: PER_BATCH,
      event_bytes: EVENT_BYTES,
      ratio: median(rounds.map((round) => round.ratio)),
      gateway_us: median(rounds.map((round) => round.gateway_us)),
      bare_us: median(rounds.map((round) => round.bare_us)),
      rss_bytes: stage.gateway.read().rssBytes,
      rounds,
    };
    console.table(rounds);
    console.log(`median: ${result.ratio.toFixed(2)} × (at most 1.4)`);
    mkdirSync('bench/results', { recursive: true });
    writeFileSync(
      `bench/results/events-${new Date().toISOString().slice(0, 19).replaceAll(':', '')}.json`,
      `${JSON.stringify(result, null, 2)}\n`,
    );
  } finally {
    await bare.stop();
    await stage.close();
  }
}
