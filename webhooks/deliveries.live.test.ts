import { Webhook } from 'standardwebhooks';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { ClickHouseFailure } from '#clickhouse/client.ts';
import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from '#common/durations.ts';
import { ReachableAddresses } from '#common/reachable-addresses.ts';
import { newWebhookSecret, webhookSecretContext } from '#common/webhooks/webhook-secret.ts';
import { type Receiver, receiverForTest } from '#testing/receiver.ts';
import { leaseMs } from './message-store.ts';
import { retryDelaysMs } from './schedule.ts';
import { type EndpointForTest, type WebhooksStage, webhooksStage } from './testing/webhooks-stage.ts';

let stage: WebhooksStage;
const receivers: Receiver[] = [];

beforeAll(async () => {
  stage = await webhooksStage();
});
beforeEach(async () => {
  await stage.db.execute('DELETE FROM webhook_endpoints');
  stage.nowMs = Date.now();
});
afterAll(async () => {
  await Promise.all(receivers.map((one) => one.stop()));
  await stage.stop();
});

async function receiver(status = 204): Promise<Receiver> {
  const made = await receiverForTest();
  made.answer = (response) => response.writeHead(status).end();
  receivers.push(made);
  return made;
}

/** Verifies like a receiver, with the library published by the authors of the specification. */
function verified({ received }: Receiver, secret: string, at = 0): unknown {
  const got = received[at];
  if (got === undefined) throw new Error('nothing was received');
  return new Webhook(secret).verify(got.body, got.headers as Record<string, string>);
}

async function ends(endpoint: EndpointForTest) {
  const { disabled_reason, failing_since } = (await stage.endpointRow(endpoint.id)) ?? {};
  return { disabled_reason, isFailing: failing_since !== null };
}

test('a delivery is signed so that the specification’s own library verifies it', async () => {
  const to = await receiver();
  const endpoint = await stage.endpoint(to.url);
  const [id] = await stage.addMessages(endpoint);
  await stage.deliverAll();
  expect(verified(to, endpoint.secret)).toEqual({
    type: 'endpoint.test',
    version: 1,
    timestamp: new Date(stage.nowMs).toISOString(),
    organization_id: endpoint.organization_id,
    data: { n: 1 },
  });
  expect(to.received[0]?.headers).toMatchObject({ 'content-type': 'application/json', 'webhook-id': id });
  expect(() => verified(to, newWebhookSecret())).toThrow();
  expect(await stage.message(id ?? '')).toMatchObject({ status: 'delivered', tries: 1, lease: null });
  expect(await stage.outcomes(endpoint)).toEqual(['delivered']);
});

test('during a rotation both secrets verify; afterwards only the new one does', async () => {
  const to = await receiver();
  const endpoint = await stage.endpoint(to.url);
  const fresh = newWebhookSecret();
  await stage.db.execute(
    `UPDATE webhook_endpoints SET previous_secret_ciphertext = secret_ciphertext, previous_secret_until = $2, secret_ciphertext = $3 WHERE id = $1`,
    [
      endpoint.id,
      new Date(stage.nowMs + MINUTE_MS),
      stage.encryption.encrypt(fresh, webhookSecretContext(endpoint.id)),
    ],
  );
  await stage.addMessages(endpoint);
  await stage.deliverAll();
  expect(verified(to, endpoint.secret)).toEqual(verified(to, fresh));
  await stage.addMessages(endpoint);
  stage.nowMs += MINUTE_MS;
  await stage.deliverAll();
  expect(to.received).toHaveLength(2);
  expect(() => verified(to, endpoint.secret, 1)).toThrow();
  expect(verified(to, fresh, 1)).toMatchObject({ type: 'endpoint.test' });
});

