/** Links with max_clicks under 5,000 visits a second on four redirectors: undisturbed, and while redirectors and stores fail. */
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { SECOND_MS } from '#common/durations.ts';
import { sleep, systemTime } from '#common/time.ts';
import { SeededRandom } from '#testing/seeded-random.ts';
import { seed, times } from './fault-sizes.ts';
import { LimitedStage, limitedHost } from './limited-stage.ts';
import { type Latency, PacedVisitors } from './paced-visitors.ts';

const rate = 5_000;
/** Visits continue for this long after the last click was redirected. */
const afterMs = 6_000;

let stage: LimitedStage;
beforeAll(async () => {
  stage = await LimitedStage.start();
});
afterAll(() => stage.stop());

const visit = (codes: readonly string[]) => new PacedVisitors({ ports: stage.ports, host: limitedHost, codes, rate });
const counts = (answers: ReadonlyMap<number, number>) =>
  [...answers].map(([status, times]) => `${status}: ${times}`).join(', ');
const ms = ({ visits, p50, p99, max }: Latency) =>
  `${visits} visits, p50 ${p50.toFixed(1)}, p99 ${p99.toFixed(1)}, max ${max.toFixed(0)} ms`;
const shareRequests = () => stage.metric('signpost_redirector_share_asks_total');

test.each([100, 100, 100, 1_000])('a link redirects exactly %i clicks at 5,000 visits a second', async (max) => {
  const code = await stage.newLink(max);
  const before = await shareRequests();
  const beganMs = performance.now();
  const visitors = visit([code]);
  await vi.waitUntil(() => visitors.ledOn >= max, { timeout: 60_000, interval: 5 });
  const usedUpMs = performance.now() - beganMs;
  const atTheEnd = await shareRequests();
  await sleep(systemTime, afterMs);
  const later = (await shareRequests()) - atTheEnd;
  await visitors.stop();
  console.log(
    [
      `max_clicks ${max}: used up after ${usedUpMs.toFixed(0)} ms, ${visitors.reachedRate.toFixed(0)} visits a second, answers ${counts(visitors.answers)}`,
      `  until the end: ${ms(visitors.latency('until the end'))}`,
      `  after it: ${ms(visitors.latency('after the end'))}; from 1 s after it: ${ms(visitors.latency('after the end', SECOND_MS))}`,
      `  requests to Postgres: ${atTheEnd - before} until the end, ${later} in ${afterMs / SECOND_MS} s after it`,
    ].join('\n'),
  );
  expect(Object.fromEntries(visitors.answers)).toEqual({ 302: max, 410: expect.any(Number) });
  // Each redirector requests clicks about once a second while another one may return some, and then every 30 seconds.
  expect(later).toBeLessThanOrEqual(4 * (1 + afterMs / SECOND_MS));
});

/** What fails besides redirectors, in turn. */
const disturbances: readonly (readonly [name: string, disturb: (random: SeededRandom) => Promise<void>])[] = [
  ['nothing else', async () => undefined],
  ...(['postgres', 'redis', 'nats'] as const).map(
    (name) =>
      [
        `${name} refuses`,
        async (random: SeededRandom) => {
          const { proxy } = stage.stores[name];
          proxy.refuse();
          await sleep(systemTime, random.between(300, 2_500));
          await proxy.heal();
        },
      ] as const,
  ),
  [
    'all stores refuse',
    async (random) => {
      for (const { proxy } of Object.values(stage.stores)) proxy.refuse();
      await sleep(systemTime, random.between(300, 2_500));
      for (const { proxy } of Object.values(stage.stores)) await proxy.heal();
    },
  ],
  [
    'postgres crashes',
    async () => {
      await stage.stores.postgres.crash();
      await stage.stores.postgres.start();
    },
  ],
  [
    'answers of postgres are lost',
    async (random) => {
      for (let resets = 0; resets < 5; resets++) {
        stage.stores.postgres.proxy.resetAfter(random.between(1, 1_000));
        await sleep(systemTime, random.between(20, 200));
      }
      await stage.stores.postgres.proxy.heal();
    },
  ],
];

test('a link never redirects more than its max_clicks at 5,000 visits a second, while redirectors are killed and stores fail', async () => {
  const random = new SeededRandom(seed);
  const total = { links: 0, redirected: 0, lost: 0, kills: 0 };
  const wrong: string[] = [];
  for (let round = 0; round < times(14); round++) {
    const limits = [100, 100, 100, 1_000];
    const codes = await Promise.all(limits.map((max) => stage.newLink(max)));
    const [name, disturb] = disturbances[round % disturbances.length] ?? ['nothing else', async () => undefined];
    const visitors = visit(codes);
    const led = random.between(1, 600);
    await vi.waitUntil(() => visitors.ledOn >= led, { timeout: 30_000, interval: 1 });
    const killed = stage.machines.filter(() => random.between(0, 1) === 1);
    await Promise.all([disturb(random), ...killed.map((machine) => killAndStart(machine))]);
    await vi.waitUntil(async () => (await usedOf(codes)) >= 1_300, { timeout: 90_000, interval: 250 });
    await visitors.stop();
    const recorded = stage.recorded();
    for (const [at, max] of limits.entries()) {
      const code = codes[at] ?? '';
      const seen = visitors.seen.get(code);
      if (seen === undefined) throw new Error(`${code} was not visited`);
      const used = await stage.used(code);
      const inJournals = recorded.get(stage.idOf(code)) ?? 0;
      const isRight = seen.ledOn <= inJournals && inJournals <= max && used === max && max - seen.ledOn <= seen.cut;
      if (!isRight)
        wrong.push(
          `${code}: redirected ${seen.ledOn}, recorded ${inJournals}, used ${used} of ${max}, ${seen.cut} connections cut`,
        );
      total.links++;
      total.redirected += seen.ledOn;
      total.lost += max - seen.ledOn;
    }
    total.kills += killed.length;
    console.log(
      `round ${round} (${name}, ${killed.length} killed after ${led} clicks): ${visitors.reachedRate.toFixed(0)} visits a second, answers ${counts(visitors.answers)}, redirected ${codes.map((code) => visitors.seen.get(code)?.ledOn).join(' ')}`,
    );
  }
  console.log(`seed ${seed}: ${JSON.stringify(total)}`);
  expect(wrong).toEqual([]);
});

async function killAndStart(machine: LimitedStage['machines'][number]): Promise<void> {
  await stage.kill(machine);
  await stage.restart(machine);
}

async function usedOf(codes: readonly string[]): Promise<number> {
  const used = await Promise.all(codes.map((code) => stage.used(code)));
  return used.reduce((sum, one) => sum + one, 0);
}
