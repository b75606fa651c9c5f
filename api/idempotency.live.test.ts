import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { type ApiForTest, apiForTest, type Member, type Reply } from './testing/running-api.ts';

let api: ApiForTest;
let owner: Member;
let appId = '';

beforeAll(async () => {
  api = await apiForTest();
  owner = await api.member();
  appId = (await owner.call('POST', '/apps', { name: 'Once' })).body.id;
});
afterEach(() => expect(api.failures.splice(0)).toEqual([]));
afterAll(() => api.stop());

async function post(key: string, path: string, body: object, token = owner.token) {
  const response = await fetch(api.url + path, {
    method: 'POST',
    headers: {
      'x-forwarded-proto': 'https',
      authorization: `Bearer ${token}`,
      'content-type': 'application/json',
      'idempotency-key': key,
    },
    body: JSON.stringify(body),
  });
  const isReplayed = response.headers.get('idempotent-replayed') === 'true';
  const parsed: Reply['body'] = await response.json();
  return { status: response.status, body: parsed, isReplayed };
}

const total = async (tag: string) => (await owner.call('GET', `/links?tag=${tag}&limit=1`)).body.pagination.total;

test('two hundred concurrent requests with one key create one link and get the same response', async () => {
  const body = { app_id: appId, path: '/once', tags: ['once'] };
  const replies = await Promise.all(Array.from({ length: 200 }, () => post('at-once', '/links', body)));
  expect(new Set(replies.map(({ status, body }) => `${status} ${JSON.stringify(body)}`)).size).toBe(1);
  expect(replies[0]?.status).toBe(201);
  expect(replies.filter(({ isReplayed }) => !isReplayed)).toHaveLength(1);
  expect(await total('once')).toBe(1);
});

test('a key that was used for another body or endpoint gets a 400 that names the header', async () => {
  const body = { app_id: appId, path: '/a', tags: ['other'] };
  expect((await post('used', '/links', body)).status).toBe(201);
  for (const [path, other] of [
    ['/links', { ...body, path: '/b' }],
    ['/links/bulk', body],
    [`/apps/${appId}/rotate-key`, {}],
  ] as const) {
    const { status, body } = await post('used', path, other);
    expect([status, body.error.details.field], path).toEqual([400, 'idempotency-key']);
  }
  expect(await total('other')).toBe(1);
});

test('a rejection is repeated, an invalid request does not use up its key, and each caller has their own keys', async () => {
  const taken = { app_id: appId, path: '/x', short_code: 'only-one' };
  await owner.call('POST', '/links', taken);
  const refused = await post('refused', '/links', taken);
  expect([refused.status, refused.isReplayed]).toEqual([400, false]);
  expect(await post('refused', '/links', taken)).toEqual({ ...refused, isReplayed: true });
  expect((await post('invalid', '/links', { app_id: appId })).status).toBe(400);
  expect((await post('invalid', '/links', { app_id: appId, path: '/x' })).status).toBe(201);
  const member = await api.member('member', owner.organization_id);
  const theirs = await post('invalid', '/links', { app_id: appId, path: '/x' }, member.token);
  expect([theirs.status, theirs.isReplayed]).toEqual([201, false]);
});

test.each(['', ' ', 'x'.repeat(256), 'two words', 'cl\u00e9s', 'cl\u00c3\u00a9s'])(
  'the key %j is no key or a 400',
  async (key) => {
    const { status, body } = await post(key, '/links', { app_id: appId, path: '/k' });
    if (key.trim() === '') expect(status).toBe(201);
    else expect([status, body.error.details.field]).toEqual([400, 'idempotency-key']);
  },
);

test('a response that contains a secret is repeated, and stored encrypted', async () => {
  const first = await post('secret', '/apps', { name: 'Secret' });
  expect(first.body.api_key).toMatch(/^lk_/);
  expect((await post('secret', '/apps', { name: 'Secret' })).body).toEqual(first.body);
  const rows = await api.db.query<object>('SELECT to_jsonb(k) AS stored FROM idempotency_keys k');
  expect(JSON.stringify(rows)).not.toContain(first.body.api_key);
  expect(JSON.stringify(rows)).not.toContain(Buffer.from(first.body.api_key).toString('base64').slice(4, 40));
});

test('a response with a secret that is shown once is neither repeated nor stored', async () => {
  const key = { name: 'Once', scopes: ['links:read'] };
  const hook = { url: 'https://hooks.example.com/', events: ['link.created'] };
  for (const [path, body] of [
    ['/keys', key],
    ['/webhooks', hook],
    ['/invitations', { email: 'once@example.com', role: 'member' }],
    ['/shared-pages', { campaign: 'once' }],
    ['/me/totp', {}],
  ] as const) {
    const idempotencyKey = `secret-of-${path}`;
    const first = await post(idempotencyKey, path, body);
    expect(first.status, path).toBeLessThan(300);
    const again = await post(idempotencyKey, path, body);
    expect([again.status, again.body.error.details.field], path).toEqual([400, 'idempotency-key']);
    const [kept] = await api.db.query<{ length: number }>(
      'SELECT length(answer) AS length FROM idempotency_keys WHERE key = $1',
      [idempotencyKey],
    );
    // Less than a secret.
    expect(kept?.length, path).toBeLessThan(120);
  }
  const { data } = (await owner.call('GET', '/keys')).body;
  expect(data.filter(({ name }: { name: string }) => name === 'Once')).toHaveLength(1);
});

