import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { personOf } from '#api/admin/erase-person.ts';
import { eraseInPostgres } from '#api/admin/erase-stores.ts';
import { reencryptWebhookSecrets } from '#api/admin/secret-rotation.ts';
import { type ApiForTest, apiForTest, type Member, type Reply } from '#api/testing/running-api.ts';
import { HOUR_MS } from '#common/durations.ts';
import { Encryption, newSecretKey, parseSecretKeys } from '#common/encryption.ts';
import { newId } from '#common/ids.ts';
import { webhookSecretContext } from '#common/webhooks/webhook-secret.ts';

let api: ApiForTest;
let owner: Member;
let stranger: Member;
let app: { id: string };
let other: { id: string };

beforeAll(async () => {
  api = await apiForTest({ WEBHOOK_ALLOWED_NETWORKS: '10.1.0.0/16' });
  [owner, stranger] = [await api.member(), await api.member()];
  [app, other] = [await make('/apps', { name: 'One' }), await make('/apps', { name: 'Other' })];
});
afterEach(() => expect(api.failures.splice(0)).toEqual([]));
afterAll(() => api.stop());

async function make(path: string, body: object, member: Pick<Member, 'call'> = owner): Promise<Reply['body']> {
  const reply = await member.call('POST', path, body);
  expect([reply.status, reply.body.error]).toEqual([201, undefined]);
  return reply.body;
}

const url = 'https://hooks.example.com/signpost';
const events = ['link.created', 'link.updated', 'link.deleted'];
const newWebhook = (more: object = {}, member: Pick<Member, 'call'> = owner) =>
  make('/webhooks', { url, events, ...more }, member);

async function keyFor(app_ids: string[] | null): Promise<Pick<Member, 'call'>> {
  const { key } = await make('/keys', { name: 'Hooks', scopes: ['webhooks'], app_ids });
  return { call: (method, path, body) => api.call(key, method, path, body) };
}

/** The messages of an endpoint, oldest first. */
async function messagesOf(id: string): Promise<{ type: string; data: { id: string; title: string | null } }[]> {
  const { body } = await owner.call('GET', `/webhooks/${id}/messages?limit=100`);
  return body.data.reverse();
}

async function storedSecrets(id: string): Promise<{ secret: string; previous: string | null }> {
  const sql =
    'SELECT secret_ciphertext AS secret, previous_secret_ciphertext AS previous FROM webhook_endpoints WHERE id = $1';
  const [row] = await api.db.query<{ secret: string; previous: string | null }>(sql, [id]);
  if (!row) throw new Error('there is no such endpoint');
  return row;
}

test('the secret is shown once, stored encrypted, and bound to its endpoint', async () => {
  const made = await newWebhook();
  expect(made).toMatchObject({ url, events, app_ids: null, enabled: true, disabled_reason: null, failing_since: null });
  expect(made.secret).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/);
  const { secret } = await storedSecrets(made.id);
  const encryption = new Encryption(parseSecretKeys(api.secretKey));
  expect(encryption.decrypt(secret, webhookSecretContext(made.id))).toBe(made.secret);
  expect(() => encryption.decrypt(secret, webhookSecretContext('whk_other'))).toThrow();
  for (const path of [`/webhooks/${made.id}`, '/webhooks?limit=100']) {
    const shown = await owner.call('GET', path);
    expect(shown.status).toBe(200);
    expect(JSON.stringify(shown.body)).not.toContain(made.secret);
    expect(JSON.stringify(shown.body)).toContain(made.id);
    expect(JSON.stringify(shown.body)).not.toContain('ciphertext');
  }
});

test('a rotated secret stays valid for the requested time, or until a second rotation', async () => {
  const made = await newWebhook();
  const rotate = (body: object) => owner.call('POST', `/webhooks/${made.id}/rotate-secret`, body);
  const first = await rotate({ overlap_hours: 2 });
  expect(first.status).toBe(200);
  expect(first.body.secret).not.toBe(made.secret);
  expect(Date.parse(first.body.previous_secret_until)).toBeGreaterThan(Date.now() + HOUR_MS);
  const encryption = new Encryption(parseSecretKeys(api.secretKey));
  const decrypted = async () => {
    const { secret, previous } = await storedSecrets(made.id);
    return [secret, previous].map((one) => one && encryption.decrypt(one, webhookSecretContext(made.id)));
  };
  expect(await decrypted()).toEqual([first.body.secret, made.secret]);
  const second = await rotate({});
  expect(await decrypted()).toEqual([second.body.secret, first.body.secret]);
  const third = await rotate({ overlap_hours: 0 });
  expect(third.body.previous_secret_until).toBeNull();
  expect(await decrypted()).toEqual([third.body.secret, null]);
  expect((await rotate({ overlap_hours: 169 })).status).toBe(400);
});