test('a message that fails is sent again on the schedule with the same id and body, and ends as failed', async () => {
  const to = await receiver(500);
  const endpoint = await stage.endpoint(to.url);
  const [id = ''] = await stage.addMessages(endpoint);
  const began = stage.nowMs;
  await stage.deliverAll();
  for (const [n, wait] of retryDelaysMs.entries()) {
    expect(await stage.message(id)).toMatchObject({
      status: 'pending',
      tries: n + 1,
      due_at: new Date(stage.nowMs + wait),
    });
    stage.nowMs += wait - 1;
    await stage.deliverAll();
    expect(to.received).toHaveLength(n + 1);
    stage.nowMs += 1;
    await stage.deliverAll();
    expect(to.received).toHaveLength(n + 2);
  }
  expect(await stage.message(id)).toMatchObject({ status: 'failed', tries: 10 });
  expect(new Set(to.ids())).toEqual(new Set([id]));
  expect(new Set(to.received.map(({ body }) => body)).size).toBe(1);
  expect(await stage.outcomes(endpoint)).toEqual(Array.from({ length: 10 }, () => 'http_error'));
  // The schedule is shorter than five days.
  expect(stage.nowMs - began).toBeLessThan(5 * DAY_MS);
  expect(await ends(endpoint)).toEqual({ disabled_reason: null, isFailing: true });
  to.answer = (response) => response.writeHead(200).end('ok');
  await stage.addMessages(endpoint);
  await stage.deliverAll();
  expect(await ends(endpoint)).toEqual({ disabled_reason: null, isFailing: false });
});

test('Retry-After postpones the next attempt', async () => {
  const to = await receiver();
  to.answer = (response) => response.writeHead(429, { 'retry-after': '600' }).end();
  const [id = ''] = await stage.addMessages(await stage.endpoint(to.url));
  await stage.deliverAll();
  expect((await stage.message(id))?.due_at).toEqual(new Date(stage.nowMs + 10 * MINUTE_MS));
});

test('410 disables an endpoint immediately, and subscribed endpoints of its organization are notified', async () => {
  const [gone, watching] = [await receiver(410), await receiver()];
  const endpoint = await stage.endpoint(gone.url, { events: ['link.created', 'endpoint.disabled'] });
  const { organization_id: organizationId } = endpoint;
  const watcher = await stage.endpoint(watching.url, { organizationId, events: ['endpoint.disabled'] });
  const [first = '', second = ''] = await stage.addMessages(endpoint, 7);
  await stage.deliverAll();
  expect((await stage.endpointRow(endpoint.id))?.disabled_reason).toBe('gone');
  expect(await stage.message(first)).toMatchObject({ status: 'failed', tries: 1 });
  expect(second).not.toBe('');
  expect(gone.received.length).toBeLessThan(7);
  expect(watching.received).toHaveLength(1);
  expect(verified(watching, watcher.secret)).toMatchObject({
    type: 'endpoint.disabled',
    data: { id: endpoint.id, url: gone.url, reason: 'gone' },
  });
});

test('an endpoint without any success for five days is disabled', async () => {
  const to = await receiver(503);
  const endpoint = await stage.endpoint(to.url);
  await stage.addMessages(endpoint);
  await stage.deliverAll();
  stage.nowMs += 5 * DAY_MS - HOUR_MS;
  await stage.addMessages(endpoint);
  await stage.deliverAll();
  expect((await stage.endpointRow(endpoint.id))?.disabled_reason).toBeNull();
  stage.nowMs += HOUR_MS;
  await stage.deliverAll();
  expect((await stage.endpointRow(endpoint.id))?.disabled_reason).toBe('failing');
});

test('an endpoint that hangs times out, and an endless response is not read to its end', async () => {
  const [hangs, floods] = [await receiver(), await receiver()];
  hangs.answer = () => undefined;
  floods.answer = (response) => {
    response.writeHead(500);
    const more = () => {
      if (!response.destroyed) response.write('x\0'.repeat(32_768), () => setImmediate(more));
    };
    more();
  };
  const [slow, endless] = [await stage.endpoint(hangs.url), await stage.endpoint(floods.url)];
  await stage.addMessages(slow);
  await stage.addMessages(endless);
  await stage.deliverAll(stage.process({ timeLimitMs: 300 }));
  expect(await stage.outcomes(slow)).toEqual(['timeout']);
  expect(await stage.outcomes(endless)).toEqual(['http_error']);
  const [attempt] = await stage.db.query<{ answer: string }>(
    'SELECT answer FROM webhook_attempts WHERE endpoint_id = $1',
    [endless.id],
  );
  // Postgres cannot store NUL.
  expect(attempt?.answer).toBe('x\ufffd'.repeat(512));
});

