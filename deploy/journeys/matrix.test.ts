/**
 * Every endpoint of the service's own description against every kind of caller, over HTTPS. An endpoint without a row
 * here, or a row without an endpoint, fails too.
 */
import { createHmac, hkdfSync } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { login, Stack } from './stack.ts';

const callers = ['none', 'garbage', 'expired', 'deleted', 'viewer', 'member', 'owner', 'foreign', 'key'] as const;
type Caller = (typeof callers)[number];

interface Row {
  readonly endpoint: string;
  readonly statuses: readonly number[];
  readonly query?: string;
  readonly body?: () => object;
  /** What `{id}` stands for; created for each caller. */
  readonly id?: 'app' | 'link' | 'key' | 'webhook' | 'postback';
}

/** Statuses in the order of `callers`. */
const open = (status: number) => [...Array.from({ length: 8 }, () => status), 403];
const read = (foreign = 403) => [401, 401, 401, 401, 200, 200, 200, foreign, 403];
const own = (status: number) => [401, 401, 401, 401, status, status, status, status, 403];
const write = (status = 200, foreign = 403) => [401, 401, 401, 401, 403, status, status, foreign, 403];
const manage = (status: number) => [401, 401, 401, 401, 403, 403, status, 403, 403];
const sdk = (status: number) => [...Array.from({ length: 8 }, () => 401), status];

let stack: Stack;
let headers: Readonly<Record<Caller, Record<string, string>>>;
let organization: string;
let app: { id: string; api_key: string };
let webhook: { id: string };
let postback: { id: string };
let matchId = '';
let made = 0;

