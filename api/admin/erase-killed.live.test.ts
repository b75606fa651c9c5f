/**
 * Kills an erasure before each of its steps, while ingest compares the cells of retention and revenue with the records.
 * Completing the erasure must not need what the killed process has already removed.
 */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { ClickHouse } from '#clickhouse/client.ts';
import { DAY_MS, MINUTE_MS } from '#common/durations.ts';
import { newId } from '#common/ids.ts';
import { defaultInstallation } from '#common/log/log-names.ts';
import { keepLogStream } from '#common/log/log-stream.ts';
import { Nats } from '#common/stores/nats.ts';
import { Postgres } from '#common/stores/postgres.ts';
import { Redis } from '#common/stores/redis.ts';
import { systemTime } from '#common/time.ts';
import { ActiveInstalls, unfinishedErasures } from '#ingest/active-installs.ts';
import { clickhouseForTest, natsForTest, postgresForTest, redisForTest } from '#testing/servers.ts';
import { type EraseStores, erase, eraseUnfinished, requestOf, unfinishedOf } from './erase.ts';

const organization_id = newId('org', 1);
const app_id = newId('app', 1);
let servers: readonly { stop: () => Promise<void> }[];
let stores: EraseStores & { db: Postgres; clickhouse: ClickHouse; redis: Redis; nats: Nats };
/** With the rights of ingest. */
let asIngest: Postgres;
let comparing: ActiveInstalls;
let lines: string[] = [];
let nowMs = Date.now();
let count = 0;
let frames = 0;

beforeAll(async () => {
  const [postgres, store, nats, redis] = await Promise.all([
    postgresForTest(),
    clickhouseForTest(),
    natsForTest(),
    redisForTest(),
  ]);
  servers = [postgres, store, nats, redis];
  stores = {
    db: new Postgres({ url: postgres.url, name: 'erase-killed', statementTimeoutMs: 60_000 }),
    clickhouse: new ClickHouse({ url: store.url, requestTimeoutMs: 60_000 }),
    redis: new Redis({ url: redis.url, name: 'erase-killed', commandTimeoutMs: 10_000 }),
    nats: await Nats.connect({ url: nats.url, name: 'erase-killed', installation: defaultInstallation }),
    // Ingest has nothing left to store.
    clock: () => (nowMs += DAY_MS),
  };
  asIngest = new Postgres({ url: postgres.urlAs('signpost_ingest'), name: 'erase-killed-ingest' });
  await stores.redis.connect();
  await keepLogStream(stores.nats, { bytesMax: 1e8, replicas: 1 }, () => undefined);
  await stores.db.execute('INSERT INTO organizations (id, name) VALUES ($1, $2)', [organization_id, 'Engines']);
  await stores.db.execute(
    `INSERT INTO apps (id, organization_id, name, host, settings, api_key_ciphertext, api_key_hash, api_key_preview, created_at, updated_at)
     VALUES ($1, $2, 'App', 'a.localhost', '{}', 'x', 'x', 'x', now(), now())`,
    [app_id, organization_id],
  );
  comparing = new ActiveInstalls({
    clickhouse: stores.clickhouse,
    asOf: async () => Date.now(),
    unfinished: () => unfinishedErasures(asIngest),
    isFirst: () => true,
    eventsMin: 1,
    time: systemTime,
    log: (_, line) => lines.push(line),
  });
  // Another person, with activity on many days: a comparison that finds no change recounts only one of these days.
  const other = await addPerson();
  for (let ago = 60; ago > 0; ago--) await addEvent({ install_id: other.install }, ago);
});
afterAll(async () => {
  await Promise.all([
    asIngest.close(),
    stores.db.close(),
    stores.clickhouse.close(),
    stores.redis.close(),
    stores.nats.close(),
  ]);
  await Promise.all(servers.map((server) => server.stop()));
});

interface TestPerson {
  readonly user: string;
  readonly device: string;
  readonly install: string;
  /** One click is stored in Postgres, the other only in Redis. */
  readonly clicks: readonly [string, string];
}

const ago = (days: number) => new Date(Date.now() - days * DAY_MS).toISOString().replace('T', ' ').replace('Z', '');
const common = () => ({ organization_id, app_id, producer_id: 'edge', frame_no: ++frames, batch_no: frames });

async function insert(table: string, row: Record<string, unknown>): Promise<void> {
  const columns = Object.keys(row);
  const line = Buffer.from(JSON.stringify(Object.values(row)));
  const outcome = await stores.clickhouse.insert(table, line, {
    token: `${table}-${++frames}`,
    format: 'JSONCompactEachRow',
    columns,
  });
  if (outcome.kind !== 'written') throw new Error(outcome.message);
}