test('what a process had claimed when it was killed is delivered by another one once its lease has ended', async () => {
  const to = await receiver();
  to.answer = () => undefined;
  const endpoint = await stage.endpoint(to.url);
  const [id = ''] = await stage.addMessages(endpoint);
  // Its requests hang forever, and nothing is recorded.
  const killed = stage.process({ timeLimitMs: 600_000 });
  expect(await killed.claim()).toBe(1);
  await expect.poll(() => to.ids()).toEqual([id]);
  to.answer = (response) => response.writeHead(200).end();
  await stage.deliverAll();
  stage.nowMs += leaseMs - 1;
  await stage.deliverAll();
  expect(to.ids()).toEqual([id]);
  stage.nowMs += 1;
  await stage.deliverAll();
  expect(to.ids()).toEqual([id, id]);
  expect(await stage.message(id)).toMatchObject({ status: 'delivered', tries: 1 });
  // Its attempt ends late, and changes nothing.
  await to.stop();
  await killed.settled();
  expect(await stage.message(id)).toMatchObject({ status: 'delivered', tries: 1 });
});

test('several processes share the work: each message is sent once', async () => {
  const to = await receiver();
  const endpoint = await stage.endpoint(to.url);
  const ids = await stage.addMessages(endpoint, 60);
  const processes = [stage.process(), stage.process(), stage.process()];
  await Promise.all(processes.map((one) => stage.deliverAll(one)));
  await stage.deliverAll();
  expect(to.ids().sort()).toEqual([...ids].sort());
});

test('one endpoint gets five messages at a time, a failing one gets one, and an organization twenty', async () => {
  const to = await receiver();
  to.answer = () => undefined;
  const organizationId = await stage.newOrganization();
  const busy = await Promise.all(Array.from({ length: 6 }, () => stage.endpoint(to.url, { organizationId })));
  for (const endpoint of busy) await stage.addMessages(endpoint, 10);
  const failing = await stage.endpoint(to.url);
  await stage.db.execute('UPDATE webhook_endpoints SET failing_since = now() WHERE id = $1', [failing.id]);
  await stage.addMessages(failing, 10);
  const hanging = stage.process({ timeLimitMs: 600_000 });
  expect(await hanging.claim()).toBe(21);
  // Messages for other endpoints do not delay a working endpoint.
  expect(await stage.process({ timeLimitMs: 600_000 }).claim()).toBe(0);
  const well = await receiver();
  const [id] = await stage.addMessages(await stage.endpoint(well.url));
  await stage.deliverAll();
  expect(well.ids()).toEqual([id]);
  await to.stop();
  await hanging.settled();
});

test('with few free slots, every organization gets its first message before any gets its second', async () => {
  const to = await receiver();
  const flood = await stage.endpoint(to.url);
  const floods = await stage.addMessages(flood, 50);
  stage.nowMs += SECOND_MS;
  const quiet = [await stage.endpoint(to.url), await stage.endpoint(to.url)];
  const theirs: string[] = [];
  for (const endpoint of quiet) theirs.push(...(await stage.addMessages(endpoint)));
  const ids = await stage.claimOnly(3);
  expect(ids).toHaveLength(3);
  expect(ids).toEqual(expect.arrayContaining(theirs));
  expect(floods).toContain(ids.find((id) => !theirs.includes(id)));
  stage.nowMs += leaseMs;
  await stage.deliverAll();
  expect(new Set(to.ids()).size).toBe(52);
});

test('a process that is stopped releases messages that it could not finish', async () => {
  const to = await receiver();
  to.answer = () => undefined;
  const endpoint = await stage.endpoint(to.url);
  const [id = ''] = await stage.addMessages(endpoint);
  const stopping = stage.process({ drainMs: 50 });
  expect(await stopping.claim()).toBe(1);
  await expect.poll(() => to.ids()).toEqual([id]);
  await stopping.stop();
  expect(await stage.message(id)).toMatchObject({ status: 'pending', tries: 0, lease: null });
  expect(await stage.outcomes(endpoint)).toEqual([]);
});