test('a response is repeated only while the caller has the same rights', async () => {
  const demoted = await api.member('owner', owner.organization_id);
  const body = { name: 'Rights' };
  expect((await post('rights', '/apps', body, demoted.token)).status).toBe(201);
  expect((await post('rights', '/apps', body, demoted.token)).isReplayed).toBe(true);
  await owner.call('PATCH', `/members/${demoted.user_id}`, { role: 'member' });
  const refused = await post('rights', '/apps', body, demoted.token);
  expect([refused.status, refused.body.error.details.field]).toEqual([400, 'idempotency-key']);
});

test('a change whose audit entry cannot be written is undone, and the same key makes it later', async () => {
  const body = { app_id: appId, path: '/unaudited', tags: ['unaudited'] };
  await api.db.execute('ALTER TABLE audit_log ADD CONSTRAINT unwritable CHECK (false) NOT VALID');
  try {
    expect((await post('unaudited', '/links', body)).status).toBe(500);
    expect(await total('unaudited')).toBe(0);
  } finally {
    await api.db.execute('ALTER TABLE audit_log DROP CONSTRAINT unwritable');
    api.failures.splice(0);
  }
  expect((await post('unaudited', '/links', body)).status).toBe(201);
  expect(await total('unaudited')).toBe(1);
});

test('a response that cannot be stored for its key is still sent', async () => {
  await api.db.query(`CREATE FUNCTION refuse_answer() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN RAISE EXCEPTION 'unstorable'; END $$;
    CREATE TRIGGER refuse_answer BEFORE UPDATE ON idempotency_keys FOR EACH ROW WHEN (NEW.answer IS NOT NULL) EXECUTE FUNCTION refuse_answer()`);
  const { status } = await post('unstorable', '/links', { app_id: appId, path: '/unstorable' });
  await api.db.query('DROP FUNCTION refuse_answer CASCADE');
  expect(status).toBe(201);
});

const endLock = (key: string, ahead = '-61 seconds') =>
  api.db.execute('UPDATE idempotency_keys SET locked_until = now() + $2::interval WHERE key = $1', [key, ahead]);

test('a request that outlives its lock does not replace the response to the request that took its key', async () => {
  await api.db.query(`CREATE FUNCTION wait_for_test() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN PERFORM pg_advisory_xact_lock(78); RETURN NULL; END $$;
    CREATE TRIGGER wait_for_test AFTER INSERT ON links FOR EACH ROW WHEN (NEW.path = '/slow') EXECUTE FUNCTION wait_for_test()`);
  const next = { app_id: appId, path: '/next' };
  const slow = await api.db.transaction(async (holder) => {
    await holder.query('SELECT pg_advisory_xact_lock(78)');
    const answer = post('outlived', '/links', { app_id: appId, path: '/slow' });
    const waiting = "SELECT FROM pg_locks WHERE locktype = 'advisory' AND objid = 78 AND NOT granted";
    await expect.poll(async () => (await holder.query(waiting)).length).toBe(1);
    await endLock('outlived');
    expect((await post('outlived', '/links', next)).body.path).toBe('/next');
    return { answer };
  });
  expect((await slow.answer).body.path).toBe('/slow');
  await api.db.query('DROP FUNCTION wait_for_test CASCADE');
  const { body, isReplayed } = await post('outlived', '/links', next);
  expect([body.path, isReplayed]).toEqual(['/next', true]);
});

test('a key can be used again a minute after its request died, or a day after it was answered', async () => {
  const body = { app_id: appId, path: '/l', tags: ['later'] };
  expect((await post('died', '/links', body)).status).toBe(201);
  // The second lock was written by a Postgres whose clock was ahead.
  for (const ahead of ['-61 seconds', '1 year']) {
    await api.db.execute("UPDATE idempotency_keys SET answer = NULL WHERE key = 'died'");
    await endLock('died', ahead);
    const again = await post('died', '/links', body);
    expect([again.status, again.isReplayed]).toEqual([201, false]);
  }
  await api.db.execute("UPDATE idempotency_keys SET expires_at = now() - interval '1 hour'");
  const before = await api.db.query('SELECT FROM idempotency_keys');
  expect((await post('died', '/links', body)).isReplayed).toBe(false);
  expect((await api.db.query('SELECT FROM idempotency_keys')).length).toBeLessThan(before.length);
});

test('an API whose clock is two days ahead repeats no request and deletes no response', async () => {
  const body = { app_id: appId, path: '/ahead' };
  const first = await post('ahead', '/links', body);
  api.advance(2 * 24 * 3_600_000);
  const { token } = await api.member('member', owner.organization_id);
  expect(first.status).toBe(201);
  await post('another', '/links', { app_id: appId, path: '/another' }, token);
  expect(await api.db.query("SELECT FROM idempotency_keys WHERE key = 'ahead'")).toHaveLength(1);
});