async function addEvent(ids: Record<string, string>, daysAgo: number): Promise<void> {
  const revenue = { revenue_amount: '7.250', revenue_currency: 'EUR' };
  await insert('events', { ...common(), name: 'buy', time: ago(daysAgo), sign: 1, ...ids, ...revenue });
}

/** The user id leads to the device, the device to the install, and both to clicks that no record names. */
async function addPerson(): Promise<TestPerson> {
  const n = ++count;
  const clicks = [newId('clk', Date.now() - 2 * n), newId('clk', Date.now() - 2 * n - 1)] as const;
  const person = { user: `user-${n}-of-us`, device: `device-${n}-of-us`, install: `install-${n}-of-us`, clicks };
  await insert('installs', { ...common(), install_id: person.install, time: ago(40), trigger: 'install' });
  await addEvent({ user_id: person.user, device_id: person.device }, 39);
  await addEvent({ device_id: person.device, install_id: person.install }, 38);
  for (const days of [30, 20, 10]) await addEvent({ install_id: person.install }, days);
  for (const click_id of clicks) await insert('clicks', { ...common(), click_id, time: ago(41), visitor: n });
  await stores.db.execute(
    `INSERT INTO claims (click_id, app_id, device, match_id, answer, expires_at) VALUES ($1, $2, $3, 'mat', '{}', now() + interval '1 day')`,
    [clicks[0], app_id, person.device],
  );
  const answer = JSON.stringify({ match_id: `mat-${n}`, app_id, click_id: clicks[1] });
  await stores.redis.commands.set(`match:${app_id}:${person.device}`, answer);
  return person;
}

class Killed extends Error {}

/**
 * Stores that kill the process before its change number `at`. A comparison runs before the preceding change, and before
 * events change.
 */
function killedAt(at: number): { stores: EraseStores; changes: string[] } {
  const changes: string[] = [];
  const change = async <T>(what: string, work: () => Promise<T>): Promise<T> => {
    if (changes.length >= at) throw new Killed();
    changes.push(what);
    const isFirstOfEvents =
      what.includes('ALTER TABLE `events`') &&
      changes.findIndex((one) => one.includes('ALTER TABLE `events`')) === changes.length - 1;
    if (changes.length === at || isFirstOfEvents) await comparing.compare();
    return await work();
  };
  const { db, clickhouse, redis, nats, clock } = stores;
  /** The same store, with calls of its writing methods recorded. */
  const watched = <Store extends object>(store: Store, methods: readonly (keyof Store & string)[]): Store =>
    new Proxy(store, {
      get: (_, name) => {
        const value = Reflect.get(store, name);
        if (typeof value !== 'function') return value;
        const call = value.bind(store) as (...given: unknown[]) => Promise<unknown>;
        return methods.some((one) => one === name)
          ? (...given: unknown[]) =>
              change(`${String(name)} ${String(given[0]).trim().slice(0, 60)}`, () => call(...given))
          : call;
      },
    });
  return {
    stores: {
      db: watched(db, ['execute']),
      clickhouse: watched(clickhouse, ['command']),
      redis: { commands: watched(redis.commands, ['del']), script: redis.script.bind(redis) },
      nats: watched(nats, ['request']),
      clock,
    },
    changes,
  };
}

const given = (person: TestPerson) => requestOf({ organization: 'Engines', user: [person.user], wait: '60' });

async function recordsOf({ user, device, install, clicks }: TestPerson): Promise<number> {
  const [row] = await stores.clickhouse.query<{ rows: number }>(
    `SELECT (SELECT count() FROM installs WHERE install_id = {install:String}) + (SELECT count() FROM clicks WHERE has({clicks:Array(String)}, click_id))
       + (SELECT count() FROM events WHERE user_id = {user:String} OR device_id = {device:String} OR install_id = {install:String}) AS rows`,
    { user, device, install, clicks: [...clicks] },
  );
  return Number(row?.rows);
}

const cells = () =>
  stores.clickhouse.query(
    `SELECT age, day, currency, sum(installs) AS n, toString(sum(revenue)) AS amount FROM active_installs WHERE age >= -1
      GROUP BY ALL HAVING n != 0 OR amount != '0' ORDER BY ALL`,
  );

/** The correct result: the cells are rebuilt from the records. */
async function expectCellsOfRecords(message: string): Promise<void> {
  const kept = await cells();
  await stores.clickhouse.command('TRUNCATE TABLE active_installs');
  await comparing.compare();
  expect(kept, message).toEqual(await cells());
}