test('messages and attempts are deleted after 30 days, by the clock of Postgres', async () => {
  const to = await receiver();
  const endpoint = await stage.endpoint(to.url);
  const [old = '', young = ''] = await stage.addMessages(endpoint, 2);
  await stage.deliverAll();
  const age = (table: string, column: string) =>
    stage.db.execute(`UPDATE ${table} SET created_at = now() - interval '30 days 1 second' WHERE ${column} = $1`, [
      old,
    ]);
  await age('webhook_messages', 'id');
  await age('webhook_attempts', 'message_id');
  // Also while that jumps a year ahead.
  const setDeletionClock = (by: string) =>
    stage.db.execute('UPDATE ingest.deletion_clock SET reached = now() + $1::interval', [by]);
  await setDeletionClock('-365 days');
  stage.nowMs += 365 * DAY_MS;
  await stage.chores();
  await setDeletionClock('1 hour');
  expect([await stage.message(old), (await stage.message(young))?.status]).toEqual([undefined, 'delivered']);
  expect(await stage.outcomes(endpoint)).toEqual(['delivered']);
});

test('an endpoint with too many waiting messages is disabled, and they can be replayed', async () => {
  const to = await receiver(500);
  const endpoint = await stage.endpoint(to.url);
  const [id = ''] = await stage.addMessages(endpoint, 21);
  await stage.chores(21);
  expect((await stage.endpointRow(endpoint.id))?.disabled_reason).toBeNull();
  await stage.addMessages(endpoint);
  await stage.chores(21);
  expect((await stage.endpointRow(endpoint.id))?.disabled_reason).toBe('backlog');
  expect((await stage.message(id))?.status).toBe('failed');
});

test('a receiver that fails in every way gets each message at least once under its id, and no internal address is reached', async () => {
  const inside = await receiver();
  const to = await receiverForTest('127.0.0.2');
  receivers.push(to);
  const endpoint = await stage.endpoint(`http://hooks.example:${to.port}/hook`);
  // The address at each lookup; the restarting receiver is at another address in the meantime.
  let addresses = ['127.0.0.2'];
  const by = stage.process({
    resolve: async () => addresses,
    reachable: new ReachableAddresses(['127.0.0.2', '127.0.0.3']),
    timeLimitMs: 500,
  });
  const ids = await stage.addMessages(endpoint, 4);
  const redirect: Receiver['answer'] = (response) => response.writeHead(307, { location: inside.url }).end();
  const moods: readonly [outcome: string, set: () => void][] = [
    ['http_error', () => (to.answer = (response) => response.writeHead(500).end())],
    ['timeout', () => (to.answer = () => undefined)],
    ['http_error', () => (to.answer = redirect)],
    ['address_not_allowed', () => (addresses = ['127.0.0.1', '::1', '169.254.169.254'])],
    ['connection_failed', () => (addresses = ['127.0.0.3'])],
    ['connection_failed', () => (to.answer = (response) => response.destroy())],
  ];
  for (const [n, [, set]] of moods.entries()) {
    addresses = ['127.0.0.2'];
    set();
    await stage.deliverAll(by);
    stage.nowMs += retryDelaysMs[n] ?? 0;
  }
  to.answer = (response) => response.writeHead(204).end();
  addresses = ['127.0.0.1', '127.0.0.2'];
  const before = to.received.length;
  await stage.deliverAll(by);
  expect(to.ids().slice(before).sort()).toEqual([...ids].sort());
  expect(new Set(to.ids())).toEqual(new Set(ids));
  const outcomes = await stage.outcomes(endpoint);
  expect(new Set(outcomes)).toEqual(new Set([...moods.map(([outcome]) => outcome), 'delivered']));
  expect(outcomes).toHaveLength(4 * (moods.length + 1));
  expect(inside.received).toEqual([]);
});