test('secrets are re-encrypted when SECRET_KEY is rotated', async () => {
  const made = await newWebhook();
  const { body } = await owner.call('POST', `/webhooks/${made.id}/rotate-secret`, {});
  const [newest = '', old = ''] = [newSecretKey('newer'), api.secretKey];
  const rotated = new Encryption(parseSecretKeys(`${newest},${old}`));
  expect(await reencryptWebhookSecrets(api.db, rotated)).toBeGreaterThanOrEqual(2);
  const { secret, previous } = await storedSecrets(made.id);
  const context = webhookSecretContext(made.id);
  const onlyNew = new Encryption(parseSecretKeys(newest));
  expect(onlyNew.decrypt(secret, context)).toBe(body.secret);
  expect(onlyNew.decrypt(previous ?? '', context)).toBe(made.secret);
  expect(await reencryptWebhookSecrets(api.db, rotated)).toBe(0);
  await reencryptWebhookSecrets(api.db, new Encryption(parseSecretKeys(`${old},${newest}`)));
});

test.each([
  ['http', 'http://hooks.example.com/'],
  ['a loopback address', 'https://127.0.0.1/'],
  ['a loopback address in another form', 'https://2130706433/'],
  ['a loopback address in IPv6', 'https://[::ffff:127.0.0.1]/'],
  ['an address of the metadata service', 'https://169.254.169.254/latest'],
  ['a user name', 'https://me:hush@hooks.example.com/'],
  ['no URL', 'hooks.example.com'],
])('a URL with %s is a 400', async (_, wrong) => {
  const reply = await owner.call('POST', '/webhooks', { url: wrong, events });
  expect([reply.status, reply.body.error.details?.field]).toEqual([400, 'url']);
  const { id } = await newWebhook();
  expect((await owner.call('PATCH', `/webhooks/${id}`, { url: wrong })).status).toBe(400);
  await owner.call('DELETE', `/webhooks/${id}`);
});

test('URLs in the operator’s allowed networks are accepted', async () => {
  await newWebhook({ url: 'https://10.1.2.3:8443/hook' });
});

test.each([
  ['no events', { events: [] }, 'events'],
  ['an unknown event', { events: ['link.tapped'] }, 'events[0]'],
  ['an event that is sent on request only', { events: ['endpoint.test'] }, 'events[0]'],
  ['events without their names', { events: ['event.recorded'] }, 'event_names'],
  ['names without events', { event_names: ['purchase'] }, 'event_names'],
  ['no apps', { app_ids: [] }, 'app_ids'],
  ['an unknown field', { secret: 'mine' }, 'secret'],
])('%s is a 400 that names the field', async (_, fields, field) => {
  const reply = await owner.call('POST', '/webhooks', { url, events, ...fields });
  expect([reply.status, reply.body.error.details.field]).toEqual([400, field]);
});

test('viewers can read but not change webhooks; strangers get 403, unknown ids 404', async () => {
  const { id } = await newWebhook();
  const viewer = await api.member('viewer', owner.organization_id);
  const paths = [
    ['PATCH', '', { enabled: false }],
    ['DELETE', ''],
    ['POST', '/rotate-secret', {}],
    ['POST', '/test'],
    ['POST', '/replay', { from: '2026-01-01T00:00:00Z' }],
    ['GET', ''],
    ['GET', '/messages'],
    ['GET', '/attempts'],
  ] as const;
  for (const [method, path, body] of paths) {
    const where = `${method} ${path}`;
    expect((await viewer.call(method, `/webhooks/${id}${path}`, body)).status, where).toBe(
      method === 'GET' ? 200 : 403,
    );
    expect((await stranger.call(method, `/webhooks/${id}${path}`, body)).status, where).toBe(403);
    for (const unknown of [newId('whk', 1), 'x']) {
      expect((await owner.call(method, `/webhooks/${unknown}${path}`, body)).status, where).toBe(404);
    }
  }
  expect((await viewer.call('POST', '/webhooks', { url, events, organization_id: owner.organization_id })).status).toBe(
    403,
  );
  expect((await stranger.call('GET', `/webhooks?organization_id=${owner.organization_id}`)).status).toBe(403);
  expect((await stranger.call('GET', '/webhooks')).body.data).toEqual([]);
  const foreign = { url, events, app_ids: [(await make('/apps', { name: 'Foreign' }, stranger)).id] };
  expect((await owner.call('POST', '/webhooks', foreign)).status).toBe(403);
});

