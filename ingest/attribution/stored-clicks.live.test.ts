import { afterAll, beforeAll, expect, test } from 'vitest';
import { ClickHouse } from '#clickhouse/client.ts';
import { DAY_MS } from '#common/durations.ts';
import { newId, timeOfId } from '#common/ids.ts';
import { Postgres } from '#common/stores/postgres.ts';
import { clickhouseForTest, type TestDatabase } from '#testing/servers.ts';
import { ClickLookupServer } from './click-archive.ts';
import { ClickHouseClicks } from './stored-clicks.ts';

const [organization, app] = [newId('org', 1), newId('app', 1)];
const clicksPerDay = 200_000;
const day = Math.floor(Date.now() / DAY_MS) * DAY_MS - 3 * DAY_MS;
/** Maximum rows read: two granules of each index, plus false positives of a Bloom filter. */
const rowsMax = 8_192;
let store: TestDatabase;
let client: ClickHouse;

beforeAll(async () => {
  store = await clickhouseForTest();
  client = new ClickHouse({ url: store.url });
});
afterAll(async () => {
  await client.close();
  await store.stop();
});

/** A day of clicks of one app: a tenth belong to one link, the others are spread over 5,000 links. */
async function fill(): Promise<void> {
  await client.command(
    `INSERT INTO clicks (click_id, organization_id, app_id, link_id, time, query)
     SELECT concat('clk_', leftPad(lower(hex(number)), 26, '0')), {organization:String}, {app:String},
            if(number % 10 = 0, 'big', concat('lnk_', toString(number % 5000))),
            fromUnixTimestamp64Milli(toInt64({day:Int64} + number * intDiv(86400000, {clicks:Int64}))), 'a=b'
       FROM numbers({clicks:UInt64})`,
    { organization, app, day, clicks: clicksPerDay },
  );
}

test('a click is found by its id among very many of its app, and hardly any other rows are read', {
  tags: ['slow'],
}, async () => {
  await fill();
  const reads = { executionSecondsMax: 10, rowsToReadMax: rowsMax, resultRowsMax: 10 };
  const bounded = new ClickHouse({ url: store.url, reads });
  const clicks = new ClickHouseClicks(bounded);
  for (const at of [0, 77_770, 123_456, clicksPerDay - 1]) {
    const time = day + at * Math.floor(DAY_MS / clicksPerDay);
    const click_id = newId('clk', time);
    await client.command(
      `INSERT INTO clicks (click_id, organization_id, app_id, link_id, time, query)
       VALUES ({click_id:String}, {organization:String}, {app:String}, {link:String}, fromUnixTimestamp64Milli({time:Int64}), 'x=y')`,
      { click_id, organization, app, time, link: at % 2 === 0 ? 'big' : 'lnk_1' },
    );
    await client.command('OPTIMIZE TABLE clicks FINAL');
    const [found, ...more] = await clicks.find({ organizations: [organization], apps: [app], ids: [click_id] });
    expect([found?.click_id, found?.query, found?.time, more]).toEqual([click_id, 'x=y', timeOfId(click_id), []]);
    expect(await clicks.find({ organizations: [organization], apps: [newId('app', 2)], ids: [click_id] })).toEqual([]);
    expect(await clicks.find({ organizations: [newId('org', 2)], apps: [app], ids: [click_id] })).toEqual([]);
    expect(await clicks.find({ organizations: [organization], apps: [app], ids: [newId('clk', time)] })).toEqual([]);
  }
  await bounded.close();
});

test('without Postgres, a stored click is found, and one that is not stored is not reported as unknown', async () => {
  const postgres = new Postgres({ url: 'postgres://reader@127.0.0.1:1/none', name: 'test' });
  const archive = new ClickLookupServer(client, postgres);
  const [stored, absent] = [newId('clk', day), newId('clk', day)];
  await client.command(
    `INSERT INTO clicks (click_id, organization_id, app_id, time)
     VALUES ({stored:String}, {organization:String}, {app:String}, fromUnixTimestamp64Milli({day:Int64}))`,
    { stored, organization, app, day },
  );
  const ask = (click_id: string) => archive.answer({ organization_id: organization, app_id: app, click_id });
  expect(await ask(stored)).toMatchObject({ click: { click_id: stored, time: day }, claimed_by: '' });
  expect(await ask(absent)).toBe('unavailable');
  await postgres.close();
});