test('a postback is sent with its method and without a signature, retried on the schedule, and its attempts show the template', async () => {
  const to = await receiver(503);
  const template = `${to.url}/{event_name}?id={event_id}`;
  const body = 'name={event_name}&value={revenue}';
  const endpoint = await stage.endpoint(template, { events: ['event.recorded'], postback: { method: 'POST', body } });
  const [id = ''] = await stage.addMessages(endpoint);
  await stage.deliverAll();
  to.answer = (response) => response.writeHead(200).end();
  stage.nowMs += retryDelaysMs[0] ?? 0;
  await stage.deliverAll();
  expect(to.received).toHaveLength(2);
  for (const got of to.received) {
    expect([got.method, got.path, got.body]).toEqual(['POST', '/hook/purchase?id=e1', 'name=purchase&value=12.5']);
    expect(got.headers).toMatchObject({ 'content-type': 'application/x-www-form-urlencoded' });
    expect(Object.keys(got.headers).filter((name) => name.startsWith('webhook-'))).toEqual([]);
  }
  expect(await stage.message(id)).toMatchObject({ status: 'delivered', tries: 2 });
  expect(await stage.outcomes(endpoint)).toEqual(['http_error', 'delivered']);
  const shown = await stage.db.query('SELECT DISTINCT url FROM webhook_attempts WHERE endpoint_id = $1', [endpoint.id]);
  expect(shown).toEqual([{ url: template }]);
});

test('a message that cannot be built is retried on the schedule, ends as failed, and delays no other message', async () => {
  const to = await receiver();
  const endpoint = await stage.endpoint(to.url);
  // A link without its fields.
  const [poison = ''] = await stage.addMessages(endpoint, 1, 'link.updated');
  const logged: unknown[] = [];
  const log = { warn: () => undefined, info: () => undefined, error: (fields: unknown) => void logged.push(fields) };
  const by = stage.process({ log });
  await stage.deliverAll(by);
  for (const [n, wait] of retryDelaysMs.entries()) {
    const due_at = new Date(stage.nowMs + wait);
    expect(await stage.message(poison)).toMatchObject({ status: 'pending', tries: n + 1, due_at, lease: null });
    const [other] = await stage.addMessages(endpoint);
    stage.nowMs += wait;
    await stage.deliverAll(by);
    expect(to.ids().at(-1)).toBe(other);
  }
  expect(await stage.message(poison)).toMatchObject({ status: 'failed', tries: 10, lease: null });
  expect((await stage.outcomes(endpoint)).filter((one) => one !== 'delivered')).toEqual(
    Array.from({ length: 10 }, () => 'internal_error'),
  );
  // It is not the receiver that fails.
  expect(await ends(endpoint)).toEqual({ disabled_reason: null, isFailing: false });
  expect(logged[0]).toMatchObject({ message_id: poison, endpoint_id: endpoint.id });
});

test('a message whose answer cannot be stored is retried on the schedule, and not every minute', async () => {
  const to = await receiver();
  const endpoint = await stage.endpoint(to.url);
  const [id = ''] = await stage.addMessages(endpoint);
  await stage.db.execute(`ALTER TABLE webhook_attempts ADD CONSTRAINT unstorable CHECK (outcome <> 'delivered')`);
  try {
    const log = { warn: () => undefined, info: () => undefined, error: () => undefined };
    await stage.deliverAll(stage.process({ log }));
  } finally {
    await stage.db.execute('ALTER TABLE webhook_attempts DROP CONSTRAINT unstorable');
  }
  const due_at = new Date(stage.nowMs + (retryDelaysMs[0] ?? 0));
  expect(await stage.message(id)).toMatchObject({ status: 'pending', tries: 1, due_at, lease: null });
  expect(await stage.outcomes(endpoint)).toEqual(['internal_error']);
});

test('while ClickHouse is unavailable, messages wait without using up their attempts', async () => {
  const endpoint = await stage.endpoint((await receiver()).url, { events: ['click.batch'] });
  const [id = ''] = await stage.addMessages(endpoint, 1, 'click.batch');
  const readClicks = () => Promise.reject(new ClickHouseFailure('unavailable', 0, 'no answer', undefined));
  await stage.deliverAll(stage.process({ readClicks }));
  expect(await stage.message(id)).toMatchObject({ status: 'pending', tries: 0 });
  expect(await stage.outcomes(endpoint)).toEqual([]);
});