test('a server key for one app can create and see only webhooks of that app', async () => {
  const limited = await keyFor([app.id]);
  const all = await newWebhook();
  const ofOther = await newWebhook({ app_ids: [app.id, other.id] });
  expect((await limited.call('POST', '/webhooks', { url, events })).status).toBe(403);
  expect((await limited.call('POST', '/webhooks', { url, events, app_ids: [app.id, other.id] })).status).toBe(403);
  const own = await newWebhook({ app_ids: [app.id] }, limited);
  expect(own.created_by).toBeNull();
  expect((await limited.call('GET', '/webhooks')).body.data.map((one: { id: string }) => one.id)).toEqual([own.id]);
  expect((await limited.call('PATCH', `/webhooks/${own.id}`, { app_ids: null })).status).toBe(403);
  for (const { id } of [all, ofOther]) {
    for (const path of ['', '/messages', '/attempts']) {
      expect((await limited.call('GET', `/webhooks/${id}${path}`)).status).toBe(403);
    }
    expect((await limited.call('DELETE', `/webhooks/${id}`)).status).toBe(403);
  }
  expect((await (await keyFor(null)).call('GET', `/webhooks/${all.id}`)).status).toBe(200);
});

test('every change of a link creates one message for each subscribed endpoint, in the change’s own transaction', async () => {
  const [all, created, ofOther, disabled] = [
    await newWebhook(),
    await newWebhook({ events: ['link.created'] }),
    await newWebhook({ app_ids: [other.id] }),
    await newWebhook(),
  ];
  const foreign = await newWebhook({}, stranger);
  await owner.call('PATCH', `/webhooks/${disabled.id}`, { enabled: false });
  const link = await make('/links', { app_id: app.id, path: '/x', title: 'One' });
  await owner.call('PATCH', `/links/${link.id}`, { title: 'Two' });
  // Changes only the time.
  await owner.call('PATCH', `/links/${link.id}`, { title: 'Two' });
  await api.db
    .transaction(async (queries) => {
      await queries.execute("UPDATE links SET title = 'Rolled back' WHERE id = $1", [link.id]);
      throw new Error('undone');
    })
    .catch(() => undefined);
  // Changed with SQL.
  await api.db.execute("UPDATE links SET title = 'Three' WHERE id = $1", [link.id]);
  await owner.call('DELETE', `/links/${link.id}`);
  const facts = (await messagesOf(all.id)).map(({ type, data }) => [type, data.title]);
  expect(facts).toEqual([
    ['link.created', 'One'],
    ['link.updated', 'Two'],
    ['link.updated', 'Three'],
    ['link.deleted', 'Three'],
  ]);
  expect((await messagesOf(created.id)).map(({ type }) => type)).toEqual(['link.created']);
  expect(await messagesOf(ofOther.id)).toEqual([]);
  expect(await messagesOf(disabled.id)).toEqual([]);
  expect((await stranger.call('GET', `/webhooks/${foreign.id}/messages`)).body.data).toEqual([]);
  for (const { id } of [all, created, ofOther, disabled]) await owner.call('DELETE', `/webhooks/${id}`);
});

test('a batch of links creates a message for each link', async () => {
  const endpoint = await newWebhook({ events: ['link.created', 'link.updated'], app_ids: [other.id] });
  const links = Array.from({ length: 3 }, (_, n) => ({ app_id: other.id, path: `/b${n}`, campaign: 'hooked' }));
  expect((await owner.call('POST', '/links/bulk', { links })).status).toBe(200);
  const filter = { app_id: other.id, campaign: 'hooked' };
  expect((await owner.call('PATCH', '/links/bulk', { filter, changes: { title: 'B' } })).status).toBe(200);
  const types = (await messagesOf(endpoint.id)).map(({ type }) => type).sort();
  expect(types).toEqual([...Array(3).fill('link.created'), ...Array(3).fill('link.updated')]);
  await owner.call('DELETE', `/webhooks/${endpoint.id}`);
});

