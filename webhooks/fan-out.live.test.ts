import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { ClickHouse, ClickHouseFailure } from '#clickhouse/client.ts';
import { webhookColumns } from '#clickhouse/queries/batch-records.ts';
import { newId } from '#common/ids.ts';
import { Postgres } from '#common/stores/postgres.ts';
import { clicksPayload, eventPayload, installPayload, matchPayload } from '#common/webhooks/record-payloads.ts';
import { type Receiver, receiverForTest } from '#testing/receiver.ts';
import { clickhouseForTest, type TestDatabase } from '#testing/servers.ts';
import { queriesIn } from './click-query.ts';
import { FanOut } from './fan-out.ts';
import { payloadOf } from './payload.ts';
import { clicksIn } from './stored-clicks.ts';
import { batchTimeMs, commitBatch, storeRows } from './testing/stored-batches.ts';
import { type EndpointForTest, type WebhooksStage, webhooksStage } from './testing/webhooks-stage.ts';

let stage: WebhooksStage;
let database: TestDatabase;
let clickhouse: ClickHouse;
let own: Postgres;
let receiver: Receiver;
let errors: unknown[];
let batchNo = 0;
const url = 'https://hooks.example.com/';

beforeAll(async () => {
  [stage, database, receiver] = await Promise.all([webhooksStage(), clickhouseForTest(), receiverForTest()]);
  clickhouse = new ClickHouse({ url: database.url });
  own = new Postgres({ url: stage.ownUrl, name: 'fan-out-test' });
});
beforeEach(async () => {
  await stage.db.execute('DELETE FROM webhook_endpoints');
  stage.nowMs = Date.now();
  errors = [];
});
afterEach(() => expect(errors).toEqual([]));
afterAll(async () => {
  await Promise.all([clickhouse.close(), own.close(), receiver.stop()]);
  await Promise.all([stage.stop(), database.stop()]);
});

const fanOut = (reads = clickhouse) =>
  new FanOut({
    db: own,
    clickhouse: reads,
    log: { warn: () => undefined, info: () => undefined, error: (fields: unknown) => void errors.push(fields) },
  });

const store = (table: string, rows: readonly object[], no: number, partition?: number) =>
  storeRows(clickhouse, table, rows, no, partition);
const commit = (no: number, ...tables: string[]) => commitBatch(stage.db, tables, no);

async function messagesOf(
  endpoint: EndpointForTest,
): Promise<{ id: string; type: string; data: Record<string, unknown> }[]> {
  return stage.db.query(
    'SELECT id, type, data FROM webhook_messages WHERE endpoint_id = $1 ORDER BY type, data::text',
    [endpoint.id],
  );
}

const waiting = async () => (await stage.db.query('SELECT FROM webhook_batches')).length;

test('the selected columns match the catalogue', () => {
  const names = (schema: object) => Object.keys((schema as { properties: object }).properties);
  const click = (clicksPayload.properties.clicks as unknown as { items: object }).items;
  expect(names(click)).toEqual([...webhookColumns.clicks]);
  expect(names(installPayload)).toEqual([...webhookColumns.installs]);
  expect(names(eventPayload)).toEqual([...webhookColumns.events]);
  expect(names(matchPayload)).toEqual([...webhookColumns.matches]);
});

test('no batch is queued while no endpoint subscribes to records', async () => {
  await stage.endpoint(url, { events: ['link.created', 'endpoint.disabled'] });
  const disabled = await stage.endpoint(url, { events: ['click.batch'] });
  await stage.db.execute("UPDATE webhook_endpoints SET disabled_at = now(), disabled_reason = 'gone' WHERE id = $1", [
    disabled.id,
  ]);
  await commit(++batchNo, 'clicks', 'events');
  expect(await waiting()).toBe(0);
});