test('a message of an app that was removed from its endpoint is not sent, and is deleted', async () => {
  const to = await receiver();
  const endpoint = await stage.endpoint(to.url, { appIds: ['app_1'] });
  const [own = '', removed = ''] = await stage.addMessages(endpoint, 2, 'event.recorded');
  const of = (id: string, app_id: string) =>
    stage.db.execute('UPDATE webhook_messages SET data = $2 WHERE id = $1', [id, JSON.stringify({ app_id })]);
  await of(own, 'app_1');
  await of(removed, 'app_2');
  await stage.deliverAll();
  expect(to.ids()).toEqual([own]);
  expect(await stage.message(removed)).toBeUndefined();
  expect(await stage.outcomes(endpoint)).toEqual(['delivered']);
});

/** Adds messages about an app, and an attempt of each. @returns their ids. */
async function addOf(endpoint: EndpointForTest, app_id: string, count = 1): Promise<string[]> {
  const ids = await stage.addMessages(endpoint, count, 'event.recorded');
  await stage.db.execute('UPDATE webhook_messages SET data = $2 WHERE id = ANY ($1)', [
    ids,
    JSON.stringify({ app_id }),
  ]);
  await stage.db.execute(
    `INSERT INTO webhook_attempts (endpoint_id, organization_id, message_id, type, url, attempted_at, duration_ms, outcome)
     SELECT $1, $2, id, 'event.recorded', 'https://x.example', now(), 1, $4 FROM unnest($3::text[]) AS id`,
    [endpoint.id, endpoint.organization_id, ids, app_id],
  );
  return ids;
}
const narrow = (endpoint: EndpointForTest, appIds: string[]) =>
  stage.db.execute('UPDATE webhook_endpoints SET app_ids = $2 WHERE id = $1', [endpoint.id, appIds]);
async function storedIds(endpoint: EndpointForTest): Promise<string[]> {
  const sql = 'SELECT id FROM webhook_messages WHERE endpoint_id = $1 ORDER BY id';
  return (await stage.db.query<{ id: string }>(sql, [endpoint.id])).map(({ id }) => id);
}

test('messages of apps that an endpoint no longer covers are deleted in lots, with their attempts, and those of others kept', async () => {
  const endpoint = await stage.endpoint('https://x.example', { appIds: ['app_1', 'app_2'] });
  const all = await stage.endpoint('https://x.example');
  const kept = [await addOf(endpoint, 'app_1', 11), await addOf(all, 'app_2', 3)];
  await addOf(endpoint, 'app_2', 20);
  const chores = stage.newChores({ rowsAtOnce: 4, lookedMax: 101 });
  await chores.look();
  expect(await storedIds(endpoint)).toHaveLength(31);
  await narrow(endpoint, ['app_1']);
  await chores.look();
  // Each of the statements of a pass looks at four messages, and counts as fifty.
  expect((await storedIds(endpoint)).length).toBeGreaterThan(11);
  for (let n = 0; n < 4; n++) await chores.look();
  expect(await storedIds(endpoint)).toEqual(kept[0]?.sort());
  expect(await storedIds(all)).toEqual(kept[1]?.sort());
  expect(new Set(await stage.outcomes(endpoint))).toEqual(new Set(['app_1']));
  expect(await stage.outcomes(all)).toHaveLength(3);
});

test('messages of apps that an endpoint no longer covers are deleted although it was narrowed while no process ran', async () => {
  const endpoint = await stage.endpoint('https://x.example', { appIds: ['app_1', 'app_2'] });
  const [own = ''] = await addOf(endpoint, 'app_1');
  await addOf(endpoint, 'app_2', 2);
  await narrow(endpoint, ['app_1']);
  await stage.chores();
  expect([await storedIds(endpoint), await stage.outcomes(endpoint)]).toEqual([[own], ['app_1']]);
});

test('a message that is locked is deleted by a later pass, with the attempt that was stored meanwhile', async () => {
  const endpoint = await stage.endpoint('https://x.example', { appIds: ['app_2'] });
  const [id = ''] = await addOf(endpoint, 'app_2');
  await narrow(endpoint, ['app_1']);
  const chores = stage.newChores();
  await stage.db.transaction(async (queries) => {
    await queries.query('SELECT FROM webhook_messages WHERE id = $1 FOR UPDATE', [id]);
    await chores.look();
    expect(await storedIds(endpoint)).toEqual([id]);
  });
  await chores.look();
  expect([await storedIds(endpoint), await stage.outcomes(endpoint)]).toEqual([[], []]);
});