test('a test message is created only for its endpoint, and not for a disabled one', async () => {
  const endpoint = await newWebhook({ events: ['endpoint.disabled'] });
  const reply = await owner.call('POST', `/webhooks/${endpoint.id}/test`);
  expect(reply.status).toBe(202);
  expect((await owner.call('GET', `/webhooks/${endpoint.id}/messages`)).body.data).toEqual([
    expect.objectContaining({ id: reply.body.message_id, type: 'endpoint.test', status: 'pending', tries: 0 }),
  ]);
  const off = await owner.call('PATCH', `/webhooks/${endpoint.id}`, { enabled: false });
  expect(off.body).toMatchObject({ enabled: false, disabled_reason: 'requested' });
  expect((await owner.call('POST', `/webhooks/${endpoint.id}/test`)).status).toBe(400);
  const on = await owner.call('PATCH', `/webhooks/${endpoint.id}`, { enabled: true, description: 'Back' });
  expect(on.body).toMatchObject({ enabled: true, disabled_reason: null, description: 'Back', url });
});

test('messages are replayed by id and by time range, with their original ids; waiting messages are not affected', async () => {
  const endpoint = await newWebhook({ events: ['endpoint.disabled'] });
  const ids: string[] = [];
  for (let n = 0; n < 4; n++) ids.push((await owner.call('POST', `/webhooks/${endpoint.id}/test`)).body.message_id);
  const [first = '', second = '', third = '', fourth = ''] = ids;
  const set = (id: string, status: string, hour: number) =>
    api.db.execute(
      'UPDATE webhook_messages SET status = $2, tries = 3, created_at = $3, replayed_at = NULL WHERE id = $1',
      [id, status, `2026-01-15T0${hour}:00:00Z`],
    );
  const reset = async () => {
    for (const [n, status] of ['failed', 'delivered', 'pending', 'failed'].entries())
      await set(ids[n] ?? '', status, n + 1);
  };
  const replayed = async (body: object) => {
    await reset();
    const reply = await owner.call('POST', `/webhooks/${endpoint.id}/replay`, body);
    const sql = "SELECT id FROM webhook_messages WHERE endpoint_id = $1 AND status = 'pending' AND tries = 0";
    const again = await api.db.query<{ id: string }>(sql, [endpoint.id]);
    return [reply.status, reply.body.replayed, again.map(({ id }) => id).sort()];
  };
  expect(await replayed({ message_id: second })).toEqual([202, 1, [second]]);
  expect(await replayed({ message_id: third })).toEqual([202, 1, [third]]);
  expect(await replayed({ from: '2026-01-15T00:00:00Z' })).toEqual([202, 3, [first, second, fourth].sort()]);
  expect(await replayed({ from: '2026-01-15T00:00:00Z', status: 'failed' })).toEqual([202, 2, [first, fourth].sort()]);
  const range = { from: '2026-01-15T01:00:00Z', to: '2026-01-15T04:00:00Z' };
  expect(await replayed(range)).toEqual([202, 2, [first, second].sort()]);
  const refused = async (body: object) => (await owner.call('POST', `/webhooks/${endpoint.id}/replay`, body)).status;
  expect(await refused({ message_id: first, from: range.from })).toBe(400);
  expect(await refused({ to: range.to })).toBe(400);
  const another = await newWebhook();
  const foreign = await owner.call('POST', `/webhooks/${another.id}/replay`, { message_id: first });
  expect(foreign.status).toBe(404);
});

