/**
 * Every operation of docs/openapi.json but those of SDKs, for every kind of caller, with the caller's own ids and with those of
 * another tenant in the path, the query and the body. After each caller, all rows of the other tenant are compared.
 * gateway/tenants.live.test.ts has the operations of SDKs.
 *
 * @module-tag slow
 */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { hashPassword } from './auth/password.ts';
import { describedOperations, type Operation, type Variant, variantsOf } from './testing/described-operations.ts';
import { type ApiForTest, apiForTest, type Member } from './testing/running-api.ts';
import { type WholeTenant, wholeTenant } from './testing/whole-tenant.ts';

const word = 'of-tenant-a';
const password = 'seven unrelated heavy words';
const scopes = [
  'links:read',
  'links:write',
  'apps:read',
  'apps:write',
  'analytics:read',
  'analytics:write',
  'webhooks',
  'import',
];

interface Caller {
  readonly name: string;
  /** What the requests carry, for the tenant to which the caller belongs. */
  readonly headers: (b: WholeTenant) => Promise<Record<string, string>> | Record<string, string>;
  /** Sees what belongs to A, and changes nothing of it. */
  readonly mayRead?: true;
  /** A person of A too. */
  readonly isOfBoth?: true;
  /** Sees and changes an app of A besides the one with the ids. */
  readonly mayAdd?: true;
}

let api: ApiForTest;
let a: WholeTenant;
/** Without what belongs to SDKs and to the description itself. */
let operations: Operation[];
const succeeded = new Set<string>();

beforeAll(async () => {
  api = await apiForTest({ WEBHOOK_ALLOWED_NETWORKS: '127.0.0.1', LOGIN_FAILURES_FREE: '1000000' });
  a = await wholeTenant(api, word);
  operations = describedOperations().filter(({ path }) => !/^\/(sdk|docs|openapi|version)/.test(path));
});
afterAll(() => api.stop());

const bearer = (token: string) => ({ authorization: `Bearer ${token}` });

async function keyOf({ owner }: WholeTenant, fields: object): Promise<Record<string, string>> {
  const reply = await owner.call('POST', '/keys', { name: 'Caller', ...fields });
  expect(reply.status, JSON.stringify(reply.body)).toBe(201);
  return bearer(reply.body.key);
}

const memberOf = async ({ ids }: WholeTenant, role: 'member' | 'viewer') =>
  bearer((await api.member(role, ids['organization'])).token);

/** Owns B, and views A. */
async function personOfBoth({ owner }: WholeTenant): Promise<Member> {
  const sql = `INSERT INTO memberships (user_id, organization_id, role) VALUES ($1, $2, 'viewer')`;
  await api.db.execute(sql, [owner.user_id, a.ids['organization']]);
  return owner;
}

/** The same person in a browser that is limited to B. */
async function limitedSession(b: WholeTenant): Promise<Record<string, string>> {
  const { user_id } = await personOfBoth(b);
  const hash = await hashPassword(password);
  await api.db.execute('UPDATE users SET password_hash = $2 WHERE id = $1', [user_id, hash]);
  const page = { 'sec-fetch-site': 'same-origin', 'x-signpost-session': '1' };
  const begun = await send(page, 'POST', '/session', { email: `${user_id}@example.com`, password });
  const browser = { ...page, cookie: begun.cookie };
  const chosen = { organization_id: b.ids['organization'] };
  expect((await send(browser, 'PUT', '/session/organization', chosen)).status).toBe(200);
  return browser;
}

const callers: readonly Caller[] = [
  { name: 'nobody', headers: () => ({}) },
  { name: 'garbage', headers: () => bearer('garbage') },
  { name: 'owner of B', headers: ({ owner }) => bearer(owner.token) },
  { name: 'member of B', headers: (b) => memberOf(b, 'member') },
  { name: 'viewer of B', headers: (b) => memberOf(b, 'viewer') },
  { name: 'owner of B who views A', headers: async (b) => bearer((await personOfBoth(b)).token), mayRead: true },
  { name: 'the same, limited to B', headers: limitedSession, isOfBoth: true },
  { name: 'API key of B', headers: ({ apiKey }) => ({ 'x-api-key': apiKey }) },
  { name: 'API key of B as bearer', headers: ({ apiKey }) => bearer(apiKey) },
  { name: 'API key of A', headers: () => ({ 'x-api-key': a.apiKey }) },
  ...scopes.map((scope) => ({
    name: `key of B: ${scope}`,
    headers: (b: WholeTenant) => keyOf(b, { scopes: [scope] }),
  })),
  { name: 'key of B: all', headers: (b) => keyOf(b, { scopes }) },
  { name: 'key of B: one app', headers: (b) => keyOf(b, { scopes, app_ids: [b.ids['app']] }) },
  { name: 'viewer of A', headers: () => memberOf(a, 'viewer'), mayRead: true },
  ...['links:read', 'apps:read', 'analytics:read'].map((scope) => ({
    name: `key of A: ${scope}`,
    headers: () => keyOf(a, { scopes: [scope] }),
    mayRead: true as const,
  })),
  { name: 'key of A: other app', headers: () => keyOf(a, { scopes, app_ids: [a.otherApp] }), mayAdd: true },
];

async function send(headers: Record<string, string>, method: string, path: string, body: unknown) {
  const isText = typeof body === 'string';
  const reply = await fetch(api.url + path, {
    method,
    headers: {
      'x-forwarded-proto': 'https',
      ...(body === undefined || method === 'GET' ? {} : { 'content-type': isText ? 'text/csv' : 'application/json' }),
      ...headers,
    },
    ...(body === undefined || method === 'GET' ? {} : { body: isText ? body : JSON.stringify(body) }),
  });
  const cookie = reply.headers.getSetCookie()[0]?.split(';')[0] ?? '';
  return { status: reply.status, text: await reply.text(), cookie };
}