/** The erasures in Postgres: those that are reported to ingest and the operator, and all. */
async function noted(): Promise<{ told: number; all: number }> {
  const rows = await stores.db.query('SELECT FROM ingest.unfinished_erasure');
  return { told: (await unfinishedErasures(asIngest)).length, all: rows.length };
}

/** What an erasure changes, in order. */
async function changesOfAnErasure(): Promise<string[]> {
  const { stores: watched, changes } = killedAt(Number.POSITIVE_INFINITY);
  await erase(watched, given(await addPerson()));
  return changes;
}

type Finish = (person: TestPerson) => Promise<unknown>;

async function expectToSurviveAKill(at: number, last: string, finish: Finish): Promise<void> {
  const person = await addPerson();
  await comparing.compare();
  await expect(erase(killedAt(at).stores, given(person)), last).rejects.toThrow(Killed);
  await comparing.compare();
  await expectCellsOfRecords(`cells after a kill that followed ${last}`);
  if (at > 0 && (await recordsOf(person)) > 0) expect(await noted(), last).toEqual({ told: 1, all: 1 });
  await finish(person);
  expect(await recordsOf(person), last).toBe(0);
  await comparing.compare();
  await expectCellsOfRecords(`cells after the second run of a kill that followed ${last}`);
}

const again: Finish = async (person) => {
  await erase(stores, given(person));
  expect(await noted()).toEqual({ told: 0, all: 0 });
};
const withoutNames: Finish = () => eraseUnfinished(stores, 60_000);

test('an erasure that is killed after its last row is completed by the same command, and its cells are right even before that', {
  tags: ['slow'],
  timeout: 3 * MINUTE_MS,
}, async () => {
  const changes = await changesOfAnErasure();
  const last = changes.findLastIndex((change) => change.startsWith('command ALTER TABLE `installs`'));
  expect(last).toBeGreaterThan(0);
  await expectToSurviveAKill(last + 1, changes[last] ?? '', again);
});

test('an erasure that is killed before any of its changes can be completed by the same command or by --unfinished', {
  tags: ['slow'],
  timeout: 15 * MINUTE_MS,
}, async () => {
  const changes = await changesOfAnErasure();
  for (const at of changes.keys())
    await expectToSurviveAKill(at, changes[at - 1] ?? 'nothing', at < 2 || at % 2 === 0 ? again : withoutNames);
});

test('the comparison and the next erasure report an interrupted erasure until it is completed', {
  tags: ['slow'],
  timeout: 5 * MINUTE_MS,
}, async () => {
  const [person, other] = [await addPerson(), await addPerson()];
  await expect(erase(killedAt(4).stores, given(person))).rejects.toThrow(Killed);
  lines = [];
  await comparing.compare();
  expect(lines).toEqual([]);
  await stores.db.execute("UPDATE ingest.unfinished_erasure SET begun_at = now() - interval '2 hours'");
  await comparing.compare();
  expect(lines).toEqual(['an erasure is not finished: complete it with npm run admin -- erase --unfinished']);
  expect((await erase(stores, given(other))).at(-1)).toMatch(/a person of org_.* is not finished.*erase --unfinished$/);
  expect((await eraseUnfinished(stores, 60_000))[1]).toMatch(/^blanked 2 clicks, 1 installs, 5 events/);
  expect([await recordsOf(person), await recordsOf(other)]).toEqual([0, 0]);
  expect(await noted()).toEqual({ told: 0, all: 0 });
  expect(await eraseUnfinished(stores, 60_000)).toEqual(['No erasure was interrupted']);
});

test('an interrupted erasure that cannot be completed does not keep later ones from being completed', {
  tags: ['slow'],
}, async () => {
  const stuck =
    "INSERT INTO ingest.unfinished_erasure (organization_id, app_id, ids, days) VALUES ($1, 'app_gone', '{}', '{}')";
  await stores.db.execute(stuck, ['org_gone']);
  const person = await addPerson();
  await expect(erase(killedAt(4).stores, given(person))).rejects.toThrow(Killed);
  await expect(eraseUnfinished(stores, 60_000)).rejects.toThrow('the organization has no app app_gone');
  expect(await recordsOf(person)).toBe(0);
  await stores.db.execute("DELETE FROM ingest.unfinished_erasure WHERE app_id = 'app_gone'");
  expect(await noted()).toEqual({ told: 0, all: 0 });
});

test.each([{ organization: 'Engines' }, { device: ['d'] }, { everybody: true }])(
  '--unfinished with %j, whom it would not erase, is rejected',
  async (options) => {
    expect(() => unfinishedOf({ ...options, unfinished: true, wait: '1' })).toThrow('can be combined only with --wait');
  },
);