const rows: readonly Row[] = [
  { endpoint: 'POST /auth/login', statuses: open(200), body: () => login },
  { endpoint: 'POST /auth/refresh', statuses: open(401), body: () => ({ refresh_token: 'unknown' }) },
  { endpoint: 'POST /auth/logout', statuses: open(401), body: () => ({ refresh_token: 'unknown' }) },
  { endpoint: 'POST /auth/oauth/{provider}/start', statuses: open(404), body: () => ({}) },
  { endpoint: 'POST /auth/oauth/{provider}/callback', statuses: open(404), body: () => ({ code: 'a', state: 'b' }) },
  { endpoint: 'GET /openapi.json', statuses: open(200) },
  { endpoint: 'GET /version', statuses: open(200) },
  { endpoint: 'GET /docs', statuses: open(200) },
  { endpoint: 'GET /docs/{file}', statuses: open(200) },
  // Only the dashboard's own pages have a session: deploy/journeys and api/auth/session.live.test.ts log in as one.
  { endpoint: 'POST /session', statuses: Array.from({ length: 9 }, () => 403), body: () => login },
  { endpoint: 'GET /session', statuses: own(404) },
  // Of a session: the callers here have tokens.
  { endpoint: 'PUT /session/organization', statuses: own(404), body: () => ({ organization_id: null }) },
  { endpoint: 'GET /sessions', statuses: own(200) },
  { endpoint: 'DELETE /sessions/{session_id}', statuses: own(404) },
  { endpoint: 'DELETE /session', statuses: Array.from({ length: 9 }, () => 403) },
  { endpoint: 'GET /me', statuses: read(200) },
  { endpoint: 'POST /me/totp', statuses: read(200), body: () => ({ password: login.password }) },
  { endpoint: 'POST /me/totp/confirm', statuses: own(400), body: () => ({ totp_code: 'none' }) },
  { endpoint: 'POST /me/totp/disable', statuses: own(404), body: () => ({ totp_code: 'none' }) },
  { endpoint: 'GET /members', statuses: read(), query: 'organization_id={organization}' },
  {
    endpoint: 'PATCH /members/{user_id}',
    statuses: manage(404),
    body: () => ({ role: 'viewer', organization_id: organization }),
  },
  { endpoint: 'DELETE /members/{user_id}', statuses: manage(404), query: 'organization_id={organization}' },
  {
    endpoint: 'POST /invitations',
    statuses: manage(201),
    body: () => ({ email: 'grace@example.com', role: 'viewer', organization_id: organization }),
  },
  { endpoint: 'GET /invitations', statuses: manage(200), query: 'organization_id={organization}' },
  { endpoint: 'DELETE /invitations/{invitation_id}', statuses: [401, 401, 401, 401, 403, 404, 404, 404, 403] },
  { endpoint: 'POST /auth/invitations/look-up', statuses: open(404), body: () => ({ token: 'unknown' }) },
  {
    endpoint: 'POST /auth/invitations/accept',
    statuses: open(404),
    body: () => ({ token: 'unknown', password: 'seven unrelated heavy words' }),
  },
  // Without a mail server; api/mail/mail.live.test.ts has one.
  { endpoint: 'POST /auth/password-reset', statuses: open(404), body: () => ({ email: 'unknown@example.com' }) },
  {
    endpoint: 'POST /auth/password-reset/confirm',
    statuses: open(404),
    body: () => ({ token: 'unknown', password: 'seven unrelated heavy words' }),
  },
  { endpoint: 'POST /me/invitations', statuses: own(404), body: () => ({ token: 'unknown' }) },
  {
    endpoint: 'POST /me/password',
    statuses: own(400),
    body: () => ({ present_password: 'wrong', new_password: 'seven unrelated heavy words' }),
  },
  {
    endpoint: 'PATCH /organizations/{organization_id}',
    statuses: manage(200),
    body: () => ({ name: 'My organization' }),
  },
  { endpoint: 'GET /audit-log', statuses: manage(200), query: 'organization_id={organization}' },
  { endpoint: 'GET /apps', statuses: read(), query: 'organization_id={organization}' },
  {
    endpoint: 'POST /apps',
    statuses: write(201),
    body: () => ({ name: `Made ${made++}`, organization_id: organization }),
  },
  { endpoint: 'GET /apps/{id}', statuses: read(), id: 'app' },
  { endpoint: 'PATCH /apps/{id}', statuses: write(), id: 'app', body: () => ({ name: 'Renamed' }) },
  { endpoint: 'DELETE /apps/{id}', statuses: write(), id: 'app' },
  { endpoint: 'POST /apps/{id}/rotate-key', statuses: write(), id: 'app' },
  { endpoint: 'POST /apps/{app_id}/check-associations', statuses: read() },
  { endpoint: 'GET /apps/{app_id}/migration', statuses: read() },
  { endpoint: 'GET /imports', statuses: read(), query: 'app_id={app}' },
  { endpoint: 'POST /imports', statuses: write(201), body: () => ({ app_id: app.id, source: 'csv' }) },
  // Of an import that does not exist; api/imports/imports.live.test.ts has the others.
  { endpoint: 'GET /imports/{import_id}', statuses: own(404) },
  { endpoint: 'PUT /imports/{import_id}/parts/{number}', statuses: write(400, 400) },
  { endpoint: 'POST /imports/{import_id}/check', statuses: write(404, 404), body: () => ({}) },
  { endpoint: 'GET /imports/{import_id}/rows', statuses: own(404) },
  { endpoint: 'POST /imports/{import_id}/confirm', statuses: write(404, 404), body: () => ({}) },
  { endpoint: 'POST /imports/{import_id}/undo', statuses: write(404, 404), body: () => ({}) },
  { endpoint: 'DELETE /imports/{import_id}', statuses: write(404, 404) },
  { endpoint: 'GET /keys', statuses: manage(200), query: 'organization_id={organization}' },
  {
    endpoint: 'POST /keys',
    statuses: manage(201),
    body: () => ({ name: 'Made', scopes: ['links:read'], organization_id: organization }),
  },
  { endpoint: 'DELETE /keys/{id}', statuses: manage(200), id: 'key' },
  { endpoint: 'GET /webhooks', statuses: read(), query: 'organization_id={organization}' },
  { endpoint: 'POST /webhooks', statuses: write(201), body: () => newWebhook() },
  { endpoint: 'GET /webhooks/{webhook_id}', statuses: read(), id: 'webhook' },
  {
    endpoint: 'PATCH /webhooks/{webhook_id}',
    statuses: write(),
    id: 'webhook',
    body: () => ({ description: 'Renamed' }),
  },
  { endpoint: 'DELETE /webhooks/{webhook_id}', statuses: write(), id: 'webhook' },
  { endpoint: 'POST /webhooks/{webhook_id}/rotate-secret', statuses: write(), id: 'webhook', body: () => ({}) },
  { endpoint: 'POST /webhooks/{webhook_id}/test', statuses: write(202), id: 'webhook' },
  { endpoint: 'GET /webhooks/{webhook_id}/messages', statuses: read(), id: 'webhook' },
  { endpoint: 'GET /webhooks/{webhook_id}/attempts', statuses: read(), id: 'webhook' },
  {
    endpoint: 'POST /webhooks/{webhook_id}/replay',
    statuses: write(202),
    id: 'webhook',
    body: () => ({ from: '2026-01-15T09:30:00Z' }),
  },
  { endpoint: 'GET /postbacks', statuses: read(), query: 'organization_id={organization}' },
  { endpoint: 'POST /postbacks', statuses: write(201), body: () => newPostback() },
  { endpoint: 'GET /postbacks/{postback_id}', statuses: read(), id: 'postback' },
  {
    endpoint: 'PATCH /postbacks/{postback_id}',
    statuses: write(),
    id: 'postback',
    body: () => ({ description: 'Renamed' }),
  },
  { endpoint: 'DELETE /postbacks/{postback_id}', statuses: write(), id: 'postback' },
  { endpoint: 'POST /postbacks/{postback_id}/test', statuses: write(202), id: 'postback' },
  {
    endpoint: 'POST /postbacks/{postback_id}/replay',
    statuses: write(202),
    id: 'postback',
    body: () => ({ from: '2026-01-15T09:30:00Z' }),
  },
  { endpoint: 'GET /postbacks/{postback_id}/attempts', statuses: read(), id: 'postback' },
  { endpoint: 'GET /links', statuses: read(), query: 'app_id={app}' },
  { endpoint: 'POST /links', statuses: write(201), body: () => ({ app_id: app.id, path: '/made' }) },
  { endpoint: 'GET /tags', statuses: read(), query: 'app_id={app}' },
  { endpoint: 'GET /orphan-visits', statuses: read(), query: 'app_id={app}' },
  { endpoint: 'GET /apps/{app_id}/ad-postbacks', statuses: read() },
  { endpoint: 'GET /links/availability', statuses: read(), query: 'app_id={app}&short_code=free' },
  { endpoint: 'GET /links/lookup', statuses: read(), query: 'app_id={app}&external_id=known' },
  {
    endpoint: 'POST /links/bulk',
    // Another organization's app is an error of each link.
    statuses: [401, 401, 401, 401, 403, 200, 200, 200, 403],
    body: () => ({ links: [{ app_id: app.id, path: '/bulk' }] }),
  },
  {
    endpoint: 'PATCH /links/bulk',
    statuses: write(),
    body: () => ({ filter: { app_id: app.id, campaign: 'none' }, changes: { title: 'Renamed' } }),
  },
  { endpoint: 'DELETE /links/bulk', statuses: write(), body: () => ({ filter: { app_id: app.id, campaign: 'none' } }) },
  {
    endpoint: 'PUT /links/by-external-id/{app_id}/{external_id}',
    statuses: write(201),
    body: () => ({ path: '/upserted' }),
  },
  { endpoint: 'GET /links/{id}', statuses: read(), id: 'link' },
  { endpoint: 'PATCH /links/{id}', statuses: write(), id: 'link', body: () => ({ title: 'Renamed' }) },
  { endpoint: 'DELETE /links/{id}', statuses: write(), id: 'link' },
  { endpoint: 'PUT /links/{link_id}/password', statuses: write(), id: 'link', body: () => ({ password: 'sesame' }) },
  { endpoint: 'DELETE /links/{link_id}/password', statuses: write(), id: 'link' },
  { endpoint: 'GET /links/{id}/qr', statuses: read(), id: 'link' },
  { endpoint: 'POST /links/{id}/explain', statuses: read(), id: 'link', body: () => ({ user_agent: 'curl/8' }) },
  { endpoint: 'GET /links/{id}/stats', statuses: read(), id: 'link' },
  { endpoint: 'GET /analytics/overview', statuses: read(), query: 'app_id={app}' },
  { endpoint: 'GET /analytics/timeseries', statuses: read(), query: 'app_id={app}' },
  { endpoint: 'GET /analytics/top-links', statuses: read(), query: 'app_id={app}' },
  { endpoint: 'GET /analytics/top-campaigns', statuses: read(), query: 'app_id={app}' },
  { endpoint: 'GET /analytics/breakdown', statuses: read(), query: 'by=platform&app_id={app}' },
  { endpoint: 'GET /analytics/page', statuses: read(), query: 'app_id={app}' },
  { endpoint: 'GET /analytics/retention', statuses: read(), query: 'app_id={app}' },
  { endpoint: 'GET /analytics/ltv', statuses: read(), query: 'app_id={app}' },
  { endpoint: 'GET /analytics/funnel', statuses: read(), query: 'events=opened&app_id={app}' },
  { endpoint: 'GET /costs', statuses: read(), query: 'organization_id={organization}' },
  {
    endpoint: 'POST /costs',
    statuses: write(200),
    body: () => ({
      organization_id: organization,
      costs: [{ campaign: 'spring', day: '2026-11-20', amount: '12.5', currency: 'EUR' }],
    }),
  },
  { endpoint: 'GET /views', statuses: read(), query: 'organization_id={organization}' },
  {
    endpoint: 'POST /views',
    statuses: write(201),
    body: () => ({ organization_id: organization, name: 'Made', query: { interval: '7d' } }),
  },
  { endpoint: 'GET /views/{view_id}', statuses: read() },
  { endpoint: 'PATCH /views/{view_id}', statuses: write(), body: () => ({ name: 'Renamed' }) },
  { endpoint: 'DELETE /views/{view_id}', statuses: write() },
  { endpoint: 'GET /utm-templates', statuses: read(), query: 'organization_id={organization}' },
  { endpoint: 'POST /utm-templates', statuses: write(201), body: () => newTemplate() },
  { endpoint: 'GET /utm-templates/{template_id}', statuses: read() },
  { endpoint: 'PATCH /utm-templates/{template_id}', statuses: write(), body: () => ({ utm_medium: 'email' }) },
  { endpoint: 'DELETE /utm-templates/{template_id}', statuses: write() },
  { endpoint: 'GET /shared-pages', statuses: read(), query: 'organization_id={organization}' },
  {
    endpoint: 'POST /shared-pages',
    statuses: write(201),
    body: () => ({ campaign: 'spring', organization_id: organization }),
  },
  { endpoint: 'DELETE /shared-pages/{page_id}', statuses: write() },
  { endpoint: 'POST /shared-figures', statuses: open(404), body: () => ({ token: 'unknown' }) },
  { endpoint: 'GET /analytics/match-quality', statuses: read(), query: 'app_id={app}' },
  { endpoint: 'GET /trust', statuses: own(200) },
  { endpoint: 'GET /matches', statuses: read(), query: 'app_id={app}' },
  { endpoint: 'GET /matches/{match_id}', statuses: read(404) },
  {
    endpoint: 'GET /analytics/export',
    statuses: read(),
    query: 'kind=clicks&format=ndjson&organization_id={organization}',
  },
  { endpoint: 'GET /live', statuses: read(), query: 'app_id={app}&seconds=0' },
  { endpoint: 'POST /sdk/match', statuses: sdk(200), body: () => ({ platform: 'ios' }) },
  { endpoint: 'POST /sdk/install', statuses: sdk(201), body: () => ({ platform: 'ios', install_id: `i${made++}` }) },
  { endpoint: 'POST /sdk/events', statuses: sdk(202), body: () => ({ name: 'opened', device_id: 'd1' }) },
  { endpoint: 'POST /sdk/links', statuses: sdk(201), body: () => ({ path: '/from-sdk' }) },
  {
    endpoint: 'POST /sdk/segment/v1/batch',
    statuses: sdk(200),
    body: () => ({ batch: [{ type: 'track', event: 'opened', userId: 'u1', messageId: `m${made++}` }] }),
  },
  {
    endpoint: 'POST /sdk/posthog/batch/',
    statuses: sdk(200),
    body: () => ({ batch: [{ event: 'opened', properties: { distinct_id: 'u1' } }] }),
  },
  {
    endpoint: 'POST /sdk/segment/v1/{call}',
    statuses: sdk(200),
    body: () => ({ event: 'opened', userId: 'u1', messageId: `m${made++}` }),
  },
  { endpoint: 'GET /sdk/segment/v1/projects/{write_key}/settings', statuses: sdk(200) },
  { endpoint: 'POST /sdk/posthog/flags/', statuses: sdk(200), body: () => ({ distinct_id: 'u1' }) },
  { endpoint: 'GET /sdk/posthog/array/{project_key}/config', statuses: sdk(200) },
];