test('a repeated replay of a time range sends nothing twice, and continues where it stopped', async () => {
  const endpoint = await newWebhook({ events: ['endpoint.disabled'] });
  await api.db.execute(
    `INSERT INTO webhook_messages (id, endpoint_id, organization_id, type, occurred_at, data, status, created_at)
     SELECT 'msg_range' || n, $1, $2, 'endpoint.test', now(), '{}', 'delivered', timestamptz '2026-01-15T00:00:00Z' + n * interval '1 second'
       FROM generate_series(1, 10005) AS n`,
    [endpoint.id, owner.organization_id],
  );
  await api.db.execute('ALTER TABLE webhook_messages SET (autovacuum_enabled = off)');
  const range = { from: '2026-01-15T00:00:00Z', to: '2026-01-16T00:00:00Z' };
  const replay = async () => (await owner.call('POST', `/webhooks/${endpoint.id}/replay`, range)).body;
  const end = (status: string) =>
    api.db.execute(`UPDATE webhook_messages SET status = $2 WHERE endpoint_id = $1 AND status = 'pending'`, [
      endpoint.id,
      status,
    ]);
  expect(await replay()).toEqual({ replayed: 10_000, has_more: true });
  // Delivered before the caller asks for the rest.
  await end('delivered');
  expect(await replay()).toEqual({ replayed: 5, has_more: false });
  await end('failed');
  expect(await replay()).toEqual({ replayed: 5, has_more: false });
  await end('delivered');
  expect(await replay()).toEqual({ replayed: 0, has_more: false });
  await api.db.execute(
    `UPDATE webhook_messages SET replayed_at = replayed_at - interval '1 hour' WHERE endpoint_id = $1 AND id <= 'msg_range100'`,
    [endpoint.id],
  );
  expect((await replay()).replayed).toBe(3);
});

test('a message with an attempt in progress is not sent again concurrently', async () => {
  const endpoint = await newWebhook({ events: ['endpoint.disabled'] });
  const { message_id } = (await owner.call('POST', `/webhooks/${endpoint.id}/test`)).body;
  const claim = (due: string) =>
    api.db.execute(`UPDATE webhook_messages SET lease = 'worker', due_at = now() + $2::interval WHERE id = $1`, [
      message_id,
      due,
    ]);
  const lease = async () => {
    const reply = await owner.call('POST', `/webhooks/${endpoint.id}/replay`, { message_id });
    const [row] = await api.db.query<{ lease: string | null }>('SELECT lease FROM webhook_messages WHERE id = $1', [
      message_id,
    ]);
    return [reply.status, row?.lease];
  };
  await claim('1 minute');
  expect(await lease()).toEqual([202, 'worker']);
  await claim('-1 second');
  expect(await lease()).toEqual([202, null]);
});

test('the audit log names the webhook or postback of a test and a replay', async () => {
  const webhook = await newWebhook({ events: ['endpoint.disabled'] });
  const postback = await make('/postbacks', {
    url: 'https://network.example/{event_id}',
    events: ['install.attributed'],
  });
  for (const path of [`/webhooks/${webhook.id}`, `/postbacks/${postback.id}`]) {
    await owner.call('POST', `${path}/test`);
    await owner.call('POST', `${path}/replay`, { from: '2026-01-01T00:00:00Z' });
  }
  const targets = async (action: string) =>
    (await owner.call('GET', `/audit-log?action=${action}&limit=1`)).body.data.map(
      (entry: { target_id: string }) => entry.target_id,
    );
  expect([await targets('testWebhook'), await targets('replayWebhook')]).toEqual([[webhook.id], [webhook.id]]);
  expect([await targets('testPostback'), await targets('replayPostback')]).toEqual([[postback.id], [postback.id]]);
});

test('attempts are listed newest first, and for one message', async () => {
  const endpoint = await newWebhook();
  for (const [message, outcome] of [
    ['msg_1', 'http_error'],
    ['msg_2', 'timeout'],
    ['msg_1', 'delivered'],
  ]) {
    await api.db.execute(
      `INSERT INTO webhook_attempts (endpoint_id, organization_id, message_id, type, url, attempted_at, duration_ms, outcome)
       VALUES ($1, $2, $3, 'link.created', $4, now(), 12, $5)`,
      [endpoint.id, owner.organization_id, message, url, outcome],
    );
  }
  const outcomes = async (query: string) => {
    const { body } = await owner.call('GET', `/webhooks/${endpoint.id}/attempts${query}`);
    return [body.pagination.total, body.data.map((one: { outcome: string }) => one.outcome)];
  };
  expect(await outcomes('')).toEqual([3, ['delivered', 'timeout', 'http_error']]);
  expect(await outcomes('?message_id=msg_1')).toEqual([2, ['delivered', 'http_error']]);
  expect(await outcomes('?limit=1&offset=1')).toEqual([3, ['timeout']]);
});

