/**
 * Compares the service's actual answers with its OpenAPI description, request by request: statuses, bodies, headers,
 * errors.
 */
import { Secret, TOTP } from 'otpauth';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type SmtpServerForTest, smtpServerForTest } from '#testing/smtp-server.ts';
import { Description, type Operation } from './fuzz/description.ts';
import { faultsOf } from './fuzz/verdict.ts';
import { type Received, Wire } from './fuzz/wire.ts';
import { type Credential, World } from './fuzz/world.ts';
import { login, Stack } from './stack.ts';

/** The largest limit twice, because a minute may end in between, and one more burst. */
const REQUESTS_MAX = 1_700;
/** A POST that only reads. */
const explain = '/links/{id}/explain';
const AT_ONCE = 100;
const limits = {
  RATE_LIMIT_AUTH: '90',
  RATE_LIMIT_LINKS: '60',
  RATE_LIMIT_MATCH: '300',
  RATE_LIMIT_EVENTS: '300',
  RATE_LIMIT_GENERAL: '800',
};

interface Ask {
  readonly body?: unknown;
  readonly credential?: Credential;
  readonly headers?: Record<string, string>;
}

let smtp: SmtpServerForTest;
let stack: Stack;
let description: Description;
let world: World;
let wire: Wire;
/** Statuses seen so far, by operation. */
const seen = new Map<string, Set<number>>();

beforeAll(async () => {
  smtp = await smtpServerForTest();
  const mail = { SMTP_URL: `smtp://127.0.0.1:${smtp.port}`, SMTP_TLS: 'if_offered', MAIL_FROM: 'links@example.com' };
  stack = await Stack.start({ ...limits, ...mail });
  wire = new Wire(stack.apiPort);
  description = new Description((await stack.api('/openapi.json')).json());
  world = await World.build(stack);
});
afterAll(async () => {
  wire.close();
  await stack.stop();
  await smtp.stop();
});

const nameOf = ({ method, path }: Operation) => `${method} ${path}`;

function operationFor(method: string, path: string): Operation {
  const fits = (one: Operation) => new RegExp(`^${one.path.replaceAll(/\{\w+\}/g, '[^/]+')}$`).test(path);
  const found = description.operations.filter((one) => one.method === method && fits(one));
  const exact = found.find((one) => one.path === path) ?? found[0];
  if (!exact) throw new Error(`${method} ${path} is not described`);
  return exact;
}

/** Sends one request and checks its answer against the description. */
async function ask(
  method: string,
  target: string,
  ask: Ask = {},
): Promise<{ status: number; body: Record<string, unknown>; cookie: string }> {
  const path = target.replace(/\?.*/, '');
  const operation = operationFor(method, path);
  const credential =
    ask.credential ?? (path.startsWith('/sdk/') ? 'key' : path.startsWith('/auth/') ? 'none' : 'owner');
  const text = ask.body === undefined ? null : typeof ask.body === 'string' ? ask.body : JSON.stringify(ask.body);
  const received = await wire.send({
    method,
    target: `/v1${world.fill(target)}`,
    headers: {
      ...(text === null ? {} : { 'content-type': 'application/json' }),
      ...world.headers(credential),
      ...ask.headers,
    },
    body: text === null ? null : Buffer.from(world.fill(text)),
  });
  if (typeof received === 'string') throw new Error(`${method} ${target}: ${received}`);
  expect(faultsOf(description, operation, method, received), `${method} ${target}`).toEqual([]);
  const statuses = seen.get(nameOf(operation)) ?? new Set();
  seen.set(nameOf(operation), statuses.add(received.status));
  const [cookie = ''] = String(received.headers['set-cookie'] ?? '').split(';');
  return { status: received.status, body: bodyOf(received), cookie };
}

function bodyOf({ headers, body }: Received): Record<string, unknown> {
  return String(headers['content-type']).startsWith('application/json') ? JSON.parse(body.toString('utf8')) : {};
}

async function expectStatus(status: number, method: string, target: string, more: Ask = {}) {
  const answer = await ask(method, target, more);
  expect(answer.status, `${method} ${target} ${JSON.stringify(answer.body)}`).toBe(status);
  return answer.body;
}