test('an attempt that ends while its message is deleted leaves no trace', async () => {
  const to = await receiver();
  const endpoint = await stage.endpoint(to.url);
  const [id = ''] = await stage.addMessages(endpoint);
  const delivery = stage.process();
  await stage.db.transaction(async (queries) => {
    // The lock stands for a deletion that is not committed when the attempt ends.
    expect(await delivery.claim()).toBe(1);
    await queries.execute('DELETE FROM webhook_messages WHERE id = $1', [id]);
    await expect.poll(() => to.ids()).toEqual([id]);
    const blocked = `SELECT FROM pg_stat_activity WHERE application_name = 'webhooks-test' AND wait_event_type = 'Lock'`;
    await expect.poll(async () => (await stage.db.query(blocked)).length).toBe(1);
  });
  await delivery.settled();
  expect([await stage.message(id), await stage.outcomes(endpoint)]).toEqual([undefined, []]);
});

test('an attempt that ends while its endpoint is deleted leaves no trace, and neither fails', async () => {
  const to = await receiver();
  const endpoint = await stage.endpoint(to.url);
  const [id = ''] = await stage.addMessages(endpoint);
  const logged: unknown[] = [];
  const note = (fields: unknown) => void logged.push(fields);
  const delivery = stage.process({ log: { warn: note, info: () => undefined, error: note } });
  await stage.db.transaction(async (queries) => {
    expect(await delivery.claim()).toBe(1);
    await queries.execute('SELECT FROM webhook_endpoints WHERE id = $1 FOR UPDATE', [endpoint.id]);
    await expect.poll(() => to.ids()).toEqual([id]);
    const blocked = `SELECT FROM pg_stat_activity WHERE application_name = 'webhooks-test' AND wait_event_type = 'Lock'`;
    await expect.poll(async () => (await stage.db.query(blocked)).length).toBe(1);
    await queries.execute('DELETE FROM webhook_endpoints WHERE id = $1', [endpoint.id]);
  });
  await delivery.settled();
  expect([await stage.message(id), await stage.outcomes(endpoint), logged]).toEqual([undefined, [], []]);
});

test('an endpoint.disabled that waited while its receiver was narrowed is not sent', async () => {
  const to = await receiver();
  const watching = await stage.endpoint(to.url, { appIds: ['app_1', 'app_2'] });
  const { organization_id: organizationId } = watching;
  const [own, other] = [
    await stage.endpoint('https://x.example', { organizationId, appIds: ['app_1'] }),
    await stage.endpoint('https://x.example', { organizationId, appIds: ['app_2'] }),
  ];
  const [ofOwn = '', ofOther = ''] = await stage.addMessages(watching, 2, 'endpoint.disabled');
  for (const [id, about] of [
    [ofOwn, own.id],
    [ofOther, other.id],
  ])
    await stage.db.execute('UPDATE webhook_messages SET data = $2 WHERE id = $1', [id, JSON.stringify({ id: about })]);
  await narrow(watching, ['app_1']);
  await stage.deliverAll();
  expect(to.ids()).toEqual([ofOwn]);
  expect(await storedIds(watching)).toEqual([ofOwn]);
});

test('an endpoint for some apps hears only of disabled endpoints for the same apps', async () => {
  const [gone, watching] = [await receiver(410), await receiver()];
  const all = await stage.endpoint(gone.url);
  const { organization_id: organizationId } = all;
  const both = await stage.endpoint(gone.url, { organizationId, appIds: ['app_1', 'app_2'] });
  const one = await stage.endpoint(gone.url, { organizationId, appIds: ['app_1'] });
  await stage.endpoint(watching.url, { organizationId, appIds: ['app_1'], events: ['endpoint.disabled'] });
  for (const endpoint of [all, both, one]) await stage.addMessages(endpoint);
  await stage.deliverAll();
  expect(watching.received.map(({ body }) => JSON.parse(body).data.id)).toEqual([one.id]);
});