test('erasing a person deletes only the messages about them', async () => {
  const endpoint = await newWebhook({ app_ids: [app.id, other.id] });
  const add = (id: string, type: string, data: object) =>
    api.db.execute(
      `INSERT INTO webhook_messages (id, endpoint_id, organization_id, type, occurred_at, data) VALUES ($1, $2, $3, $4, now(), $5)`,
      [id, endpoint.id, owner.organization_id, type, JSON.stringify({ app_id: app.id, ...data })],
    );
  await add('msg_a', 'install.recorded', { install_id: 'ins_1', device_id: 'd9' });
  await add('msg_b', 'event.recorded', { install_id: '', device_id: 'd1', user_id: 'u2' });
  await add('msg_c', 'conversion.recorded', { install_id: '', device_id: '', user_id: 'u1' });
  await add('msg_d', 'event.recorded', { app_id: other.id, device_id: 'd1' });
  await add('msg_e', 'event.recorded', { install_id: 'ins_2', device_id: 'd2', user_id: '' });
  await add('msg_f', 'click.batch', { part: 0 });
  const person = personOf({ device: ['d1'], install: ['ins_1'], user: ['u1'] });
  await eraseInPostgres(api.db, [app.id], person);
  const left = async () => (await messagesOf(endpoint.id)).map((one) => (one as unknown as { id: string }).id).sort();
  expect(await left()).toEqual(['msg_d', 'msg_e', 'msg_f']);
  await eraseInPostgres(api.db, [app.id], null);
  expect(await left()).toEqual(['msg_d']);
});

test('an organization has at most fifty webhooks', async () => {
  const member = await api.member();
  const { id } = await newWebhook({}, member);
  await api.db.execute(
    `INSERT INTO webhook_endpoints (id, organization_id, url, events, secret_ciphertext, created_by, created_at, updated_at)
     SELECT id || n, organization_id, url, events, secret_ciphertext, created_by, created_at, updated_at
       FROM webhook_endpoints, generate_series(1, 48) AS n WHERE id = $1`,
    [id],
  );
  await newWebhook({}, member);
  const reply = await member.call('POST', '/webhooks', { url, events });
  expect([reply.status, reply.body.error.message]).toEqual([400, expect.stringContaining('50 webhooks')]);
});

const postbackUrl = 'https://network.example/p?click={click_id}&g={query.gclid}';
const newPostback = (more: object = {}, member: Pick<Member, 'call'> = owner) =>
  make('/postbacks', { url: postbackUrl, events: ['install.attributed'], ...more }, member);

test('a postback is created, listed, changed, tested and deleted, and is not listed as a webhook', async () => {
  const made = await newPostback({ campaigns: ['spring'], description: 'Network' });
  expect(made).toMatchObject({ method: 'GET', url: postbackUrl, body: null, campaigns: ['spring'], enabled: true });
  expect(made).not.toHaveProperty('secret');
  const path = `/postbacks/${made.id}`;
  expect((await owner.call('GET', path)).body).toEqual(made);
  expect((await owner.call('GET', '/postbacks')).body.data).toContainEqual(made);
  const listed = (await owner.call('GET', '/webhooks?limit=100')).body.data;
  expect(listed.map((one: { id: string }) => one.id)).not.toContain(made.id);
  for (const below of ['', '/messages', '/attempts']) {
    expect((await owner.call('GET', `/webhooks/${made.id}${below}`)).status).toBe(404);
  }
  const webhook = await newWebhook();
  expect((await owner.call('GET', `/postbacks/${webhook.id}`)).status).toBe(404);

  const events = ['event.recorded', 'install.attributed'];
  const change = { method: 'POST', body: 'c={click_id}', events, event_names: ['purchase'], campaigns: null };
  expect((await owner.call('PATCH', path, change)).body).toMatchObject({ ...change, url: postbackUrl });
  const sent = await owner.call('POST', `${path}/test`);
  expect([sent.status, sent.body.message_id]).toEqual([202, expect.stringMatching(/^msg_/)]);
  expect((await owner.call('GET', `${path}/attempts`)).body.pagination.total).toBe(0);
  const { message_id } = sent.body;
  await api.db.execute(`UPDATE webhook_messages SET status = 'failed', tries = 10 WHERE id = $1`, [message_id]);
  const again = (body: object, at = path) => owner.call('POST', `${at}/replay`, body);
  expect((await again({ message_id })).body).toEqual({ replayed: 1, has_more: false });
  expect((await again({ message_id }, `/webhooks/${made.id}`)).status).toBe(404);
  expect((await again({ message_id: 'msg_unknown' })).status).toBe(404);
  expect((await again({ message_id, from: '2026-01-01T00:00:00Z' })).status).toBe(400);
  expect((await owner.call('PATCH', path, { enabled: false })).body).toMatchObject({ disabled_reason: 'requested' });
  expect((await owner.call('POST', `${path}/test`)).status).toBe(400);
  expect((await owner.call('DELETE', path)).body).toEqual({ id: made.id, deleted: true });
  expect((await owner.call('GET', path)).status).toBe(404);
});