async function webhooksSucceed(): Promise<void> {
  const endpoint = { url: 'https://hooks.invalid/', events: ['link.created'] };
  const { id } = await expectStatus(201, 'POST', '/webhooks', { body: endpoint });
  await expectStatus(200, 'GET', '/webhooks?limit=1');
  await expectStatus(200, 'GET', `/webhooks/${id}`);
  await expectStatus(200, 'PATCH', `/webhooks/${id}`, { body: { description: 'Renamed' } });
  await expectStatus(200, 'POST', `/webhooks/${id}/rotate-secret`, { body: {} });
  await expectStatus(202, 'POST', `/webhooks/${id}/test`);
  await expectStatus(200, 'GET', `/webhooks/${id}/messages?limit=1`);
  await expectStatus(200, 'GET', `/webhooks/${id}/attempts?limit=1`);
  await expectStatus(202, 'POST', `/webhooks/${id}/replay`, { body: { from: '2026-01-15T09:30:00Z' } });
  await expectStatus(200, 'DELETE', `/webhooks/${id}`);
}

async function postbacksSucceed(): Promise<void> {
  const url = 'https://network.invalid/?click={click_id}&value={revenue}';
  const { id } = await expectStatus(201, 'POST', '/postbacks', { body: { url, events: ['install.attributed'] } });
  await expectStatus(200, 'GET', '/postbacks?limit=1');
  await expectStatus(200, 'GET', `/postbacks/${id}`);
  await expectStatus(200, 'PATCH', `/postbacks/${id}`, { body: { campaigns: ['spring'] } });
  await expectStatus(202, 'POST', `/postbacks/${id}/test`);
  await expectStatus(202, 'POST', `/postbacks/${id}/replay`, { body: { from: '2026-01-01T00:00:00Z' } });
  await expectStatus(200, 'GET', `/postbacks/${id}/attempts?limit=1`);
  await expectStatus(200, 'DELETE', `/postbacks/${id}`);
}

async function peopleSucceed(): Promise<void> {
  const invite = async (email: string) =>
    expectStatus(201, 'POST', '/invitations', { body: { email, role: 'viewer' } });
  const me = await expectStatus(200, 'GET', '/me');
  const [{ id } = { id: '' }] = me['organizations'] as { id: string }[];
  await expectStatus(200, 'PATCH', `/organizations/${id}`, { body: { name: 'Renamed' } });
  // Only the mail has the link.
  const mailed = async (to: string) => {
    const text = () =>
      smtp.mails.find((mail) => mail.to.includes(to) && mail.text.includes('/invitation#'))?.text ?? '';
    await expect.poll(text, { timeout: 30_000 }).not.toBe('');
    return /#([\w-]{43})/.exec(text())?.[1];
  };
  await invite('grace@example.com');
  const token = await mailed('grace@example.com');
  await expectStatus(200, 'GET', '/invitations?limit=1');
  await expectStatus(200, 'POST', '/auth/invitations/look-up', { body: { token } });
  const password = 'seven unrelated heavy words';
  const grace = await expectStatus(201, 'POST', '/auth/invitations/accept', { body: { token, password } });
  await expectStatus(202, 'POST', '/auth/password-reset', { body: { email: 'grace@example.com' } });
  const sent = () => smtp.mails.find(({ text }) => text.includes('/password-reset#'))?.text;
  await expect.poll(sent, { timeout: 30_000 }).toBeDefined();
  const reset = /#([\w-]{43})/.exec(sent() ?? '')?.[1];
  await expectStatus(200, 'POST', '/auth/password-reset/confirm', { body: { token: reset, password } });
  const pair = await expectStatus(200, 'POST', '/auth/login', { body: { email: 'grace@example.com', password } });
  const asGrace: Ask = { credential: 'none', headers: { authorization: `Bearer ${pair['access_token']}` } };
  const change = { present_password: password, new_password: 'eight unrelated heavy words' };
  await expectStatus(200, 'POST', '/me/password', { ...asGrace, body: change });
  await expectStatus(200, 'PATCH', `/members/${grace['user_id']}`, { body: { role: 'member' } });
  await expectStatus(200, 'DELETE', `/members/${grace['user_id']}`);
  await expectStatus(200, 'DELETE', `/invitations/${(await invite('ada@example.com'))['id']}`);
  const foreign = await expectStatus(200, 'GET', '/me', { credential: 'foreign' });
  const { email } = foreign['user'] as { email: string };
  await invite(email);
  const joined = await expectStatus(200, 'POST', '/me/invitations', {
    body: { token: await mailed(email) },
    credential: 'foreign',
  });
  await expectStatus(200, 'DELETE', `/members/${joined['user_id']}`);
  await expectStatus(200, 'GET', '/audit-log?limit=1');
}

