/**
 * Every operation of docs/openapi.json that changes something, by a person of two organizations, with the rights of the
 * API's own role: first while the audit log takes no rows, and then as usual.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Secret, TOTP } from 'otpauth';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { hashOfInvitation } from '#api/people.ts';
import { type ApiForTest, apiForTest, type Member } from '#api/testing/running-api.ts';
import { systemClock } from '#common/clock.ts';
import { packageRoot } from '#common/process/paths.ts';

type Call = readonly [method: string, path: string, body?: unknown];

interface Operation {
  /** Creates what the call needs, by calls that are noted as well. */
  readonly call: () => Promise<Call> | Call;
  /** Whose rows are expected; those of B if absent. */
  readonly organizations?: () => readonly string[];
  readonly isPublic?: true;
  /** Tables with codes that are used up even if the change fails. */
  readonly usesUp?: readonly string[];
}

/**
 * They change logins, cookies and mails only, or nothing. A provider's login that changes an account:
 * api/auth/oauth-claims.live.test.ts.
 */
const withoutRows = [
  ...['login', 'refreshTokens', 'logout', 'startOAuthLogin', 'completeOAuthLogin', 'startSession', 'endSession'],
  ...['chooseSessionOrganization', 'lookUpInvitation', 'requestPasswordReset', 'explainLink', 'checkAssociations'],
  'readSharedFigures',
];

const password = 'seven unrelated heavy words';
let api: ApiForTest;
/** Views organization A, and owns B. */
let person: Member;
let a: string;
let b: string;
let ownerOfC: Member;
let app: string;
let number = 0;
/** The person's access token, until a new password ends it. */
let token: string;

beforeAll(async () => {
  api = await apiForTest({ WEBHOOK_ALLOWED_NETWORKS: '127.0.0.1' });
  a = (await api.member()).organization_id;
  person = await api.member();
  b = person.organization_id;
  token = person.token;
  ownerOfC = await api.member();
  await api.db.execute("INSERT INTO memberships (user_id, organization_id, role) VALUES ($1, $2, 'viewer')", [
    person.user_id,
    a,
  ]);
  app = await made('/apps', { name: 'Audited', organization_id: b });
});
afterAll(() => api.stop());

/** @returns the id of what was made. */
async function made(path: string, body: object, by = person): Promise<string> {
  const reply = await by.call('POST', path, body);
  expect(reply.status, JSON.stringify(reply.body)).toBeLessThan(300);
  return reply.body.id;
}

const emailOf = ({ user_id }: Member) => `${user_id}@example.com`;
const newLink = () => made('/links', { app_id: app, path: '/made' });
const newApp = () => made('/apps', { name: `Made ${number++}`, organization_id: b });
const newWebhook = { url: 'https://127.0.0.1/', events: ['link.created'] };
const newPostback = { url: 'https://127.0.0.1/?c={click_id}', events: ['install.attributed'] };
const inB = (body: object) => ({ ...body, organization_id: b });
const webhook = () => made('/webhooks', inB(newWebhook));
const postback = () => made('/postbacks', inB(newPostback));
const view = () => made('/views', inB({ name: 'Made', query: {} }));
const template = () => made('/utm-templates', inB({ name: `Made ${number++}`, utm_source: 'mail' }));
const range = { from: '2026-01-15T09:30:00Z' };

async function newImport(state?: string): Promise<string> {
  const id = await made('/imports', { app_id: app, source: 'csv' });
  expect((await person.call('PUT', `/imports/${id}/parts/1`, 'url\nhttps://example.com/\n')).status).toBe(200);
  if (state !== undefined) await api.db.execute('UPDATE imports SET state = $2 WHERE id = $1', [id, state]);
  return id;
}

/** An invitation whose token is its id. */
async function invite(email: string, by: Member): Promise<string> {
  const id = await made('/invitations', { email, role: 'member', organization_id: by.organization_id }, by);
  await api.db.execute('UPDATE invitations SET token_hash = $2 WHERE id = $1', [id, hashOfInvitation(id)]);
  return id;
}

