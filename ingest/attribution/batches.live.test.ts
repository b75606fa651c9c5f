/** Batches of events end to end: sent over HTTP, journalled, published, read by ingest, found in ClickHouse. */
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { isEventBatch } from '#common/log/event-batch.ts';
import { decimalOf } from '#common/revenue.ts';
import { SdkEdge } from '#gateway/testing/sdk-edge.ts';
import { PipelineHarness } from '#ingest/testing/pipeline-harness.ts';
import { testCostlyCases } from '#testing/costly-cases.ts';

const PARTS = 6;
const PER_PART = 50;
const EVENTS = PARTS * PER_PART;

let way: PipelineHarness;
let edge: SdkEdge;
beforeAll(async () => {
  way = await PipelineHarness.start();
  edge = await SdkEdge.start({}, join(way.folder, 'journal'));
  way.more = { REDIS_URL: edge.redisServer.url };
});
afterEach(() => way.stopIngests());
afterAll(async () => {
  await edge.stop();
  await way.stop();
  expect(edge.failures).toEqual([]);
});

interface Sent {
  readonly event_id: string;
  readonly [field: string]: unknown;
}

interface Place {
  readonly app_id: string;
  readonly key: string;
  readonly summer: string;
  readonly events: readonly Sent[];
  /** What ClickHouse must contain at the end, including `last`. */
  readonly wanted: readonly object[];
  readonly revenue: readonly object[];
}

/** Amounts in billionths, so that sums are exact. */
const unitsOf = (n: number) => BigInt(n) * 1_000_000_007n + 123_456_789_012_345_678n;
const amountOf = (units: bigint) =>
  decimalOf(`${units / 1_000_000_000n}.${String(units % 1_000_000_000n).padStart(9, '0')}`);

/**
 * Creates an app, an install from a link, and events: of that install by id and by device, of another link, and without
 * an install.
 */
async function place(): Promise<Place> {
  const { app_id, key, host } = await edge.app();
  const summer = await edge.link(app_id, 'summer', { campaign: 'sale', utm_source: 'mail' });
  const winter = await edge.link(app_id, 'winter', { campaign: 'snow' });
  const url = `https://${host}/summer`;
  const installed = await edge.post('/sdk/install', key, { platform: 'ios', device_id: 'd1', url });
  expect(installed.body).toMatchObject({ attributed: true, match_type: 'url', link: { id: summer } });
  const { install_id } = installed.body;
  const totals = { EUR: 0n, USD: 0n };
  const events = Array.from({ length: EVENTS }, (_, n) => {
    const who = [{ install_id }, { device_id: 'd1' }, { device_id: 'd1', link_id: winter }, { user_id: 'u1' }][n % 4];
    const currency = n % 2 === 0 ? 'EUR' : 'USD';
    const isSale = n % 3 === 0;
    if (isSale) totals[currency] += unitsOf(n);
    const revenue = isSale ? { revenue: { amount: amountOf(unitsOf(n)), currency } } : {};
    return {
      name: n % 5 === 0 ? 'signup' : 'seen',
      event_id: `e${n}`,
      ...who,
      ...revenue,
      properties: { n, text: 'ü' },
    };
  });
  const conversions = (link: number[]) =>
    events.filter((event, n) => link.includes(n % 4) && ('revenue' in event || event.name === 'signup')).length;
  const ofLink = (link_id: string, campaign: string, places: number[], more = 0) => ({
    ...{ link_id, campaign, rows: (EVENTS / 4) * places.length + more, conversions: conversions(places) },
  });
  return {
    ...{ app_id, key, summer, events },
    wanted: [ofLink(winter, 'snow', [2]), ofLink('', '', [3], 1), ofLink(summer, 'sale', [0, 1])].sort((a, b) =>
      a.link_id < b.link_id ? -1 : 1,
    ),
    revenue: Object.entries(totals).map(([currency, units]) => ({ currency, amount: amountOf(units) })),
  };
}