test.each([
  ['url', { url: 'https://network.example/{unknown}' }],
  ['url', { url: 'https://{click_id}.example/' }],
  ['url', { url: 'http://network.example/{click_id}' }],
  ['url', { url: 'https://10.2.0.1/{click_id}' }],
  ['url', { url: 'not a url' }],
  ['body', { method: 'POST', body: '{nothing}' }],
  ['body', { body: 'a={click_id}' }],
  ['event_names', { events: ['event.recorded'] }],
  ['event_names', { event_names: ['purchase'] }],
  ['events', { events: ['click.batch'] }],
  ['campaigns', { campaigns: [] }],
])('a postback with a fault in %s is refused: %j', async (field, more) => {
  const { id } = await newPostback();
  const replies = [
    await owner.call('POST', '/postbacks', { url: postbackUrl, events: ['install.attributed'], ...more }),
    await owner.call('PATCH', `/postbacks/${id}`, more),
  ];
  for (const reply of replies) {
    expect(reply.status).toBe(400);
    expect(JSON.stringify(reply.body)).toContain(`"${field}`);
  }
});

test('a postback belongs to its organization, and to the apps of the key that uses it', async () => {
  const { id } = await newPostback();
  const paths = [
    ['GET', ''],
    ['PATCH', '', { description: 'x' }],
    ['DELETE', ''],
    ['POST', '/test'],
    ['POST', '/replay', { from: '2026-01-01T00:00:00Z' }],
    ['GET', '/attempts'],
  ] as const;
  const limited = await keyFor([app.id]);
  for (const [method, path, body] of paths) {
    const where = `${method} ${path}`;
    expect((await stranger.call(method, `/postbacks/${id}${path}`, body)).status, where).toBe(403);
    expect((await limited.call(method, `/postbacks/${id}${path}`, body)).status, where).toBe(403);
    for (const unknown of [newId('pbk', 1), 'x'])
      expect((await owner.call(method, `/postbacks/${unknown}${path}`, body)).status, where).toBe(404);
  }
  expect((await stranger.call('GET', '/postbacks')).body.data).toEqual([]);
  expect((await limited.call('POST', '/postbacks', { url: postbackUrl, events: ['install.attributed'] })).status).toBe(
    403,
  );
  const own = await newPostback({ app_ids: [app.id] }, limited);
  expect((await limited.call('GET', '/postbacks')).body.data.map((one: { id: string }) => one.id)).toEqual([own.id]);
  const foreign = await stranger.call('GET', `/postbacks?organization_id=${owner.organization_id}`);
  expect(foreign.status).toBe(403);
});

