/**
 * From one machine to servers of the operator's own: what npm start has stored goes to Debian's Postgres and another
 * ClickHouse (the same engine's server, since no other can be installed), and what it has not stored stays in its journals.
 *
 * @module-tag slow
 */
import { execFile } from 'node:child_process';
import { cpSync, existsSync, mkdtempSync, rmSync, truncateSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Postgres, patientConnectMs } from '#common/stores/postgres.ts';
import { nothingWrong } from '#deploy/faults/fault-sizes.ts';
import { MachineStage } from '#deploy/faults/machine-stage.ts';
import { builtClickHouse, startClickHouse } from '#deploy/local/clickhouse/spawn.ts';
import type { LocalServer } from '#deploy/local/local-server.ts';
import { startNats, startPostgres, startRedis } from '#deploy/local/servers.ts';

const patience = { timeout: 60_000, interval: 250 };
const debian = ['18', '17', '16', '15']
  .map((version) => join('/usr/lib/postgresql', version, 'bin'))
  .find((folder) => existsSync(join(folder, 'initdb')));
if (debian === undefined) console.warn("skipped: Debian's postgresql is not installed on this machine");
const programs = { postgres: join(debian ?? '', 'postgres'), initdb: join(debian ?? '', 'initdb') };

const folder = mkdtempSync(join(tmpdir(), 'signpost-move-'));
const servers: LocalServer[] = [];
let stage: MachineStage;
let target: Record<'DATABASE_URL' | 'CLICKHOUSE_URL' | 'NATS_URL' | 'REDIS_URL', string>;
beforeAll(async () => {
  if (debian === undefined) return;
  const place = (name: string) => ({ dataDir: join(folder, name), port: 0 });
  const [postgres, clickhouse, nats, redis] = await Promise.all([
    startPostgres({ ...place('postgres'), programs }),
    startClickHouse({ ...place('clickhouse'), entry: builtClickHouse() }),
    startNats(place('nats')),
    startRedis(place('redis')),
  ]);
  servers.push(postgres, clickhouse, nats, redis);
  const db = new Postgres({ url: postgres.url, name: 'test', connectTimeoutMs: patientConnectMs });
  await db.execute("CREATE ROLE owner LOGIN CREATEROLE PASSWORD 'of-a-test'");
  await db.execute('CREATE DATABASE signpost OWNER owner');
  await db.close();
  const DATABASE_URL = `postgres://owner:of-a-test@127.0.0.1:${postgres.port}/signpost`;
  target = { DATABASE_URL, CLICKHOUSE_URL: clickhouse.url, NATS_URL: nats.url, REDIS_URL: redis.url };
  stage = await MachineStage.start();
});
afterAll(async () => {
  await stage?.stop();
  await Promise.all(servers.map((server) => server.stop()));
  rmSync(folder, { recursive: true, force: true });
});

/** Runs a command with the new servers. @returns what it prints. @throws with its error. */
async function atTarget(...words: string[]): Promise<string> {
  const env = { PATH: process.env['PATH'] ?? '', DATA_DIR: stage.stack.dataDir, ...target };
  return (await promisify(execFile)(process.execPath, ['dist/signpost.js', ...words], { env })).stdout;
}

test.skipIf(debian === undefined)(
  'what npm start has stored moves to other servers, what it has not stored follows from its journals, and an interrupted import leaves no users',
  { timeout: 900_000 },
  async () => {
    const { stack } = stage;
    const exported = join(folder, 'export');
    await stage.underLoad(async () => undefined);
    await expect(stage.admin('export-stores', '--to', exported)).rejects.toThrow(/is in use by process/);
    expect(await stage.admin('audit')).toContain('lost 0, duplicated 0, rollup difference 0');
    // A publisher that stands still leaves records in the journals only.
    process.kill(stack.pidOf('publisher'), 'SIGSTOP');
    await stage.underLoad(async () => undefined);
    await stack.interrupt();
    expect(await stage.admin('export-stores', '--to', exported)).toMatch(/has \d+ rows of \d+ tables/);
    await expect(stage.admin('export-stores', '--to', exported)).rejects.toThrow(/already exists/);

    await expect(atTarget('admin', 'import-stores', '--from', exported)).rejects.toThrow(/run 'npm run migrate'/);
    await atTarget('migrate');
    const damaged = join(folder, 'damaged');
    cpSync(exported, damaged, { recursive: true });
    truncateSync(join(damaged, 'postgres', 'public.links.jsonl.gz'), 40);
    await expect(atTarget('admin', 'import-stores', '--from', damaged)).rejects.toThrow(/links.jsonl.gz is damaged/);
    await expect(atTarget('admin', 'import-stores', '--from', exported)).rejects.toThrow(/ClickHouse already has rows/);
    expect(await atTarget('admin', 'list')).not.toContain('Kept');
    expect(await atTarget('admin', 'import-stores', '--from', exported, '--again')).toMatch(/Imported \d+ rows/);
    await expect(atTarget('admin', 'import-stores', '--from', exported)).rejects.toThrow(/Postgres already has rows/);
    expect(await atTarget('admin', 'audit')).toContain('lost 0, duplicated 0, rollup difference 0');

    const settings = Object.entries(target).map(([name, value]) => `${name}=${value}`);
    await stack.launch(undefined, ['env', ...settings, 'npm', 'start', '--silent']);
    await expect.poll(() => stage.figures(stage.all, target.CLICKHOUSE_URL), patience).toEqual(nothingWrong);
    await stage.underLoad(async () => undefined);
    await expect.poll(() => stage.figures(stage.all, target.CLICKHOUSE_URL), patience).toEqual(nothingWrong);
    const call = await stack.loggedIn();
    expect((await call(`/links/${stage.link.id}`)).json()).toMatchObject({ id: stage.link.id });
    expect(await atTarget('admin', 'audit')).toContain('lost 0, duplicated 0, rollup difference 0');
  },
);