async function send({ key, events }: Place, part: number): Promise<{ accepted: number; duplicates: number }> {
  const some = events.slice(part * PER_PART, (part + 1) * PER_PART);
  const answer = await edge.post('/sdk/events', key, { events: some, context: { platform: 'ios' } });
  expect([answer.status, answer.body.rejected]).toEqual([202, 0]);
  return answer.body;
}

async function sendAll(to: Place): Promise<number> {
  let accepted = 0;
  for (let part = 0; part < PARTS; part++) accepted += (await send(to, part)).accepted;
  return accepted;
}

/** Simulates a restarted process, which no longer knows the ids it has seen. */
async function reopen(): Promise<void> {
  await edge.close();
  await edge.open();
}

const patience = { timeout: 25_000, interval: 200 };
const query = (to: Place, sql: string) => way.client.query<Record<string, unknown>>(sql, { app_id: to.app_id });

/** Sends one more event, waits until it is stored, then reads what is stored. */
async function expectCountedOnce(to: Place): Promise<void> {
  const last = { name: 'seen', event_id: 'last', user_id: 'u1' };
  expect((await edge.post('/sdk/events', to.key, last)).body.accepted).toBe(1);
  const arrived = "SELECT count() AS n FROM events WHERE app_id = {app_id:String} AND event_id = 'last'";
  await expect.poll(async () => Number((await query(to, arrived))[0]?.['n']), patience).toBe(1);
  const [raw] = await query(
    to,
    'SELECT count() AS n, uniqExact(event_id) AS ids FROM events WHERE app_id = {app_id:String}',
  );
  expect([Number(raw?.['n']), Number(raw?.['ids'])]).toEqual([EVENTS + 1, EVENTS + 1]);
  const byLink = await query(
    to,
    `SELECT link_id, any(campaign) AS campaign, toUInt32(count()) AS rows, toUInt32(countIf(is_conversion)) AS conversions
       FROM events WHERE app_id = {app_id:String} GROUP BY link_id ORDER BY link_id`,
  );
  expect(byLink).toEqual(to.wanted);
  for (const [table, column] of [
    ['events', 'revenue_amount'],
    ['events_by_link', 'revenue'],
  ] as const) {
    const sums = await query(
      to,
      `SELECT revenue_currency AS currency, toString(sum(${column})) AS amount FROM ${table}
        WHERE app_id = {app_id:String} AND revenue_currency != '' GROUP BY currency ORDER BY currency`,
    );
    expect(sums.map(({ currency, amount }) => ({ currency, amount: decimalOf(amount) }))).toEqual(to.revenue);
  }
  const [rolled] = await query(to, 'SELECT sum(rows) AS n FROM events_by_link WHERE app_id = {app_id:String}');
  expect(Number(rolled?.['n'])).toBe(EVENTS + 1);
}

test('a batch sent three times counts once, with each event’s own link and every digit of its amount', async () => {
  const to = await place();
  const ingest = way.ingest();
  expect(await sendAll(to)).toBe(EVENTS);
  expect(await sendAll(to)).toBe(0);
  await reopen();
  expect(await sendAll(to)).toBe(EVENTS);
  const lines = edge.lines('event');
  expect([lines.length > 0, lines.every(isEventBatch)]).toEqual([true, true]);
  await expectCountedOnce(to);
  await ingest.stop();
});

testCostlyCases(
  ['part_inserted', 'formed', 'inserted', 'after'],
  0,
  'batches sent again count once when ingest dies at %s in between',
  async (failpoint) => {
    const to = await place();
    const dying = way.ingest(`${failpoint}:2`);
    const isDead = () => dying.process.exitCode !== null || dying.process.signalCode !== null;
    await expect
      .poll(async () => {
        await reopen();
        await sendAll(to);
        return isDead();
      }, patience)
      .toBe(true);
    expect(dying.process.signalCode).toBe('SIGKILL');
    await reopen();
    expect(await sendAll(to)).toBe(EVENTS);
    const next = way.ingest();
    await expectCountedOnce(to);
    await next.stop();
  },
  60_000,
);
