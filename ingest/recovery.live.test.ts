import { afterAll, afterEach, beforeAll, expect, test, vi } from 'vitest';
import { failpointNames } from './failpoints.ts';
import { PipelineHarness } from './testing/pipeline-harness.ts';

let way: PipelineHarness;
beforeAll(async () => {
  way = await PipelineHarness.start();
});
afterAll(() => way.stop());
afterEach(() => way.stopIngests());

const patience = { timeout: 25_000, interval: 200 };

test('answered clicks are in ClickHouse once, enriched, in the raw table and the rollup', async () => {
  const ingest = way.ingest();
  await way.keep(1_000);
  await expect.poll(() => way.figures(), patience).toEqual(way.wanted);
  const [row] = await way.client.query('SELECT * FROM clicks LIMIT 1');
  expect(row).toMatchObject({
    ip: '8.8.8.0',
    platform: 'ios',
    os: 'iOS',
    os_version: '17.4',
    device_model: 'iPhone',
    country: 'US',
    language: 'de-DE',
    referrer_host: 'example.com',
    is_bot: false,
  });
  await ingest.stop();
  expect(ingest.output).toContain('"rows":1000');
});

test.each(failpointNames.filter((name) => !name.startsWith('learned_')).map((name) => [name]))(
  'killing ingest at %s, twice, loses nothing and counts nothing twice',
  async (name) => {
    for (const at of [1, 2]) {
      const ingest = way.ingest(`${name}:${at}`);
      const hasEnded = () => ingest.process.exitCode !== null || ingest.process.signalCode !== null;
      while (!hasEnded()) {
        await way.keep(20);
        await vi.waitUntil(async () => hasEnded() || (await way.figures()).rows === way.kept, patience);
      }
      expect(ingest.process.signalCode).toBe('SIGKILL');
    }
    const last = way.ingest();
    await way.keep(100);
    await expect.poll(() => way.figures(), patience).toEqual(way.wanted);
    await last.stop();
  },
);

test('ingest stops at once at any moment of its start or recovery', async () => {
  const killed = way.ingest('part_inserted:1');
  await way.keep(20);
  await killed.exited;
  for (let moment = 0; moment < 12; moment++) {
    const ingest = await way.ingestHere();
    const spies = (['query', 'execute', 'transaction'] as const).map((name) => vi.spyOn(ingest.postgres, name));
    const calls = () => spies.reduce((sum, { mock }) => sum + mock.calls.length, 0);
    ingest.start();
    await vi.waitUntil(() => calls() >= moment, { timeout: 10_000, interval: 1 });
    const asked = performance.now();
    await ingest.stop();
    // Well below the 5 s after which a stop gives up.
    expect(performance.now() - asked).toBeLessThan(4_000);
  }
  const last = way.ingest();
  await expect.poll(() => way.figures(), patience).toEqual(way.wanted);
  await last.stop();
});