async function utmTemplatesSucceed(app_id: string): Promise<void> {
  const { id } = await expectStatus(201, 'POST', '/utm-templates', { body: { name: 'Contract', utm_source: 'a' } });
  for (const target of [`/utm-templates?app_id=${app_id}`, `/utm-templates/${id}`])
    await expectStatus(200, 'GET', target);
  await expectStatus(200, 'PATCH', `/utm-templates/${id}`, { body: { utm_medium: 'email', app_id } });
  const link = { app_id, path: '/t', utm_template_id: id };
  expect(await expectStatus(201, 'POST', '/links', { body: link })).toMatchObject({ utm_medium: 'email' });
  await expectStatus(200, 'DELETE', `/utm-templates/${id}`);
}

/** Uploads, checks, confirms and takes back a file of one link. */
async function importAFile(app_id: string): Promise<void> {
  const { id } = await expectStatus(201, 'POST', '/imports', { body: { app_id, source: 'csv' } });
  const body = 'code,destination\nprinted.1,https://e.example/\n';
  await expectStatus(200, 'PUT', `/imports/${id}/parts/1`, { body, headers: { 'content-type': 'text/csv' } });
  for (const [step, state] of Object.entries({ check: 'checked', confirm: 'imported', undo: 'undone' })) {
    await expectStatus(200, 'POST', `/imports/${id}/${step}`);
    const stateNow = async () => (await expectStatus(200, 'GET', `/imports/${id}`))['state'];
    await expect.poll(stateNow, { timeout: 30_000 }).toBe(state);
  }
  await expectStatus(200, 'GET', '/imports?limit=1');
  await expectStatus(200, 'GET', `/imports/${id}/rows?outcome=new&limit=1`);
  await expectStatus(200, 'DELETE', `/imports/${id}`);
}