const newPostback = () => ({
  url: 'https://127.0.0.1/?c={click_id}',
  events: ['install.attributed'],
  organization_id: organization,
});
const newTemplate = () => ({ organization_id: organization, name: `Made ${made++}`, utm_source: 'newsletter' });
const newWebhook = () => ({ url: 'https://127.0.0.1/', events: ['link.created'], organization_id: organization });

beforeAll(async () => {
  stack = await Stack.start({ WEBHOOK_ALLOWED_NETWORKS: '127.0.0.1' });
  const first = 'My organization';
  await stack.admin('create-user', '--email', 'viewer@example.com', '--organization', first, '--role', 'viewer');
  await stack.admin('create-user', '--email', 'member@example.com', '--organization', first, '--role', 'member');
  await stack.admin('create-user', '--email', 'foreign@example.com', '--organization', 'Another company');
  const owner = bearer(await tokenOf(login.email));
  const me = await stack.api('/me', { headers: owner });
  organization = me.json<{ organizations: { id: string }[] }>().organizations[0]?.id ?? '';
  const ownId = me.json<{ user: { id: string } }>().user.id;
  app = await make('/apps', { name: 'Matrix', allowed_destination_hosts: ['example.com'] }, owner);
  await make('/links', { app_id: app.id, path: '/known', external_id: 'known' }, owner);
  webhook = await makeWebhook(owner);
  postback = await makePostback(owner);
  headers = {
    none: {},
    garbage: bearer('garbage'),
    expired: bearer(signed(ownId, -1)),
    deleted: bearer(signed(`${ownId.slice(0, -4)}0000`, 900)),
    viewer: bearer(await tokenOf('viewer@example.com')),
    member: bearer(await tokenOf('member@example.com')),
    owner,
    foreign: bearer(await tokenOf('foreign@example.com')),
    key: { 'x-api-key': app.api_key },
  };
  const asked = { method: 'POST', body: { platform: 'ios' }, headers: headers.key };
  matchId = (await stack.api('/sdk/match', asked)).json<{ match_id: string }>().match_id;
  // It is stored some seconds after its answer.
  const stored = async () =>
    expect((await stack.api(`/matches/${matchId}`, { headers: headers.owner })).status).toBe(200);
  await vi.waitFor(stored, 30_000);
});
afterAll(() => stack.stop());