test('every record creates one message for each subscribed endpoint, and none for another tenant or app', async () => {
  const events = ['install.recorded', 'install.attributed', 'event.recorded', 'conversion.recorded', 'match.refused'];
  const all = await stage.endpoint(url, { events, eventNames: ['purchase'] });
  const { organization_id: organizationId } = all;
  const oneApp = await stage.endpoint(url, { organizationId, events: ['install.recorded'], appIds: ['app_2'] });
  const attributed = await stage.endpoint(url, { organizationId, events: ['install.attributed'] });
  const foreign = await stage.endpoint(url, { events, eventNames: ['purchase'] });
  const at = { organization_id: organizationId, app_id: 'app_1' };
  const no = ++batchNo;
  await store(
    'installs',
    [
      {
        ...at,
        install_id: 'ins_1',
        attributed: true,
        link_id: 'lnk_1',
        properties: '{"a":"\\u0000x\\ud800","n":12345678901234567890,"m":[0.10000000000000000000001]}',
      },
      { ...at, install_id: 'ins_2', attributed: false, app_id: 'app_2' },
      // An opening, and an install of an erased person.
      { ...at, install_id: 'ins_3', attributed: true, trigger: 'reengagement' },
      { ...at, install_id: '', attributed: true },
    ],
    no,
  );
  await store(
    'events',
    [
      { ...at, event_id: 'e1', name: 'purchase', is_conversion: true, revenue_amount: '12.5', revenue_currency: 'EUR' },
      { ...at, event_id: 'e2', name: 'opened', is_conversion: false },
      { ...at, event_id: 'e3', name: 'purchase', sign: -1 },
      { ...at, event_id: 'e3', name: 'purchase', is_learned: true },
    ],
    no,
  );
  await store(
    'matches',
    [
      { ...at, match_id: 'm1', outcome: 'ambiguous' },
      { ...at, match_id: 'm2', outcome: 'matched' },
    ],
    no,
  );
  await commit(no, 'installs', 'events', 'matches');
  expect(await fanOut().pass()).toBe(1);
  const facts = async (endpoint: EndpointForTest) =>
    (await messagesOf(endpoint)).map(({ type, data }) => [
      type,
      data['install_id'] || data['event_id'] || data['match_id'],
    ]);
  expect(await facts(all)).toEqual([
    ['conversion.recorded', 'e1'],
    ['event.recorded', 'e1'],
    ['install.attributed', 'ins_1'],
    ['install.recorded', 'ins_1'],
    ['install.recorded', 'ins_2'],
    ['match.refused', 'm1'],
  ]);
  expect(await facts(oneApp)).toEqual([['install.recorded', 'ins_2']]);
  expect(await facts(attributed)).toEqual([['install.attributed', 'ins_1']]);
  expect(await facts(foreign)).toEqual([]);
  const [conversion] = await messagesOf(all);
  expect(conversion?.data).toMatchObject({
    app_id: 'app_1',
    name: 'purchase',
    time: '2026-11-20T10:00:00.000Z',
    revenue_amount: '12.5',
    is_conversion: true,
    properties: {},
  });
  expect(conversion?.data).not.toHaveProperty('organization_id');
  const [install] = await messagesOf(attributed);
  expect(install?.data['properties']).toMatchObject({ a: '\ufffdx\ufffd' });
  const message = {
    type: 'install.attributed',
    organization_id: organizationId,
    app_ids: null,
    occurred_at: new Date(0),
  };
  const body = await payloadOf(
    { ...message, data: install?.data ?? {} },
    () => '',
    async () => [],
  );
  expect(body).toMatch(/"properties":\{[^}]*"m":\[0\.10000000000000000000001\],"n":12345678901234567890/);
  // Queued again, as after a restore, they create the same messages.
  const before = await messagesOf(all);
  await commit(no, 'installs', 'events', 'matches');
  expect(await fanOut().pass()).toBe(1);
  expect(await messagesOf(all)).toEqual(before);
});

test('records at the same position of two partitions of the log create separate messages', async () => {
  const endpoint = await stage.endpoint(url, { events: ['install.recorded'] });
  const no = ++batchNo;
  for (const partition of [0, 3]) {
    const install_id = `ins_of_partition_${partition}`;
    await store(
      'installs',
      [{ organization_id: endpoint.organization_id, app_id: 'app_1', install_id }],
      no,
      partition,
    );
    await commitBatch(stage.db, ['installs'], no, partition);
  }
  expect(await fanOut().pass()).toBe(2);
  const ids = (await messagesOf(endpoint)).map(({ data }) => data['install_id']);
  expect(ids).toEqual(['ins_of_partition_0', 'ins_of_partition_3']);
});