test('every operation succeeds as described', async () => {
  const pair = await expectStatus(200, 'POST', '/auth/login', { body: login });
  const next = await expectStatus(200, 'POST', '/auth/refresh', { body: { refresh_token: pair['refresh_token'] } });
  await expectStatus(200, 'POST', '/auth/logout', { body: { refresh_token: next['refresh_token'] } });
  await expectStatus(200, 'GET', '/me');
  await expectStatus(200, 'GET', '/members?limit=1');
  const ownPage = { 'sec-fetch-site': 'same-origin', 'x-signpost-session': '1' };
  const session = await ask('POST', '/session', { body: login, credential: 'none', headers: ownPage });
  expect(session.status).toBe(201);
  const asSession: Ask = { credential: 'none', headers: { ...ownPage, cookie: session.cookie } };
  const { data } = await expectStatus(200, 'GET', '/sessions', asSession);
  const [begun] = data as { id: string; kind: string }[];
  await expectStatus(200, 'PUT', '/session/organization', { ...asSession, body: { organization_id: null } });
  for (const method of ['GET', 'DELETE']) await expectStatus(200, method, '/session', asSession);
  const again = await ask('POST', '/auth/login', { body: login });
  const logins = (await expectStatus(200, 'GET', '/sessions'))['data'] as { id: string; kind: string }[];
  expect([begun?.kind, again.status]).toEqual(['browser', 200]);
  await expectStatus(200, 'DELETE', `/sessions/${logins.find(({ kind }) => kind === 'token')?.id}`);
  const factor = await expectStatus(200, 'POST', '/me/totp', { body: { password: login.password } });
  const authenticator = new TOTP({ secret: Secret.fromBase32(String(factor['secret'])) });
  await expectStatus(200, 'POST', '/me/totp/confirm', { body: { totp_code: authenticator.generate() } });
  // A code works once; the code of the next half minute is already valid.
  const next30s = authenticator.generate({ timestamp: Date.now() + 30_000 });
  await expectStatus(200, 'POST', '/me/totp/disable', { body: { totp_code: next30s } });
  for (const page of ['/openapi.json', '/docs', '/docs/swagger-ui.css', '/version'])
    await expectStatus(200, 'GET', page);
  await peopleSucceed();
  const ios = { bundle_id: 'com.example.app', team_id: 'ABCDE12345', app_store_id: '123456', uri_scheme: 'myapp' };
  const app = await expectStatus(201, 'POST', '/apps', { body: { name: 'Contract', ios } });
  await expectStatus(200, 'GET', `/apps/${app['id']}`);
  await expectStatus(200, 'GET', '/apps?limit=1');
  await expectStatus(200, 'PATCH', `/apps/${app['id']}`, { body: { name: 'Renamed', ios: null } });
  await expectStatus(200, 'POST', `/apps/${app['id']}/check-associations`);
  await expectStatus(200, 'GET', `/apps/${app['id']}/migration?days=1`);
  await expectStatus(200, 'POST', `/apps/${app['id']}/rotate-key`);
  const key = await expectStatus(201, 'POST', '/keys', { body: { name: 'Contract', scopes: ['links:read'] } });
  await expectStatus(200, 'GET', '/keys?limit=1');
  await expectStatus(200, 'DELETE', `/keys/${key['id']}`);
  await webhooksSucceed();
  await postbacksSucceed();
  await importAFile(String(app['id']));
  const link = await expectStatus(201, 'POST', '/links', {
    body: { app_id: app['id'], path: '/a', tags: ['t'], data: { a: 1 } },
  });
  await expectStatus(200, 'GET', `/links/${link['id']}`);
  const bulk = { links: [{ app_id: app['id'], path: '/b', campaign: 'bulk' }, { path: 1 }] };
  await expectStatus(200, 'POST', '/links/bulk', { body: bulk });
  const filter = { campaign: 'bulk' };
  await expectStatus(200, 'PATCH', '/links/bulk', { body: { filter, changes: { tags: ['b'] } } });
  await expectStatus(200, 'DELETE', '/links/bulk', { body: { ids: [link['app_id']] } });
  for (const status of [201, 200])
    await expectStatus(status, 'PUT', `/links/by-external-id/${app['id']}/e1`, { body: { path: '/e' } });
  await expectStatus(200, 'GET', '/links?sort=clicks&limit=2');
  await expectStatus(200, 'GET', `/links/availability?app_id=${app['id']}&short_code=free`);
  await expectStatus(200, 'GET', '/trust');
  await expectStatus(200, 'GET', `/links/lookup?app_id=${app['id']}&external_id=e1`);
  await expectStatus(200, 'GET', '/links?tag=t,b&cursor=&limit=1&include=clicks,installs');
  await expectStatus(200, 'GET', '/tags');
  await expectStatus(200, 'GET', '/orphan-visits?days=1');
  await expectStatus(200, 'GET', `/apps/${app['id']}/ad-postbacks?verified=true`);
  await expectStatus(200, 'PATCH', `/links/${link['id']}`, {
    body: { campaign: 'c', expires_at: '2030-01-01T00:00:00Z' },
  });
  await expectStatus(200, 'PUT', `/links/${link['id']}/password`, { body: { password: 'sesame' } });
  await expectStatus(200, 'DELETE', `/links/${link['id']}/password`);
  await expectStatus(200, 'POST', `/links/${link['id']}/explain`, { body: { user_agent: 'curl/8', installed: true } });
  for (const format of ['svg', 'png']) await expectStatus(200, 'GET', `/links/${link['id']}/qr?format=${format}`);
  await expectStatus(200, 'GET', `/links/${link['id']}/stats`);
  const figures = [
    ...['overview', 'timeseries?group_by=platform', 'top-links', 'top-campaigns', 'match-quality'],
    ...['breakdown?by=tag', 'page?previous=true', 'retention?group_by=platform', 'ltv', 'funnel?events=a'],
  ];
  const view = await expectStatus(201, 'POST', '/views', { body: { name: 'Contract', query: { interval: '7d' } } });
  for (const path of ['/views', `/views/${view['id']}`]) await expectStatus(200, 'GET', path);
  await expectStatus(200, 'PATCH', `/views/${view['id']}`, { body: { name: 'Renamed' } });
  await expectStatus(200, 'DELETE', `/views/${view['id']}`);
  await utmTemplatesSucceed(String(app['id']));
  const shared = await expectStatus(201, 'POST', '/shared-pages', { body: { link_id: link['id'] } });
  await expectStatus(200, 'GET', '/shared-pages?limit=1');
  await expectStatus(200, 'POST', '/shared-figures', { body: { token: shared['token'] }, credential: 'none' });
  await expectStatus(200, 'DELETE', `/shared-pages/${shared['id']}`);
  const cost = { campaign: 'c', day: '2026-11-20', amount: '1.5', currency: 'EUR' };
  await expectStatus(200, 'POST', '/costs', { body: { costs: [cost] } });
  await expectStatus(200, 'GET', '/costs?campaign=c');
  for (const figure of figures) await expectStatus(200, 'GET', `/analytics/${figure}`);
  await expectStatus(200, 'GET', '/matches?limit=1');
  await expectStatus(200, 'GET', '/live?seconds=0');
  for (const format of ['ndjson', 'csv'])
    await expectStatus(200, 'GET', `/analytics/export?kind=clicks&format=${format}`);
  await expectStatus(200, 'DELETE', `/links/${link['id']}`);
  await expectStatus(200, 'DELETE', `/apps/${app['id']}`);
});