function bearer(token: string): Record<string, string> {
  return { authorization: `Bearer ${token}` };
}

async function tokenOf(email: string): Promise<string> {
  const reply = await stack.api('/auth/login', { method: 'POST', body: { email, password: login.password } });
  expect(reply.status, reply.text).toBe(200);
  return reply.json<{ access_token: string }>().access_token;
}

/** A token with a valid signature, as only the holder of the key can make: expired, or of an unknown user. */
function signed(sub: string, secondsLeft: number): string {
  const [kid = '', key = ''] = readFileSync(join(stack.dataDir, 'secret-key'), 'utf8').trim().split(':');
  const now = Math.floor(Date.now() / 1000);
  const claims = { iss: 'signpost', aud: 'signpost-api', sub, iat: now - 900, exp: now + secondsLeft };
  const input = [{ alg: 'HS256', typ: 'at+jwt', kid }, claims]
    .map((part) => Buffer.from(JSON.stringify(part)).toString('base64url'))
    .join('.');
  const derived = hkdfSync('sha256', Buffer.from(key, 'base64'), 'signpost', 'access-token', 32);
  return `${input}.${createHmac('sha256', Buffer.from(derived)).update(input).digest('base64url')}`;
}

async function make<T>(path: string, body: object, by: Record<string, string>): Promise<T> {
  const reply = await stack.api(path, { method: 'POST', body, headers: by });
  expect(reply.status, reply.text).toBe(201);
  return reply.json<T>();
}

