import { afterAll, afterEach, beforeAll, expect, test, vi } from 'vitest';
import { Postgres } from '#common/stores/postgres.ts';
import { testCostlyCases } from '#testing/costly-cases.ts';
import { FanOut } from '#webhooks/fan-out.ts';
import { clicksIn } from '#webhooks/stored-clicks.ts';
import { failpointNames } from './failpoints.ts';
import { PipelineHarness, testOrganizationId } from './testing/pipeline-harness.ts';

let way: PipelineHarness;
let postgres: Postgres;
beforeAll(async () => {
  way = await PipelineHarness.start();
  postgres = new Postgres({ url: way.postgres.url, name: 'test', connectionsMax: 2 });
  await postgres.execute('INSERT INTO organizations (id, name) VALUES ($1, $1)', [testOrganizationId]);
  await postgres.execute(
    `INSERT INTO webhook_endpoints (id, organization_id, url, events, secret_ciphertext, created_at, updated_at)
     VALUES ('whk_1', $1, 'https://hooks.example.com/', '{click.batch}', '', now(), now())`,
    [testOrganizationId],
  );
});
afterAll(async () => {
  await postgres.close();
  await way.stop();
});
afterEach(() => way.stopIngests());

const patience = { timeout: 25_000, interval: 200 };

test('accepted clicks are in ClickHouse once, enriched, in the raw table and the rollup', async () => {
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

testCostlyCases(
  failpointNames.filter((name) => !name.startsWith('learned_')),
  0,
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

test('ingest stops promptly at any point of its start or recovery', { tags: ['slow'] }, async () => {
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

test('after all these kills, every click is queued for a webhook once', async () => {
  const quiet = { warn: () => undefined, info: () => undefined, error: () => undefined };
  const fanOut = new FanOut({ db: postgres, clickhouse: way.client, log: quiet });
  while ((await fanOut.pass()) > 0);
  expect(await postgres.query('SELECT FROM webhook_batches')).toEqual([]);
  const messages = await postgres.query<{ data: Record<string, unknown> }>('SELECT data FROM webhook_messages');
  const read = clicksIn(way.client);
  const clicks = await Promise.all(messages.map(({ data }) => read(testOrganizationId, data, null)));
  const ids = (clicks.flat() as { click_id: string }[]).map(({ click_id }) => click_id);
  expect([ids.length, new Set(ids).size]).toEqual([way.kept, way.kept]);
});
