import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { ClickHouse } from '#clickhouse/client.ts';
import { deviceKey, type InstallFacts, installKey, RecentInstalls } from '#common/attribution/recent-installs.ts';
import { Redis } from '#common/stores/redis.ts';
import { clickhouseForTest, redisForTest, type TestDatabase, type TestServer } from '#testing/servers.ts';
import { ClickHouseRecords } from './clickhouse-records.ts';
import { type EventSource, InstallLookup } from './install-lookup.ts';

const app_id = 'app_x';
let database: TestDatabase;
let server: TestServer;
let clickhouse: ClickHouse;
let redis: Redis;
let recent: RecentInstalls;

beforeAll(async () => {
  [database, server] = await Promise.all([clickhouseForTest(), redisForTest()]);
  clickhouse = new ClickHouse({ url: database.url });
  redis = new Redis({ url: server.url, name: 'test' });
  await redis.connect();
  recent = new RecentInstalls(redis);
});
beforeEach(() => redis.commands.flushall());
afterAll(async () => {
  await redis.close();
  await clickhouse.close();
  await Promise.all([database.stop(), server.stop()]);
});

/** Installs of one device, one second apart; `<device>-0` is the oldest. */
async function store(device_id: string, count: number): Promise<void> {
  await clickhouse.command(
    `INSERT INTO installs (app_id, device_id, install_id, link_id, time)
     SELECT {app_id:String}, {device_id:String}, concat({device_id:String}, '-', toString(number)),
            concat('link-', toString(number)), now64(3) - INTERVAL 1 DAY + toIntervalSecond(number)
       FROM numbers({count:UInt64})`,
    { app_id, device_id, count },
  );
}

const source = (more: Partial<EventSource>): EventSource => ({ app_id, install_id: '', device_id: '', ...more });
const linksOf = (found: readonly (InstallFacts | null)[]) => found.map((facts) => facts?.link_id ?? null);
const linkAt = async (key: string) => linksOf(await recent.byKeys([key]))[0];

test('looking up an old install by its id does not replace the newest install of its device', async () => {
  await store('d', 2);
  const [newest] = await new InstallLookup(null, new ClickHouseRecords(clickhouse)).find([source({ device_id: 'd' })]);
  if (newest?.link_id !== 'link-1') throw new Error('it is not the newest');
  await recent.put(app_id, 'd', newest);
  const lookup = new InstallLookup(recent, new ClickHouseRecords(clickhouse));
  const asked = [source({ install_id: 'd-0', device_id: 'd' })];
  expect(linksOf(await lookup.find(asked))).toEqual(['link-0']);
  expect([await linkAt(deviceKey(app_id, 'd')), await linkAt(installKey(app_id, 'd-0'))]).toEqual(['link-1', 'link-0']);
  const another = new InstallLookup(recent, new ClickHouseRecords(clickhouse));
  expect(linksOf(await another.find([source({ device_id: 'd' })]))).toEqual(['link-1']);
});

test('opening the app through a link is not an install: events stay with the install', async () => {
  await store('o', 1);
  for (const trigger of ['reengagement', 'deep_link']) {
    await clickhouse.command(
      `INSERT INTO installs (app_id, device_id, install_id, link_id, trigger, time)
       VALUES ({app_id:String}, 'o', concat('mat_', {trigger:String}), 'link-9', {trigger:String}, now64(3))`,
      { app_id, trigger },
    );
  }
  const lookup = new InstallLookup(null, new ClickHouseRecords(clickhouse));
  const asked = [source({ device_id: 'o' }), source({ install_id: 'mat_reengagement' })];
  expect(linksOf(await lookup.find(asked))).toEqual(['link-0', null]);
});

test('an install that reaches Redis while ClickHouse is asked for an older one is not overwritten', async () => {
  await store('e', 1);
  const [old] = await new InstallLookup(null, new ClickHouseRecords(clickhouse)).find([source({ device_id: 'e' })]);
  if (!old) throw new Error('it was stored');
  const overtaken = new RecentInstalls(redis);
  overtaken.byKeys = async (keys) => {
    const found = await recent.byKeys(keys);
    await recent.put(app_id, 'e', { ...old, install_id: 'e-1', link_id: 'link-new' });
    return found;
  };
  await new InstallLookup(overtaken, new ClickHouseRecords(clickhouse)).find([source({ device_id: 'e' })]);
  expect(await linkAt(deviceKey(app_id, 'e'))).toBe('link-new');
});

test('an event that arrives after its install finds it, even while an earlier lookup is still running', async () => {
  let letGo: () => void = () => undefined;
  const held = new Promise<void>((done) => {
    letGo = done;
  });
  let isAsked = false;
  class SlowRecords extends ClickHouseRecords {
    override async newestInstalls(...asked: Parameters<ClickHouseRecords['newestInstalls']>) {
      const found = await super.newestInstalls(...asked);
      isAsked = true;
      await held;
      return found;
    }
  }
  const lookup = new InstallLookup(null, new SlowRecords(clickhouse));
  const early = lookup.find([source({ device_id: 'late' })]);
  await expect.poll(() => isAsked).toBe(true);
  await store('late', 1);
  lookup.appeared([deviceKey(app_id, 'late')]);
  letGo();
  expect(linksOf(await early)).toEqual([null]);
  expect(linksOf(await lookup.find([source({ device_id: 'late' })]))).toEqual(['link-0']);
});

test('for a device id that very many installs share, only the newest install is read and cached', async () => {
  await store('00000000', 20_000);
  const lookup = new InstallLookup(recent, new ClickHouseRecords(clickhouse));
  const asked = [
    source({ device_id: '00000000' }),
    source({ install_id: '00000000-7' }),
    source({ device_id: 'none' }),
  ];
  expect(linksOf(await lookup.find(asked))).toEqual(['link-19999', 'link-7', null]);
  expect(lookup.counters.clickhouse_hits).toBe(2);
  expect((await redis.commands.keys('*')).sort()).toEqual(
    [deviceKey(app_id, '00000000'), installKey(app_id, '00000000-7')].sort(),
  );
});