test('every operation of the SDK succeeds as described, the second time too', async () => {
  const device = { platform: 'ios', device_id: 'd1' };
  const match = await expectStatus(200, 'POST', '/sdk/match', { body: device });
  await expectStatus(200, 'POST', '/sdk/match', { body: { platform: 'ios', url: 'https://{{host:0}}/{{code:0}}' } });
  await expectStatus(201, 'POST', '/sdk/install', { body: device });
  await expectStatus(200, 'POST', '/sdk/install', { body: device });
  const link = { path: '/sdk', external_id: 'x1', fallback_url: 'https://example.com/' };
  // It is stored some seconds after its answer.
  const target = `/matches/${match['match_id']}`;
  await expect.poll(async () => (await ask('GET', target)).status, { timeout: 30_000 }).toBe(200);
  await expectStatus(201, 'POST', '/sdk/links', { body: link });
  await expectStatus(200, 'POST', '/sdk/links', { body: link });
  const events = [{ name: 'a', device_id: 'd1', revenue: { amount: '1.50', currency: 'EUR' } }, { name: '' }];
  await expectStatus(202, 'POST', '/sdk/events', { body: { events } });
  await expectStatus(202, 'POST', '/sdk/events', { body: { name: 'bare', device_id: 'd1' } });
  await expectStatus(200, 'POST', '/sdk/segment/v1/t', { body: { event: 'a', userId: 'u1' } });
  await expectStatus(200, 'GET', '/sdk/segment/v1/projects/ours/settings');
  await expectStatus(200, 'POST', '/sdk/posthog/flags/', { body: { distinct_id: 'u1' } });
  await expectStatus(200, 'GET', '/sdk/posthog/array/ours/config');
});

test('every example of the description is accepted, or refused for what it names and not for its form', async () => {
  for (const operation of description.operations) {
    if (operation.bodyExample === undefined || operation.path.includes('{')) continue;
    const { status, body } = await ask(operation.method, operation.path, { body: operation.bodyExample });
    const { details } = (body['error'] ?? {}) as { details?: { errors?: unknown } };
    expect([200, 201, 202, 400, 401, 403, 404], nameOf(operation)).toContain(status);
    expect(details?.errors, `${nameOf(operation)} ${JSON.stringify(body)}`).toBeUndefined();
  }
});

test('every operation refuses the wrong caller as described', { tags: ['slow'] }, async () => {
  const foreignKey = await expectStatus(201, 'POST', '/keys', {
    body: { name: 'Foreign', scopes: ['links:read'] },
    credential: 'foreign',
  });
  for (const { method, path } of description.operations) {
    const foreign = path.startsWith('/apps') ? '{{foreign_app:0}}' : '{{foreign_link:0}}';
    const target = path.replace('{id}', path.startsWith('/keys') ? String(foreignKey['id']) : foreign);
    const body = method === 'GET' || method === 'DELETE' ? undefined : { name: 'x', path: '/x', app_id: undefined };
    const more = body === undefined ? {} : { body };
    // Only the dashboard's own pages may begin or end a session.
    if (path === '/session' && method !== 'GET') {
      const own = method === 'POST' ? { body: login } : {};
      for (const credential of ['none', 'junk', 'key', 'owner'] as const)
        await expectStatus(403, method, target, { ...own, credential });
      continue;
    }
    if (
      path.startsWith('/docs') ||
      ['/openapi.json', '/version', '/shared-figures'].includes(path) ||
      path.startsWith('/auth/')
    ) {
      await expectStatus(403, method, target.replace('{provider}', 'google').replace('{file}', 'x'), {
        ...more,
        credential: 'key',
      });
    } else if (path.startsWith('/sdk/')) {
      for (const credential of ['none', 'owner', 'old_key', 'false_key'] as const)
        await expectStatus(401, method, target, { ...more, credential });
    } else {
      for (const credential of ['none', 'junk', 'false_token'] as const)
        await expectStatus(401, method, target, { ...more, credential });
      for (const credential of ['key', 'key_bearer'] as const)
        await expectStatus(403, method, target, { ...more, credential });
      if (path.includes('{id}'))
        await expectStatus(403, method, target, {
          ...more,
          ...(path.startsWith('/links') && body ? { body: { path: '/x' } } : {}),
          ...(path === '/apps/{id}' && body ? { body: { name: 'x' } } : {}),
          ...(path === '/apps/{id}/rotate-key' ? { body: {} } : {}),
          ...(path === explain ? { body: { user_agent: 'x' } } : {}),
        });
    }
  }
});

