/** Limits of an organization hold for concurrent requests, and for server keys that see only part of it. */
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { type ApiForTest, apiForTest } from '#api/testing/running-api.ts';

let api: ApiForTest;

beforeAll(async () => {
  api = await apiForTest();
});
afterEach(() => expect(api.failures.splice(0)).toEqual([]));
afterAll(() => api.stop());

interface Limited {
  readonly path: string;
  readonly table: string;
  readonly max: number;
  readonly body: (n: number, appId: string) => object;
  /** A key with this scope, limited to one of two apps, also creates objects. */
  readonly scope?: string;
}

const hook = { url: 'https://hooks.example.com/', events: ['install.attributed'] };
const limited: readonly Limited[] = [
  { path: '/keys', table: 'server_keys', max: 100, body: () => ({ name: 'k', scopes: ['links:read'] }) },
  {
    path: '/invitations',
    table: 'invitations',
    max: 100,
    body: (n) => ({ email: `new${n}@x.example`, role: 'viewer' }),
  },
  { path: '/shared-pages', table: 'shared_pages', max: 200, body: () => ({ campaign: 'c' }) },
  { path: '/views', table: 'saved_views', max: 500, body: () => ({ name: 'v', query: {} }) },
  {
    path: '/webhooks',
    table: 'webhook_endpoints',
    max: 50,
    body: (_, app) => ({ ...hook, app_ids: [app] }),
    scope: 'webhooks',
  },
  {
    path: '/postbacks',
    table: 'webhook_endpoints',
    max: 50,
    body: (_, app) => ({ ...hook, app_ids: [app] }),
    scope: 'webhooks',
  },
  { path: '/imports', table: 'imports', max: 10, body: (_, app) => ({ app_id: app, source: 'csv' }), scope: 'import' },
];

test.each(limited)(
  'an organization has at most $max of $path, even with concurrent requests of several callers',
  async (one) => {
    const { path, table, max, body, scope } = one;
    const member = await api.member();
    const [app, hidden] = await Promise.all(
      ['a', 'b'].map(async (name): Promise<string> => (await member.call('POST', '/apps', { name })).body.id),
    );
    if (app === undefined || hidden === undefined) throw new Error('there are no apps');
    // A key that is limited to the other app cannot see these.
    expect((await member.call('POST', path, body(0, hidden))).status).toBe(201);
    await api.db.execute(
      `INSERT INTO ${table} SELECT (jsonb_populate_record(t, jsonb_build_object('id', t.id || n, 'email', n || '@x.example',
        'key_hash', sha256((t.id || n)::bytea), 'token_hash', sha256((t.id || n)::bytea)))).*
       FROM ${table} t, generate_series(2, $2) AS n WHERE t.organization_id = $1`,
      [member.organization_id, max - 5],
    );
    const key = scope && (await member.call('POST', '/keys', { name: 'k', scopes: [scope], app_ids: [app] })).body.key;
    const replies = await Promise.all(
      Array.from({ length: 20 }, (_, n) =>
        api.call(key && n % 2 === 0 ? key : member.token, 'POST', path, body(n + 1, app)),
      ),
    );
    const refused = replies.filter(({ status }) => status !== 201);
    expect([replies.length - refused.length, refused.length]).toEqual([5, 15]);
    for (const { body } of refused)
      expect(body.error.message).toMatch(
        new RegExp(`^body: the organization has ${max} .*: (?:delete|withdraw) one first$`),
      );
  },
);