/** Changes of their own account are in the audit log of each of a person's organizations. */
const ownAccount = ['setUpTotp', 'confirmTotp', 'disableTotp', 'changePassword', 'deleteSession'];

/** All rows of A, its people and itself. */
async function rowsOfA(): Promise<Set<string>> {
  const tables = await api.db.query<{ name: string }>(
    `SELECT c.table_name AS name FROM information_schema.columns c JOIN pg_tables t ON t.tablename = c.table_name AND t.schemaname = 'public'
      WHERE c.table_schema = 'public' AND c.column_name = 'organization_id' AND c.table_name NOT IN ('outbox', 'browser_sessions')`,
  );
  const selects = tables.map(
    ({ name }) =>
      `SELECT '${name} ' || (to_jsonb(t) - 'last_used_at')::text AS row FROM ${name} t WHERE organization_id = $1`,
  );
  const all = `${selects.join(' UNION ALL ')}
    UNION ALL SELECT 'organization ' || to_jsonb(o)::text FROM organizations o WHERE id = $1
    UNION ALL SELECT 'user ' || to_jsonb(u)::text FROM users u JOIN memberships m ON m.user_id = u.id WHERE m.organization_id = $1`;
  const rows = await api.db.query<{ row: string }>(all, [a.ids['organization']]);
  const isOfAccount = (row: string) =>
    row.startsWith('audit_log') && ownAccount.some((action) => row.includes(`"action": "${action}"`));
  return new Set(rows.map(({ row }) => row).filter((row) => !isOfAccount(row)));
}

/** Their answer lists the ids that they refuse. */
const bulk = new Set(['bulkCreateLinks', 'bulkUpdateLinks', 'bulkDeleteLinks']);
/** A session that is limited to an organization still is its user's. */
const ofAccount = new Set(['getMe', 'chooseSessionOrganization']);
/** There is no log here. */
const unavailable = new Set(['watchLive']);

function faultOf(caller: Caller, operation: Operation, variant: Variant, reply: { status: number; text: string }) {
  if (reply.status >= 500 && !unavailable.has(operation.name)) return 'failed';
  if (caller.mayRead || (caller.isOfBoth && ofAccount.has(operation.name))) return null;
  const sent = `${variant.path} ${JSON.stringify(variant.body)}`;
  const known = caller.mayAdd ? ['organization', 'user'] : [];
  const ids = Object.entries(a.ids).flatMap(([kind, id]) => (known.includes(kind) ? [] : [id]));
  if (ids.some((id) => reply.text.includes(id) && !sent.includes(id))) return 'shows an id of A';
  if (!caller.mayAdd && reply.text.includes(word)) return 'shows a text of A';
  const isForeign = variant.place !== 'own' && !caller.mayAdd;
  return isForeign && reply.status < 300 && !bulk.has(operation.name) ? 'was accepted' : null;
}

async function wrongCells(caller: Caller): Promise<{ wrong: string[]; cells: number }> {
  const b = await wholeTenant(api, 'of-tenant-b');
  const headers = await caller.headers(b);
  const before = await rowsOfA();
  const wrong: string[] = [];
  let cells = 0;
  for (const operation of operations) {
    // Their answers do not depend on the caller, and some of them take a while.
    if (operation.isPublic && !['nobody', 'owner of B'].includes(caller.name)) continue;
    // Own ids come last: they may delete what the other requests are about.
    for (const variant of variantsOf(operation, b.ids, a.ids).reverse()) {
      const reply = await send(headers, operation.method, variant.path, variant.body);
      cells++;
      if (reply.status < 300 && variant.place === 'own') succeeded.add(operation.name);
      const fault = faultOf(caller, operation, variant, reply);
      if (fault !== null)
        wrong.push(
          `${caller.name}, ${operation.name}, ${variant.place}: ${fault}, ${reply.status} ${reply.text.slice(0, 300)}`,
        );
    }
  }
  const after = await rowsOfA();
  const gone = [...before].filter((row) => !after.has(row));
  const added = caller.mayAdd ? [] : [...after].filter((row) => !before.has(row));
  for (const row of [...gone, ...added]) wrong.push(`${caller.name} changed ${row.slice(0, 400)}`);
  return { wrong, cells };
}

test('no caller reads or changes anything of another tenant, wherever a request names it', async () => {
  const wrong: string[] = [];
  let cells = 0;
  for (const caller of callers) {
    const one = await wrongCells(caller);
    wrong.push(...one.wrong);
    cells += one.cells;
  }
  api.failures.splice(0);
  console.log(`${operations.length} operations, ${callers.length} callers, ${cells} cells`);
  expect(wrong).toEqual([]);
}, 1_200_000);

test('every operation succeeds for somebody with ids of their own, but those that need a token or a record', () => {
  const never = operations.map(({ name }) => name).filter((name) => !succeeded.has(name));
  expect(never.sort()).toEqual(
    [
      ...['login', 'refreshTokens', 'logout', 'startOAuthLogin', 'completeOAuthLogin', 'startSession', 'endSession'],
      ...['confirmTotp', 'disableTotp', 'changePassword', 'requestPasswordReset', 'resetPassword'],
      ...['lookUpInvitation', 'acceptInvitation', 'acceptOwnInvitation', 'readSharedFigures'],
      ...['checkImport', 'confirmImport', 'undoImport', 'getMatch', 'watchLive'],
    ].sort(),
  );
});