test('click messages have 500 clicks each, which are read when they are sent', async () => {
  const endpoint = await stage.endpoint(receiver.url, { events: ['click.batch'], appIds: ['app_1', 'app_2'] });
  const { organization_id } = endpoint;
  const no = ++batchNo;
  const clicks = Array.from({ length: 1_203 }, (_, n) => ({
    organization_id,
    app_id: `app_${1 + (n % 3)}`,
    click_id: `clk_${n}`,
    link_id: 'lnk_1',
    ip: '192.0.2.0',
  }));
  await store('clicks', clicks, no);
  await commit(no, 'clicks');
  expect(await fanOut().pass()).toBe(1);
  expect((await messagesOf(endpoint)).map(({ data }) => data['part'])).toEqual([0, 1]);
  stage.nowMs = Date.now() + 1_000;
  await stage.deliverAll(stage.process({ readClicks: clicksIn(clickhouse) }));
  const sent = receiver.received.map(
    ({ body }) => JSON.parse(body).data.clicks as { click_id: string; app_id: string }[],
  );
  expect(sent.map((one) => one.length).sort()).toEqual([302, 500]);
  const wanted = clicks.filter(({ app_id }) => app_id !== 'app_3').map(({ click_id }) => click_id);
  expect(
    sent
      .flat()
      .map(({ click_id }) => click_id)
      .sort(),
  ).toEqual(wanted.sort());
  expect(Object.keys(sent[0]?.[0] ?? {})).toEqual([...webhookColumns.clicks]);
  // Clicks that are no longer stored are not sent.
  await stage.db.execute(
    "UPDATE webhook_messages SET status = 'pending', due_at = created_at, data = data || '{\"batch_no\":0}' WHERE endpoint_id = $1",
    [endpoint.id],
  );
  await stage.deliverAll(stage.process({ readClicks: clicksIn(clickhouse) }));
  expect(receiver.received).toHaveLength(2);
  expect((await stage.outcomes(endpoint)).sort()).toEqual(['delivered', 'delivered', 'payload_gone', 'payload_gone']);
  expect(await stage.endpointRow(endpoint.id)).toMatchObject({ disabled_reason: null, failing_since: null });
});

test('an erasure takes no other click out of a large batch, whether it comes before or after the messages are created', async () => {
  for (const isBefore of [true, false]) {
    const endpoint = await stage.endpoint(receiver.url, { events: ['click.batch'] });
    const { organization_id } = endpoint;
    const no = ++batchNo;
    const clicks = Array.from({ length: 1_001 }, (_, n) => ({
      organization_id,
      app_id: 'app_1',
      click_id: `clk_${n}`,
    }));
    await store('clicks', clicks, no);
    await commit(no, 'clicks');
    const erased = ['clk_1', 'clk_2', 'clk_700'];
    const erase = () =>
      clickhouse.command(
        `ALTER TABLE clicks UPDATE click_id = '' WHERE organization_id = {organization_id:String} AND click_id IN {erased:Array(String)}`,
        { organization_id, erased },
        { mutations_sync: 2 },
      );
    if (isBefore) await erase();
    expect(await fanOut().pass()).toBe(1);
    if (!isBefore) await erase();
    receiver.received.splice(0);
    stage.nowMs = Date.now() + 1_000;
    await stage.deliverAll(stage.process({ readClicks: clicksIn(clickhouse) }));
    const sent = receiver.received.flatMap(({ body }) => JSON.parse(body).data.clicks as { click_id: string }[]);
    const wanted = clicks.map(({ click_id }) => click_id).filter((id) => !erased.includes(id));
    expect(sent.map(({ click_id }) => click_id).sort()).toEqual(wanted.sort());
    expect(new Set(await stage.outcomes(endpoint))).toEqual(new Set(['delivered']));
    await stage.db.execute('DELETE FROM webhook_endpoints WHERE id = $1', [endpoint.id]);
  }
});

test('of clicks that were owed to an endpoint before it was narrowed, it gets those of its remaining apps', async () => {
  const endpoint = await stage.endpoint(receiver.url, { events: ['click.batch'], appIds: ['app_1', 'app_2'] });
  const { organization_id } = endpoint;
  const no = ++batchNo;
  const clicks = Array.from({ length: 800 }, (_, n) => ({
    organization_id,
    app_id: n < 600 ? `app_${1 + (n % 2)}` : 'app_2',
    click_id: `clk_${n}`,
  }));
  await store('clicks', clicks, no);
  await commit(no, 'clicks');
  expect(await fanOut().pass()).toBe(1);
  await stage.db.execute("UPDATE webhook_endpoints SET app_ids = '{app_1}' WHERE id = $1", [endpoint.id]);
  receiver.received.splice(0);
  stage.nowMs = Date.now() + 1_000;
  await stage.deliverAll(stage.process({ readClicks: clicksIn(clickhouse) }));
  const sent = receiver.received.flatMap(({ body }) => JSON.parse(body).data.clicks as { click_id: string }[]);
  const wanted = clicks.filter(({ app_id }) => app_id === 'app_1').map(({ click_id }) => click_id);
  expect(sent.map(({ click_id }) => click_id).sort()).toEqual(wanted.sort());
});

