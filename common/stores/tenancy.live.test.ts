import { afterAll, beforeAll, expect, test } from 'vitest';
import { newId } from '#common/ids.ts';
import { postgresForTest, type TestDatabase } from '#testing/servers.ts';
import { Postgres } from './postgres.ts';
import { allApps, Tenancy } from './tenancy.ts';

let database: TestDatabase;
let db: Postgres;
let tenancy: Tenancy;
const mine = newId('org', 1);
const foreign = newId('org', 2);

beforeAll(async () => {
  database = await postgresForTest();
  db = new Postgres({ url: database.url, name: 'tenancy-test', connectionsMax: 2 });
  tenancy = new Tenancy(db);
  for (const [at, organization] of [mine, foreign].entries()) {
    await db.execute('INSERT INTO organizations (id, name) VALUES ($1, $1)', [organization]);
    await db.execute(
      `INSERT INTO apps (id, organization_id, name, host, settings, api_key_ciphertext, api_key_hash, api_key_preview, created_at, updated_at)
       VALUES ($1, $2, 'a', $1, '{}', '', $3, '', now(), now())`,
      [`app_${at}`, organization, Buffer.from([at])],
    );
    await db.execute(
      `INSERT INTO links (id, organization_id, app_id, short_code, path, source, tags, created_at, updated_at)
       VALUES ($1, $2, $3, 'code', '/', 'dashboard', '{t}', now(), now())`,
      [`lnk_${at}`, organization, `app_${at}`],
    );
  }
});
afterAll(async () => {
  await db.close();
  await database.stop();
});

test.each(['apps', 'links', 'link_counts', 'link_tags'])(
  'a query on %s that forgets its organization still sees only the tenant’s rows',
  async (table) => {
    const sql = `SELECT organization_id, $1::text[] FROM ${table}`;
    const rows = await tenancy.within(allApps([mine]), (tenant) => tenant.query<{ organization_id: string }>(sql));
    expect(rows.map((row) => row.organization_id)).toEqual([mine]);
    expect(await tenancy.within(allApps([]), (tenant) => tenant.query(sql))).toEqual([]);
    expect(await tenancy.within(allApps([mine, foreign]), (tenant) => tenant.query(sql))).toHaveLength(2);
  },
);

test.each(['apps', 'links', 'link_counts', 'link_tags'])(
  'a query on %s that forgets the apps of a server key sees only their rows',
  async (table) => {
    const id = table === 'apps' ? 'id' : 'app_id';
    const sql = `SELECT ${id} AS app_id FROM ${table} WHERE organization_id = ANY ($1)`;
    const within = (appIds: readonly string[] | null) =>
      tenancy.within({ organizationIds: [mine, foreign], appIds }, (tenant) => tenant.query(sql));
    expect(await within(null)).toHaveLength(2);
    expect(await within(['app_1'])).toEqual([{ app_id: 'app_1' }]);
    expect(await within([])).toEqual([]);
  },
);

test('a write that forgets its organization neither changes nor creates other tenants’ rows', async () => {
  const changed = await tenancy.within(allApps([mine]), (tenant) =>
    tenant.query<{ id: string }>(`UPDATE links SET title = 'x' WHERE $1::text[] IS NOT NULL RETURNING id`),
  );
  expect(changed.map((row) => row.id)).toEqual(['lnk_0']);
  const move = `UPDATE links SET organization_id = $2 WHERE organization_id = ANY ($1)`;
  await expect(tenancy.within(allApps([mine]), (tenant) => tenant.query(move, [foreign]))).rejects.toThrow(
    'row-level security',
  );
  const plant = `INSERT INTO links (id, organization_id, app_id, short_code, path, source, created_at, updated_at)
    SELECT 'lnk_x', $2, 'app_1', 'planted', '/', 'dashboard', now(), now() WHERE $1::text[] IS NOT NULL`;
  await expect(tenancy.within(allApps([mine]), (tenant) => tenant.query(plant, [foreign]))).rejects.toThrow(
    'row-level security',
  );
});

test.each(['users', 'memberships', 'refresh_tokens', 'browser_sessions', 'oauth_states', 'organizations'])(
  'the role of the API has no access to %s',
  async (table) => {
    const attempt = tenancy.within(allApps([mine]), (tenant) =>
      tenant.query(`SELECT count(*) FROM ${table} WHERE $1::text[] IS NOT NULL`),
    );
    await expect(attempt).rejects.toThrow('permission denied');
  },
);

test('rows cannot be deleted, only marked as deleted', async () => {
  const attempt = tenancy.within(allApps([mine]), (tenant) =>
    tenant.query('DELETE FROM links WHERE organization_id = ANY ($1)'),
  );
  await expect(attempt).rejects.toThrow('permission denied');
});

test('a pooled connection carries neither role nor organizations to its next user, even after an error', async () => {
  await tenancy.within(allApps([mine]), (tenant) => tenant.query('SELECT $1::text[]'));
  await expect(tenancy.within(allApps([mine]), () => Promise.reject(new Error('on the way')))).rejects.toThrow(
    'on the way',
  );
  const one = `SELECT current_user <> 'signpost_api' AS is_owner, current_setting('signpost.organization_ids', true) AS ids`;
  for (let n = 0; n < 4; n++) {
    const [row] = await db.query<{ is_owner: boolean; ids: string | null }>(one);
    expect([row?.is_owner, row?.ids || null]).toEqual([true, null]);
  }
});

test('the owner of an entity can be looked up without seeing the entity', async () => {
  const answers = await tenancy.within(allApps([mine]), async (tenant) => [
    await tenant.ownerOf('app', 'app_1'),
    await tenant.ownerOf('link', 'lnk_1'),
    await tenant.ownerOf('link', 'lnk_0'),
    await tenant.ownerOf('app', 'app_9'),
  ]);
  expect(answers).toEqual([foreign, foreign, mine, null]);
});

test('a statement without its organizations is a programming error and is not sent', async () => {
  const attempt = tenancy.within(allApps([mine]), (tenant) => tenant.query('SELECT * FROM links'));
  await expect(attempt).rejects.toThrow('must use $1');
});