test('a postback cannot reach internal addresses either', async () => {
  const to = await receiver();
  const endpoint = await stage.endpoint(`${to.url}?i={event_id}`, { postback: { method: 'GET' } });
  await stage.addMessages(endpoint);
  await stage.deliverAll(stage.process({ reachable: new ReachableAddresses([]) }));
  expect(await stage.outcomes(endpoint)).toEqual(['address_not_allowed']);
  expect(to.received).toEqual([]);
});

test('a process whose clock is 800 days ahead postpones no message, disables no endpoint, and deletes nothing', async () => {
  const to = await receiver(500);
  const endpoint = await stage.endpoint(to.url);
  const [id = ''] = await stage.addMessages(endpoint);
  for (const days of [0, 800, -800])
    await stage.deliverAll(stage.process({ clock: () => stage.nowMs + days * DAY_MS }));
  expect(to.received).toHaveLength(1);
  stage.nowMs += 5 * SECOND_MS;
  await stage.deliverAll(stage.process({ clock: () => stage.nowMs + 800 * DAY_MS }));
  expect(await stage.message(id)).toMatchObject({ tries: 2, due_at: new Date(stage.nowMs + 5 * MINUTE_MS) });
  expect(await ends(endpoint)).toEqual({ disabled_reason: null, isFailing: true });
});

test('a clock of Postgres that jumps six days ahead disables no endpoint with one failure', async () => {
  const to = await receiver(500);
  const endpoint = await stage.endpoint(to.url);
  await stage.addMessages(endpoint);
  await stage.deliverAll();
  await stage.db.execute(`UPDATE ingest.deletion_clock SET reached = now() - interval '6 days'`);
  stage.nowMs += 6 * DAY_MS;
  await stage.deliverAll();
  expect(to.received).toHaveLength(2);
  expect(await ends(endpoint)).toEqual({ disabled_reason: null, isFailing: true });
  await stage.db.execute(`UPDATE ingest.deletion_clock SET reached = now() + interval '1 hour'`);
});

test('messages that are dated a year ahead, with a lease or without, are delivered, and block no others', async () => {
  const to = await receiver();
  const endpoint = await stage.endpoint(to.url);
  const ids = await stage.addMessages(endpoint, 12);
  await stage.db.execute(
    `UPDATE webhook_messages SET due_at = now() + interval '1 year', lease = CASE WHEN id = ANY ($1) THEN 'ghost' END WHERE id = ANY ($2)`,
    [ids.slice(0, 5), ids.slice(0, 10)],
  );
  await stage.db.execute(`UPDATE webhook_endpoints SET failing_since = now() + interval '1 year' WHERE id = $1`, [
    endpoint.id,
  ]);
  await stage.chores();
  await stage.deliverAll();
  expect(to.ids().sort()).toEqual([...ids].sort());
});

test('while nothing may be sent, nothing is claimed, counted or deleted, however old it is', async () => {
  const to = await receiver();
  const endpoint = await stage.endpoint(to.url);
  const [id = ''] = await stage.addMessages(endpoint);
  await stage.db.execute(`UPDATE webhook_messages SET created_at = now() - interval '60 days' WHERE id = $1`, [id]);
  const held = stage.process({ maySend: () => false });
  expect(await held.claim()).toBe(0);
  await stage.newChores({ maySend: () => false }).look();
  expect(await stage.message(id)).toMatchObject({ status: 'pending', tries: 0 });
  await stage.deliverAll();
  expect(to.received).toHaveLength(1);
});

test('a secret that cannot be decrypted does not count against its endpoint', async () => {
  const to = await receiver();
  const endpoint = await stage.endpoint(to.url);
  await stage.db.execute('UPDATE webhook_endpoints SET secret_ciphertext = $2 WHERE id = $1', [endpoint.id, 'k9.lost']);
  const [id = ''] = await stage.addMessages(endpoint);
  await stage.deliverAll();
  expect(await ends(endpoint)).toEqual({ disabled_reason: null, isFailing: false });
  expect([await stage.outcomes(endpoint), (await stage.message(id))?.status]).toEqual([
    ['secret_unreadable'],
    'pending',
  ]);
});