test('after a webhook is narrowed to some apps, its messages of other apps can be neither read nor replayed', async () => {
  const limited = await keyFor([app.id]);
  for (const [kind, app_ids] of [
    ['webhooks', null],
    ['webhooks', [app.id, other.id]],
    ['postbacks', [app.id, other.id]],
  ] as const) {
    const endpoint = kind === 'webhooks' ? await newWebhook({ app_ids }) : await newPostback({ app_ids });
    const path = `/${kind}/${endpoint.id}`;
    const hidden = kind === 'webhooks' ? await newWebhook() : await newPostback();
    const add = async (id: string, type: string, data: object) => {
      await api.db.execute(
        `INSERT INTO webhook_messages (id, endpoint_id, organization_id, type, occurred_at, data, status)
         VALUES ($1, $2, $3, $4, now(), $5, 'failed')`,
        [`${id}_${endpoint.id}`, endpoint.id, owner.organization_id, type, JSON.stringify(data)],
      );
      await api.db.execute(
        `INSERT INTO webhook_attempts (endpoint_id, organization_id, message_id, type, url, attempted_at, duration_ms, outcome)
         VALUES ($1, $2, $3, $4, $5, now(), 12, 'timeout')`,
        [endpoint.id, owner.organization_id, `${id}_${endpoint.id}`, type, url],
      );
    };
    await add('own', 'event.recorded', { app_id: app.id, event_id: 'e1' });
    await add('other', 'event.recorded', { app_id: other.id, event_id: 'e2' });
    await add('test', 'endpoint.test', { endpoint_id: endpoint.id });
    await add('ownclicks', 'click.batch', { app_ids: [app.id], part: 0 });
    await add('bothclicks', 'click.batch', { app_ids: [app.id, other.id], part: 0 });
    await add('otherclicks', 'click.batch', { app_ids: [other.id], part: 0 });
    await add('disabled', 'endpoint.disabled', { id: hidden.id, url: hidden.url, reason: 'gone' });
    const listed = async (by: Pick<Member, 'call'>, list: 'messages' | 'attempts') => {
      const { body } = await by.call('GET', `${path}/${list}?limit=100`);
      const ids = body.data.map((one: { id?: string; message_id?: string }) => one.id ?? one.message_id);
      expect(body.pagination.total).toBe(ids.length);
      return ids.map((id: string) => id.split('_')[0]).sort();
    };
    expect((await limited.call('GET', `${path}/attempts`)).status).toBe(403);

    const versions = () =>
      api.db.query('SELECT id, xmin::text FROM webhook_messages WHERE endpoint_id = $1 ORDER BY id', [endpoint.id]);
    const before = await versions();
    expect((await owner.call('PATCH', path, { app_ids: [app.id] })).status).toBe(200);
    // The change itself touches no message, so that it takes the same time with a million of them.
    expect([before.length, await versions()]).toEqual([7, before]);
    const left = ['bothclicks', 'own', 'ownclicks', 'test'];

    // Created by a transaction that had read the webhook before it was narrowed.
    await add('late', 'event.recorded', { app_id: other.id, event_id: 'e3' });
    const ofKey = ['own', 'ownclicks', 'test'];
    expect(await listed(owner, 'attempts')).toEqual(left);
    expect(await listed(limited, 'attempts')).toEqual(ofKey);
    if (kind === 'webhooks') {
      expect(await listed(owner, 'messages')).toEqual(left);
      expect(await listed(limited, 'messages')).toEqual(ofKey);
    }
    const replay = async (by: Pick<Member, 'call'>, body: object) => {
      const reply = await by.call('POST', `${path}/replay`, body);
      return [reply.status, reply.body.replayed];
    };
    for (const id of ['late', 'other', 'otherclicks', 'disabled'])
      expect(await replay(owner, { message_id: `${id}_${endpoint.id}` })).toEqual([404, undefined]);
    expect(await replay(limited, { message_id: `bothclicks_${endpoint.id}` })).toEqual([404, undefined]);
    expect(await replay(limited, { message_id: `own_${endpoint.id}` })).toEqual([202, 1]);
    expect(await replay(limited, { from: '2026-01-01T00:00:00Z' })).toEqual([202, 2]);
    expect(await replay(owner, { from: '2026-01-01T00:00:00Z' })).toEqual([202, 1]);
    expect((await limited.call('POST', `${path}/test`)).status).toBe(202);

    // What was not deleted yet is shown again to an endpoint that covers the app again.
    expect((await owner.call('PATCH', path, { app_ids: [other.id, app.id] })).status).toBe(200);
    expect(await listed(owner, 'attempts')).toEqual([
      'bothclicks',
      'late',
      'other',
      'otherclicks',
      'own',
      'ownclicks',
      'test',
    ]);
    for (const { id } of [endpoint, hidden]) await owner.call('DELETE', `/${kind}/${id}`);
  }
});

test('an organization has at most fifty postbacks, in addition to its webhooks', async () => {
  const member = await api.member();
  await newWebhook({}, member);
  for (let n = 0; n < 50; n++) await newPostback({}, member);
  const reply = await member.call('POST', '/postbacks', { url: postbackUrl, events: ['install.attributed'] });
  expect([reply.status, reply.body.error.message]).toEqual([400, expect.stringContaining('50 postbacks')]);
  await newWebhook({}, member);
});