/** A password-reset link whose token is its id. */
async function resetOf(member: Member): Promise<string> {
  const id = `rst_${number++}`;
  const sql = `INSERT INTO password_resets (id, user_id, token_hash, created_at, expires_at)
    VALUES ($1, $2, $3, now(), now() + interval '1 hour')`;
  await api.db.execute(sql, [id, member.user_id, hashOfInvitation(id)]);
  return id;
}

async function login(by: string): Promise<void> {
  const reply = await api.call('', 'POST', '/auth/login', { email: emailOf(person), password: by });
  token = reply.body.access_token;
}

let secret = '';
let recoveryCodes: string[] = [];
// They accept an invitation of C before.
const ownAccount = () => [a, b, ownerOfC.organization_id];

const operations: Readonly<Record<string, Operation>> = {
  createLink: { call: () => ['POST', '/links', { app_id: app, path: '/made' }] },
  bulkCreateLinks: { call: () => ['POST', '/links/bulk', { links: Array(3).fill({ app_id: app, path: '/bulk' }) }] },
  bulkUpdateLinks: {
    call: async () => ['PATCH', '/links/bulk', { ids: [await newLink(), await newLink()], changes: { title: 'New' } }],
  },
  bulkDeleteLinks: { call: async () => ['DELETE', '/links/bulk', { ids: [await newLink(), await newLink()] }] },
  upsertLink: { call: () => ['PUT', `/links/by-external-id/${app}/e-${number++}`, { path: '/upserted' }] },
  updateLink: { call: async () => ['PATCH', `/links/${await newLink()}`, { title: 'New' }] },
  deleteLink: { call: async () => ['DELETE', `/links/${await newLink()}`] },
  setLinkPassword: { call: async () => ['PUT', `/links/${await newLink()}/password`, { password: 'sesame' }] },
  deleteLinkPassword: { call: async () => ['DELETE', `/links/${await newLink()}/password`] },
  createUtmTemplate: { call: () => ['POST', '/utm-templates', inB({ name: 'New', utm_source: 'mail' })] },
  updateUtmTemplate: { call: async () => ['PATCH', `/utm-templates/${await template()}`, { utm_medium: 'mail' }] },
  deleteUtmTemplate: { call: async () => ['DELETE', `/utm-templates/${await template()}`] },
  createApp: { call: () => ['POST', '/apps', inB({ name: 'New' })] },
  updateApp: { call: async () => ['PATCH', `/apps/${await newApp()}`, { name: `New ${number++}` }] },
  deleteApp: { call: async () => ['DELETE', `/apps/${await newApp()}`] },
  rotateAppKey: { call: async () => ['POST', `/apps/${await newApp()}/rotate-key`] },
  createImport: { call: () => ['POST', '/imports', { app_id: app, source: 'csv' }] },
  uploadImportPart: { call: async () => ['PUT', `/imports/${await newImport()}/parts/2`, 'https://example.com/2\n'] },
  checkImport: { call: async () => ['POST', `/imports/${await newImport()}/check`, {}] },
  confirmImport: { call: async () => ['POST', `/imports/${await newImport('checked')}/confirm`, {}] },
  undoImport: { call: async () => ['POST', `/imports/${await newImport('imported')}/undo`, {}] },
  deleteImport: { call: async () => ['DELETE', `/imports/${await newImport('checked')}`] },
  createServerKey: { call: () => ['POST', '/keys', inB({ name: 'New', scopes: ['links:read'] })] },
  deleteServerKey: {
    call: async () => ['DELETE', `/keys/${await made('/keys', inB({ name: 'Made', scopes: ['links:read'] }))}`],
  },
  createCosts: {
    call: () => [
      'POST',
      '/costs',
      inB({ costs: [{ campaign: 'spring', day: '2026-11-20', amount: '12.5', currency: 'EUR' }] }),
    ],
  },
  createView: { call: () => ['POST', '/views', inB({ name: 'New', query: { interval: '7d' } })] },
  updateView: { call: async () => ['PATCH', `/views/${await view()}`, { name: 'New' }] },
  deleteView: { call: async () => ['DELETE', `/views/${await view()}`] },
  createSharedPage: { call: () => ['POST', '/shared-pages', inB({ campaign: 'spring' })] },
  deleteSharedPage: {
    call: async () => ['DELETE', `/shared-pages/${await made('/shared-pages', inB({ campaign: 'spring' }))}`],
  },
  createWebhook: { call: () => ['POST', '/webhooks', inB(newWebhook)] },
  updateWebhook: { call: async () => ['PATCH', `/webhooks/${await webhook()}`, { description: 'New' }] },
  deleteWebhook: { call: async () => ['DELETE', `/webhooks/${await webhook()}`] },
  rotateWebhookSecret: { call: async () => ['POST', `/webhooks/${await webhook()}/rotate-secret`, {}] },
  testWebhook: { call: async () => ['POST', `/webhooks/${await webhook()}/test`] },
  replayWebhook: { call: async () => ['POST', `/webhooks/${await webhook()}/replay`, range] },
  createPostback: { call: () => ['POST', '/postbacks', inB(newPostback)] },
  updatePostback: { call: async () => ['PATCH', `/postbacks/${await postback()}`, { description: 'New' }] },
  deletePostback: { call: async () => ['DELETE', `/postbacks/${await postback()}`] },
  testPostback: { call: async () => ['POST', `/postbacks/${await postback()}/test`] },
  replayPostback: { call: async () => ['POST', `/postbacks/${await postback()}/replay`, range] },
  updateOrganization: { call: () => ['PATCH', `/organizations/${b}`, { name: `New ${number++}` }] },
  updateMember: {
    call: async () => ['PATCH', `/members/${(await api.member('member', b)).user_id}`, inB({ role: 'viewer' })],
  },
  removeMember: {
    call: async () => ['DELETE', `/members/${(await api.member('member', b)).user_id}?organization_id=${b}`],
  },
  createInvitation: { call: () => ['POST', '/invitations', inB({ email: 'new@example.com', role: 'member' })] },
  deleteInvitation: { call: async () => ['DELETE', `/invitations/${await invite('made@example.com', person)}`] },
  acceptInvitation: {
    call: async () => [
      'POST',
      '/auth/invitations/accept',
      { token: await invite('joins@example.com', person), password },
    ],
    isPublic: true,
  },
  acceptOwnInvitation: {
    call: async () => ['POST', '/me/invitations', { token: await invite(emailOf(person), ownerOfC) }],
    organizations: () => [ownerOfC.organization_id],
  },
  resetPassword: {
    call: async () => ['POST', '/auth/password-reset/confirm', { token: await resetOf(person), password }],
    organizations: ownAccount,
    isPublic: true,
  },
  changePassword: {
    call: async () => {
      await login(password);
      return ['POST', '/me/password', { present_password: password, new_password: `${password} again` }];
    },
    organizations: ownAccount,
  },
  deleteSession: {
    call: async () => {
      await login(`${password} again`);
      const [newest] = (await api.call(token, 'GET', '/sessions')).body.data;
      return ['DELETE', `/sessions/${newest.id}`];
    },
    organizations: ownAccount,
  },
  setUpTotp: { call: () => ['POST', '/me/totp', { password: `${password} again` }], organizations: ownAccount },
  confirmTotp: {
    call: () => {
      const totp = new TOTP({ secret: Secret.fromBase32(secret) });
      return ['POST', '/me/totp/confirm', { totp_code: totp.generate({ timestamp: systemClock() }) }];
    },
    organizations: ownAccount,
  },
  disableTotp: {
    call: () => ['POST', '/me/totp/disable', { totp_code: recoveryCodes.pop() }],
    organizations: ownAccount,
    usesUp: ['recovery_codes'],
  },
};

