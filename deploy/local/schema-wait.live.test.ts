/** Every process that uses a store, started before its schema exists, as Compose, Kubernetes and an upgrade may do. */
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { childEnvironment } from '#common/process/config.ts';
import { Postgres } from '#common/stores/postgres.ts';
import { clickhouseForTest, natsForTest, postgresForTest, redisForTest } from '#testing/servers.ts';
import { migrateStores } from './migrate-stores.ts';
import { freePort } from './ports.ts';

const folder = mkdtempSync(join(tmpdir(), 'signpost-schema-'));
const children: ChildProcess[] = [];
afterAll(() => {
  for (const child of children) if (child.exitCode === null) child.kill('SIGKILL');
  rmSync(folder, { recursive: true, force: true });
});

/** Paths of the programs, and whether they may do something before the schema is there. */
const programs = {
  redirector: 'redirector/main.js',
  gateway: 'gateway/main.js',
  api: 'api/main.js',
  origin: 'deploy/local/origin.js',
  ingest: 'ingest/main.js',
  webhooks: 'webhooks/main.js',
};

test('a process that is started before the migrations waits for them, says so, and then becomes ready by itself', async () => {
  const [database, clickhouse, redis, nats] = await Promise.all([
    postgresForTest({ isMigrated: false }),
    clickhouseForTest({ isMigrated: false }),
    redisForTest(),
    natsForTest(),
  ]);
  const started = await Promise.all(
    Object.entries(programs).map(async ([role, program]) => {
      const port = await freePort();
      const child = spawn(process.execPath, [join('dist', program)], {
        env: childEnvironment({
          ...{ DATA_DIR: folder, INSTANCE: role, MACHINE_NAME: role, METRICS_PORT: String(port) },
          ...{ REDIS_URL: redis.url, NATS_URL: nats.url, CLICKHOUSE_URL: clickhouse.url },
          ...{
            API_DATABASE_URL: database.urlAs('signpost_api_process'),
            INGEST_DATABASE_URL: database.urlAs('signpost_ingest'),
          },
          ...{
            GATEWAY_DATABASE_URL: database.urlAs('signpost_gateway'),
            EDGE_DATABASE_URL: database.urlAs('signpost_redirector'),
          },
          WEBHOOKS_DATABASE_URL: database.urlAs('signpost_webhooks'),
          ...{ SECRET_KEY: `k1:${Buffer.alloc(32, 1).toString('base64')}`, ADDRESS_KEY: 'a'.repeat(32) },
          ...{ API_PORT: '0', API_HTTP_PORT: String(await freePort()), TRUSTED_PROXIES: '127.0.0.1' },
          ...{ REDIRECTOR_HTTP_PORT: String(await freePort()), REDIRECTOR_HTTPS_PORT: '0' },
        }),
        stdio: ['ignore', 'pipe', 'inherit'],
      });
      children.push(child);
      const log: string[] = [];
      child.stdout.setEncoding('utf8').on('data', (text: string) => log.push(text));
      const ask = async (path: string) => {
        const response = await fetch(`http://127.0.0.1:${port}${path}`).catch(() => null);
        return { status: response?.status, text: (await response?.text()) ?? '' };
      };
      return { role, child, log, ask };
    }),
  );
  const all = (of: (one: (typeof started)[number]) => unknown) => Promise.all(started.map(of));
  const schemaOf = async ({ role, ask, child, log }: (typeof started)[number]) =>
    child.exitCode === null ? `${role}: ${(await ask('/readyz')).text}` : log.join('');
  const lack = /"schema":"(Postgres|ClickHouse) lacks migration [\w-]+: run migrate"/;
  await expect
    .poll(() => all(schemaOf), { timeout: 400_000 })
    .toEqual(started.map(({ role }) => expect.stringMatching(`^${role}: .*${lack.source}`)));
  expect(await all(async ({ ask }) => [(await ask('/healthz')).status, (await ask('/startupz')).status])).toEqual(
    started.map(() => [200, 503]),
  );
  await migrateStores({ databaseUrl: database.url, clickhouseUrl: clickhouse.url, retentionDays: 730 });
  const isReady = async ({ role, ask, child, log }: (typeof started)[number]) =>
    child.exitCode === null ? [role, (await ask('/readyz')).text] : log.join('');
  const ready = [expect.any(String), expect.stringContaining('"ready":true')];
  await expect.poll(() => all(isReady), { timeout: 200_000 }).toEqual(started.map(() => ready));
  const said = started.filter(({ log }) => log.join('').includes('waiting for the schema')).map(({ role }) => role);
  // Links redirect from its cache meanwhile.
  expect(said).toEqual(Object.keys(programs).filter((role) => role !== 'redirector'));

  // An older release needs less than this database has.
  const db = new Postgres({ url: database.url, name: 'test', connectionsMax: 1 });
  await db.execute("INSERT INTO ready_migrations VALUES ('9999_of_a_later_release')");
  await db.close();
  expect(await all(async ({ ask }) => (await ask('/startupz')).status)).toEqual(started.map(() => 200));
  for (const { child } of started) child.kill('SIGTERM');
  await expect
    .poll(() => started.map(({ child }) => child.exitCode), { timeout: 200_000 })
    .toEqual(started.map(() => 0));
  await Promise.all([redis.stop(), nats.stop(), clickhouse.stop(), database.stop()]);
}, 600_000);