const makePostback = (by: Record<string, string>) => make<{ id: string }>('/postbacks', newPostback(), by);
const makeWebhook = (by: Record<string, string>) => make<{ id: string }>('/webhooks', newWebhook(), by);

async function pathOf(row: Row): Promise<string> {
  let path = row.endpoint.split(' ')[1] ?? '';
  if (row.id === 'app') {
    path = path.replace('{id}', (await make<{ id: string }>('/apps', { name: `Fresh ${made++}` }, headers.owner)).id);
  } else if (row.id === 'link') {
    const link = await make<{ id: string }>('/links', { app_id: app.id, path: '/fresh' }, headers.owner);
    path = path.replace('{id}', link.id).replace('{link_id}', link.id);
  }
  if (row.id === 'key') {
    const wanted = { name: 'Fresh', scopes: ['links:read'], organization_id: organization };
    path = path.replace('{id}', (await make<{ id: string }>('/keys', wanted, headers.owner)).id);
  }
  if (row.id === 'webhook') {
    // An organization has at most fifty.
    const isFresh = row.endpoint.startsWith('DELETE');
    path = path.replace('{webhook_id}', isFresh ? (await makeWebhook(headers.owner)).id : webhook.id);
  }
  if (row.id === 'postback') {
    const isFresh = row.endpoint.startsWith('DELETE');
    path = path.replace('{postback_id}', isFresh ? (await makePostback(headers.owner)).id : postback.id);
  }
  if (path.includes('{view_id}')) {
    const wanted = { name: 'Fresh', query: {}, organization_id: organization };
    path = path.replace('{view_id}', (await make<{ id: string }>('/views', wanted, headers.owner)).id);
  }
  if (path.includes('{template_id}')) {
    const { id } = await make<{ id: string }>('/utm-templates', newTemplate(), headers.owner);
    path = path.replace('{template_id}', id);
  }
  if (path.includes('{page_id}')) {
    const wanted = { campaign: 'spring', organization_id: organization };
    path = path.replace('{page_id}', (await make<{ id: string }>('/shared-pages', wanted, headers.owner)).id);
  }
  path = path.replace('{match_id}', matchId).replace('{app_id}', app.id).replace('{external_id}', `fresh-${made++}`);
  path = path.replace('{user_id}', 'usr_unknown').replace('{invitation_id}', 'inv_unknown');
  path = path.replace('{organization_id}', organization);
  const query = row.query?.replace('{app}', app.id).replace('{organization}', organization);
  path = path.replace('{call}', 't');
  return `${path.replace('{provider}', 'google').replace('{file}', 'swagger-ui.css')}${query ? `?${query}` : ''}`;
}