/** The changing operations of the description, without those of SDKs. */
function described(): string[] {
  const text = readFileSync(join(packageRoot(), 'docs', 'openapi.json'), 'utf8');
  const { paths } = JSON.parse(text) as { paths: Record<string, Record<string, { operationId: string }>> };
  return Object.entries(paths)
    .filter(([path]) => !path.startsWith('/sdk/'))
    .flatMap(([, methods]) => Object.entries(methods))
    .filter(([method]) => method !== 'get')
    .map(([, { operationId }]) => operationId);
}

/** All rows of all tables but those of logins and limits, as text by table. */
async function everything(without: readonly string[] = []): Promise<Map<string, string>> {
  const tables = await api.db.query<{ name: string }>(
    `SELECT tablename AS name FROM pg_tables WHERE schemaname = 'public' AND tablename <> ALL ($1) ORDER BY 1`,
    [['idempotency_keys', 'refresh_tokens', 'outbox', ...without]],
  );
  const sql = tables.map(
    ({ name }) =>
      `SELECT '${name}' AS name, coalesce(string_agg(t::text, E'\\n' ORDER BY t::text), '') AS rows FROM ${name} t`,
  );
  const all = await api.db.query<{ name: string; rows: string }>(sql.join(' UNION ALL '));
  return new Map(all.map(({ name, rows }) => [name, rows]));
}