test('a waiting click batch of which an endpoint covers no click any more is deleted, and does not fail', async () => {
  for (const appIds of [['app_1', 'app_2'], null]) {
    const endpoint = await stage.endpoint(receiver.url, { events: ['click.batch'], ...(appIds && { appIds }) });
    const { organization_id } = endpoint;
    const no = ++batchNo;
    await store('clicks', [{ organization_id, app_id: 'app_2', click_id: 'clk_1' }], no);
    await commit(no, 'clicks');
    expect(await fanOut().pass()).toBe(1);
    expect(await messagesOf(endpoint)).toHaveLength(1);
    await stage.db.execute("UPDATE webhook_endpoints SET app_ids = '{app_1}' WHERE id = $1", [endpoint.id]);
    receiver.received.splice(0);
    stage.nowMs = Date.now() + 1_000;
    await stage.deliverAll(stage.process({ readClicks: clicksIn(clickhouse) }));
    expect([receiver.received, await messagesOf(endpoint), await stage.outcomes(endpoint)]).toEqual([[], [], []]);
  }
});

test('each record creates one message, even if a process dies in the middle of a batch or several run concurrently', async () => {
  const endpoint = await stage.endpoint(url, { events: ['install.recorded'] });
  const { organization_id } = endpoint;
  const numbers = Array.from({ length: 12 }, () => ++batchNo);
  for (const no of numbers) {
    await store('installs', [{ organization_id, app_id: 'app_1', install_id: `ins_of_${no}` }], no);
    await commit(no, 'installs');
  }
  // Its connection to Postgres ends before its query is answered, as when the process dies.
  let noteAsked: () => void = () => undefined;
  let noteEnded: (error: Error) => void = () => undefined;
  const asked = new Promise<void>((done) => {
    noteAsked = done;
  });
  const ended = new Promise<never>((_, fail) => {
    noteEnded = fail;
  });
  const query = () => {
    noteAsked();
    return ended;
  };
  const hanging = { query } as unknown as ClickHouse;
  const dying = fanOut(hanging).pass();
  await asked;
  await stage.db.query(
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'fan-out-test' AND state = 'idle in transaction'",
  );
  await expect
    .poll(async () => {
      await Promise.all([fanOut().pass(), fanOut().pass(), fanOut().pass()]);
      return waiting();
    })
    .toBe(0);
  noteEnded(new Error('the process has ended'));
  await dying;
  errors.length = 0;
  const ids = (await messagesOf(endpoint)).map(({ data }) => data['install_id']);
  expect(ids.sort()).toEqual(numbers.map((no) => `ins_of_${no}`).sort());
});

test('after Postgres has lost commits, the records of all batches that it does not know create their messages again', async () => {
  const endpoint = await stage.endpoint(url, { events: ['install.recorded'] });
  const { organization_id } = endpoint;
  const numbers = [++batchNo, ++batchNo, ++batchNo];
  for (const no of numbers)
    await store('installs', [{ organization_id, app_id: 'app_1', install_id: `ins_${no}` }], no);
  await stage.db.transaction(async (queries) => {
    await queries.execute(
      "INSERT INTO ingest.batch (partition, batch_no, epoch, frames, parts, stream_time, is_partial) VALUES (3, $1, 1, '[]', '[]', 0, true)",
      [numbers[0]],
    );
    await queries.execute('INSERT INTO ingest.last_batch VALUES (3, $1)', [numbers[2]]);
  });
  await fanOut().pass();
  expect((await messagesOf(endpoint)).map(({ data }) => data['install_id'])).toEqual(numbers.map((no) => `ins_${no}`));
  // Its frames were received again.
  await stage.db.execute('DELETE FROM ingest.batch');
  await fanOut().pass();
  expect(await messagesOf(endpoint)).toHaveLength(3);
  expect(await waiting()).toBe(0);
});

/** Two queued batches: the first without rows, the second with one install for the endpoint. */
async function twoBatches() {
  const endpoint = await stage.endpoint(url, { events: ['install.recorded'] });
  const [bad, good] = [++batchNo, ++batchNo];
  await store(
    'installs',
    [{ organization_id: endpoint.organization_id, app_id: 'app_1', install_id: 'ins_good' }],
    good,
  );
  await commit(bad, 'installs');
  await commit(good, 'installs');
  return { endpoint, bad };
}

