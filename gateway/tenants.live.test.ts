/** The operations of SDKs with the key of one tenant and what belongs to another. api/tenants.live.test.ts has all others. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { newId } from '#common/ids.ts';
import { packageRoot } from '#common/process/paths.ts';
import { SdkEdge } from './testing/sdk-edge.ts';

const word = 'of-tenant-a';
let edge: SdkEdge;
let a: { app_id: string; key: string; host: string; link_id: string; install_id: string; match_id: string };
let b: { app_id: string; key: string; host: string };

beforeAll(async () => {
  edge = await SdkEdge.start();
  const app = await edge.app({}, ['example.com']);
  const fields = { title: word, campaign: word, external_id: 'known', data: { word }, path: `/${word}` };
  const link_id = await edge.link(app.app_id, 'summer-of-2026', fields);
  const install_id = 'install-of-a';
  const installed = await edge.post('/sdk/install', app.key, { platform: 'ios', install_id, device_id: word });
  expect(installed.status).toBe(201);
  const match_id = (await edge.post('/sdk/match', app.key, { platform: 'ios' })).body.match_id;
  a = { ...app, link_id, install_id, match_id };
  b = await edge.app({}, ['example.com']);
  const other = newId('org', Date.now());
  await edge.db.execute(`INSERT INTO organizations (id, name) VALUES ($1, 'B')`, [other]);
  await edge.db.execute('UPDATE apps SET organization_id = $2 WHERE id = $1', [b.app_id, other]);
});
afterAll(() => edge.stop());

const link = () => `https://${a.host}/summer-of-2026`;
/** Everything of A that a device may name. */
const named = () => ({
  ...{ link_id: a.link_id, click_id: newId('clk', Date.now()), install_id: a.install_id, device_id: word },
});

const operations: Readonly<Record<string, () => readonly [path: string, ...bodies: readonly object[]]>> = {
  matchDevice: () => [
    '/sdk/match',
    { platform: 'ios', url: link() },
    { platform: 'ios', click_id: named().click_id },
    { platform: 'ios', device_id: word, install_id: a.install_id },
  ],
  trackInstall: () => [
    '/sdk/install',
    { platform: 'ios', install_id: a.install_id, match_id: a.match_id },
    { platform: 'ios', install_id: 'install-of-b', url: link() },
  ],
  trackEvents: () => ['/sdk/events', { name: 'opened', ...named() }],
  createSdkLink: () => [
    '/sdk/links',
    { path: '/x', external_id: 'known', app_id: a.app_id },
    { path: '/y', external_id: 'known' },
    { path: '/z', short_code: 'summer-of-2026' },
  ],
  trackSegmentBatch: () => [
    '/sdk/segment/v1/batch',
    { batch: [{ type: 'track', event: 'opened', userId: word, messageId: 'm1', properties: named() }] },
  ],
  trackSegmentCall: () => [
    '/sdk/segment/v1/t',
    { event: 'opened', userId: word, messageId: 'm2', properties: named() },
  ],
  getSegmentSettings: () => [`/sdk/segment/v1/projects/${a.key}/settings`],
  trackPostHogBatch: () => [
    '/sdk/posthog/batch/',
    { batch: [{ event: 'opened', properties: { distinct_id: word, ...named() } }] },
  ],
  getPostHogFlags: () => ['/sdk/posthog/flags/', { distinct_id: word }],
  getPostHogConfig: () => [`/sdk/posthog/array/${a.key}/config`],
};

/** All rows of A in every table that names its organization. */
async function rowsOfA(): Promise<string[]> {
  const tables = await edge.db.query<{ name: string }>(
    `SELECT c.table_name AS name FROM information_schema.columns c JOIN pg_tables t ON t.tablename = c.table_name AND t.schemaname = 'public'
      WHERE c.table_schema = 'public' AND c.column_name = 'organization_id' AND c.table_name <> 'outbox' ORDER BY 1`,
  );
  const sql = tables.map(({ name }) => `SELECT '${name} ' || t::text AS row FROM ${name} t WHERE organization_id = $1`);
  const rows = await edge.db.query<{ row: string }>(sql.join(' UNION ALL '), [edge.organization_id]);
  return rows.map(({ row }) => row).sort();
}

test('each operation of SDKs is in this list', () => {
  const { paths } = JSON.parse(readFileSync(join(packageRoot(), 'docs', 'openapi.json'), 'utf8')) as {
    paths: Record<string, Record<string, { operationId: string }>>;
  };
  const described = Object.entries(paths)
    .filter(([path]) => path.startsWith('/sdk/'))
    .flatMap(([, methods]) => Object.values(methods).map(({ operationId }) => operationId));
  expect(Object.keys(operations).sort()).toEqual(described.sort());
});

test('with a key of another tenant, or none, no answer shows anything of an app and none of its rows changes', async () => {
  const wrong: string[] = [];
  for (const key of ['', 'garbage', b.key]) {
    const before = await rowsOfA();
    for (const [operation, requests] of Object.entries(operations)) {
      const [path, ...bodies] = requests();
      // Their path has the key.
      const replies = bodies.length === 0 ? [] : await Promise.all(bodies.map((body) => edge.post(path, key, body)));
      for (const [at, { status, body }] of replies.entries()) {
        const text = JSON.stringify(body);
        const sent = JSON.stringify(bodies[at]);
        const shown = [word, a.link_id, a.app_id, a.match_id].find((one) => text.includes(one) && !sent.includes(one));
        if (status >= 500 || shown !== undefined || (key !== b.key && status < 400))
          wrong.push(`${operation} with ${key || 'no key'}: ${status} ${text}`);
      }
    }
    expect(await rowsOfA()).toEqual(before);
  }
  expect(wrong).toEqual([]);
  expect(edge.failures).toEqual([]);
});