test('every operation with an id answers 404 for one that is unknown or malformed, and a viewer may not write', async () => {
  for (const { method, path } of description.operations) {
    if (path.includes('{id}')) {
      const [known, kind] = path.startsWith('/apps')
        ? ['{{app:0}}', 'app']
        : ['{{link:0}}', path.startsWith('/keys') ? 'key' : 'lnk'];
      const patch = { body: path.startsWith('/apps') ? { name: 'x' } : { path: '/x' } };
      const body = method === 'PATCH' ? patch : path === explain ? { body: { user_agent: 'x' } } : {};
      for (const id of [`${kind}_01j9z3k4m5n6p7q8r9s0t1v2w3`, 'x', '%00', '%zz', '..%2f']) {
        await expectStatus(404, method, path.replace('{id}', id), body);
      }
      if (method !== 'GET' && path !== explain)
        await expectStatus(403, method, path.replace('{id}', known ?? ''), { ...body, credential: 'viewer' });
    }
  }
  await expectStatus(403, 'POST', '/apps', { body: { name: 'x' }, credential: 'viewer' });
  await expectStatus(403, 'POST', '/links', { body: { path: '/x', app_id: '{{app:0}}' }, credential: 'viewer' });
});

test('every operation with a body or a query refuses an invalid one and names the field', async () => {
  for (const operation of description.operations) {
    const { method, path, bodySchema, isBodyRequired, queryParameters } = operation;
    const target = path
      .replace('{id}', path.startsWith('/apps') ? '{{app:0}}' : '{{link:0}}')
      .replace('{provider}', 'google')
      .replace('{file}', 'x');
    const required = bodySchema?.['required'];
    if (bodySchema && !path.includes('/oauth/')) {
      for (const body of ['{', '[]', '"text"', ...(isBodyRequired ? [''] : [])])
        await expectStatus(400, method, target, { body });
      if (Array.isArray(required)) {
        const { error } = (await expectStatus(400, method, target, { body: {} })) as {
          error: { details: { field: string } };
        };
        expect(error.details.field, nameOf(operation)).not.toBe('');
      }
    }
    if (queryParameters.length > 0 || method === 'GET') {
      await expectStatus(400, method, `${target}?nobody_knows_this=1`);
    }
  }
});

test('every class of requests ends in a 429 that says when to retry', async () => {
  const classes: [string, string, Ask][] = [
    ['POST', '/sdk/match', { body: { platform: 'ios' } }],
    ['POST', '/sdk/events', { body: { name: 'a', device_id: 'd' } }],
    ['POST', '/sdk/links', { body: { path: '/x' } }],
    ['POST', '/links', { body: { path: '/x', app_id: '{{app:0}}' } }],
    ['POST', '/auth/logout', { body: { refresh_token: 'x' } }],
    ['GET', '/me', {}],
  ];
  for (const [method, target, more] of classes) {
    let status = 0;
    // Several at once: a slow machine sends fewer than the limit in a minute one by one.
    for (let sent = 0; status !== 429 && sent < REQUESTS_MAX; sent += AT_ONCE) {
      const replies = await Promise.all(Array.from({ length: AT_ONCE }, () => ask(method, target, more)));
      status = replies.some((reply) => reply.status === 429) ? 429 : (replies[0]?.status ?? 0);
    }
    expect(status, `${method} ${target}`).toBe(429);
  }
});

test('every documented success was seen', () => {
  const missing = description.operations.flatMap((operation) =>
    [...operation.answers.keys()]
      .filter((status) => status < 300 && !seen.get(nameOf(operation))?.has(status))
      .map((status) => `${nameOf(operation)} ${status}`),
  );
  // No provider is configured here.
  expect(missing.filter((one) => !one.includes('/oauth/'))).toEqual([]);
});