test('a batch that cannot be read is postponed, and does not block others', async () => {
  const { endpoint, bad } = await twoBatches();
  await stage.db.execute(
    'UPDATE webhook_batches SET parts = \'[{"table":"installs","time_from":"x"}]\' WHERE batch_no = $1',
    [bad],
  );
  expect(await fanOut().pass()).toBe(2);
  expect(await messagesOf(endpoint)).toHaveLength(1);
  expect([await waiting(), errors.splice(0).length]).toEqual([1, 1]);
  await stage.db.execute('DELETE FROM webhook_batches');
});

test('a batch whose query exceeds its limits is postponed, and blocks others as little', async () => {
  const { endpoint } = await twoBatches();
  let queries = 0;
  const query: ClickHouse['query'] = (...args) =>
    ++queries === 1
      ? Promise.reject(new ClickHouseFailure('unavailable', 159, 'Timeout exceeded', null))
      : clickhouse.query(...args);
  expect(await fanOut(Object.assign(new ClickHouse({ url: database.url }), { query })).pass()).toBe(2);
  expect(await messagesOf(endpoint)).toHaveLength(1);
  expect([await waiting(), errors.splice(0).length]).toEqual([1, 1]);
  await stage.db.execute('DELETE FROM webhook_batches');
});

test('a postback is sent once for each event that matches its names and campaigns, with values from the event and its click', async () => {
  const template = `${receiver.url}?e={event_name}&r={revenue}&c={currency}&k={campaign}&i={event_id}&g={query.gclid}`;
  const [events, eventNames] = [['event.recorded'], ['purchase']];
  const postback = { method: 'GET' as const, campaigns: ['summer & sale'] };
  const endpoint = await stage.endpoint(template, { events, eventNames, postback });
  const { organization_id: organizationId } = endpoint;
  const webhook = await stage.endpoint(url, { organizationId, events, eventNames });
  const foreign = await stage.endpoint(template, { events, eventNames, postback: { method: 'GET' } });
  const no = ++batchNo;
  const click_id = newId('clk', batchTimeMs);
  const at = { organization_id: organizationId, app_id: 'app_1', name: 'purchase', campaign: 'summer & sale' };
  await store('clicks', [{ organization_id: organizationId, app_id: 'app_1', click_id, query: 'gclid=a%2Fb&x=1' }], no);
  await store(
    'events',
    [
      { ...at, event_id: 'e1', click_id, revenue_amount: '12.5', revenue_currency: 'EUR' },
      { ...at, event_id: 'e2', campaign: 'winter' },
      { ...at, event_id: 'e3', name: 'opened' },
    ],
    no,
  );
  for (let times = 0; times < 2; times++) {
    await commit(no, 'clicks', 'events');
    expect(await fanOut().pass()).toBe(1);
  }
  expect((await messagesOf(endpoint)).map(({ data }) => data['event_id'])).toEqual(['e1']);
  expect((await messagesOf(webhook)).map(({ data }) => data['event_id'])).toEqual(['e1', 'e2']);
  expect(await messagesOf(foreign)).toEqual([]);

  await stage.db.execute('DELETE FROM webhook_messages WHERE endpoint_id = $1', [webhook.id]);
  receiver.received.splice(0);
  stage.nowMs = Date.now() + 60_000;
  await stage.deliverAll(stage.process({ readQuery: queriesIn(clickhouse) }));
  expect(receiver.received.map(({ method, path, body }) => [method, path, body])).toEqual([
    ['GET', '/hook?e=purchase&r=12.5&c=EUR&k=summer%20%26%20sale&i=e1&g=a%2Fb', ''],
  ]);
  expect(await stage.outcomes(endpoint)).toEqual(['delivered']);
});

test('a postback has no parameters of an unknown click or a click of another app', async () => {
  const [organization_id, no] = [await stage.newOrganization(), ++batchNo];
  const click_id = newId('clk', batchTimeMs);
  await store('clicks', [{ organization_id, app_id: 'app_1', click_id, query: 'gclid=1' }], no);
  const queryOf = queriesIn(clickhouse);
  expect(await queryOf(organization_id, { app_id: 'app_1', click_id })).toBe('gclid=1');
  expect(await queryOf(organization_id, { app_id: 'app_2', click_id })).toBe('');
  expect(await queryOf('org_other', { app_id: 'app_1', click_id })).toBe('');
  expect(await queryOf(organization_id, { app_id: 'app_1', click_id: newId('clk', batchTimeMs) })).toBe('');
  expect(await queryOf(organization_id, { app_id: 'app_1', click_id: '' })).toBe('');
});