const codes: Readonly<Record<number, string>> = { 401: 'UNAUTHORIZED', 403: 'FORBIDDEN', 404: 'NOT_FOUND' };

test('the signature of this test is the service’s own, so that "expired" and "deleted" are refused for what they are', async () => {
  const me = await stack.api('/me', { headers: headers.owner });
  const reply = await stack.api('/me', { headers: bearer(signed(me.json<{ user: { id: string } }>().user.id, 900)) });
  expect(reply.status).toBe(200);
});

test('every endpoint of the description has a row, and every row an endpoint', async () => {
  const { paths } = (await stack.api('/openapi.json')).json<{ paths: Record<string, object> }>();
  const described = Object.entries(paths).flatMap(([path, methods]) =>
    Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
  );
  expect(rows.map((row) => row.endpoint).sort()).toEqual(described.sort());
});

test('each endpoint gives each caller the status of the contract, and a refusal its code and the limit headers', async () => {
  const lines = [`${'endpoint'.padEnd(38)}${callers.map((caller) => caller.padStart(8)).join('')}`];
  const wrong: string[] = [];
  for (const row of rows) {
    const got: number[] = [];
    for (const [at, caller] of callers.entries()) {
      const body = row.body?.();
      const method = row.endpoint.split(' ')[0] ?? '';
      const reply = await stack.api(await pathOf(row), {
        method,
        headers: headers[caller],
        ...(body ? { body } : {}),
      });
      got.push(reply.status);
      const where = `${row.endpoint} as ${caller}`;
      if (reply.status !== row.statuses[at])
        wrong.push(`${where}: ${reply.status}, not ${row.statuses[at]}: ${reply.text}`);
      const code = codes[reply.status];
      if (code && reply.json<{ error: { code: string } }>().error.code !== code) wrong.push(`${where}: ${reply.text}`);
      for (const name of ['x-request-id', 'x-ratelimit-limit', 'x-ratelimit-remaining', 'x-ratelimit-reset']) {
        if (reply.headers[name] === undefined) wrong.push(`${where}: no ${name}`);
      }
    }
    lines.push(`${row.endpoint.padEnd(38)}${got.map((status) => String(status).padStart(8)).join('')}`);
  }
  console.log(lines.join('\n'));
  expect(wrong.join('\n')).toBe('');
}, 300_000);