test('each changing operation is in this list', () => {
  expect([...Object.keys(operations), ...withoutRows].sort()).toEqual(described().sort());
});

/** What is wrong with the call while the audit log takes no rows. */
async function unwritten(by: string, [method, path, body]: Call, usesUp: readonly string[] = []): Promise<string> {
  const before = await everything(usesUp);
  await api.db.execute('ALTER TABLE audit_log ADD CONSTRAINT unwritable CHECK (false) NOT VALID');
  const refused = await api.call(by, method, path, body);
  await api.db.execute('ALTER TABLE audit_log DROP CONSTRAINT unwritable');
  if (refused.status !== 500) return `status ${refused.status}`;
  const after = await everything(usesUp);
  const changed = [...after].filter(([name, rows]) => rows !== before.get(name)).map(([name]) => name);
  return changed.length > 0 ? `changed ${changed.join()}` : '';
}

test('each change by a person of two organizations is undone if it cannot be noted, and has one row in its organization', async () => {
  const wrong: string[] = [];
  for (const [operation, { call, organizations = () => [b], isPublic, usesUp }] of Object.entries(operations)) {
    const [method, path, body] = await call();
    const by = isPublic ? '' : token;
    const asked = [method, path, body] as const;
    // The API also writes by itself now and then; what the call changed, it would change each time.
    let fault = await unwritten(by, asked, usesUp);
    if (fault.startsWith('changed')) fault = await unwritten(by, asked, usesUp);
    if (fault !== '') wrong.push(`${operation} without a row: ${fault}`);
    const [{ last } = { last: 0 }] = await api.db.query<{ last: number }>('SELECT max(id) AS last FROM audit_log');
    const again = operation === 'disableTotp' ? { totp_code: recoveryCodes.pop() } : body;
    const reply = await api.call(by, method, path, again);
    if (reply.status >= 300) wrong.push(`${operation}: ${reply.status} ${JSON.stringify(reply.body)}`);
    const rows = await api.db.query<{ organization_id: string; action: string }>(
      'SELECT organization_id, action FROM audit_log WHERE id > $1 ORDER BY organization_id',
      [last],
    );
    const expected = [...organizations()].sort().map((organization_id) => ({ organization_id, action: operation }));
    if (JSON.stringify(rows) !== JSON.stringify(expected)) wrong.push(`${operation}: ${JSON.stringify(rows)}`);
    secret = reply.body.secret ?? secret;
    recoveryCodes = reply.body.recovery_codes ?? recoveryCodes;
  }
  api.failures.splice(0);
  expect(wrong).toEqual([]);
}, 120_000);
