import { mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { readApps, readLinks } from '#common/links/link-snapshot.ts';
import { Postgres } from '#common/stores/postgres.ts';
import { allApps, Tenancy } from '#common/stores/tenancy.ts';
import { ExpiredClaims } from '#ingest/attribution/expired-claims.ts';
import { migratePostgres } from '#pg-migrations/migrate.ts';
import { grantProcessRoles, type ProcessRoleName, processRoles } from '#pg-migrations/role-rights.ts';
import { ownPostgresForTest, postgresForTest, type TestPostgres } from '#testing/servers.ts';
import { ensureDatabaseRoles } from './database-roles.ts';

let database: TestPostgres;
let owner: Postgres;
let as: Record<ProcessRoleName, Postgres>;

beforeAll(async () => {
  database = await postgresForTest();
  owner = new Postgres({ url: database.url, name: 'owner', connectionsMax: 1 });
  await owner.execute("INSERT INTO organizations (id, name) VALUES ('org_1', 'One'), ('org_2', 'Two')");
  await owner.execute("INSERT INTO users (id, email, password_hash) VALUES ('usr_1', 'ada@example.com', 'hush')");
  await owner.execute("INSERT INTO memberships (user_id, organization_id, role) VALUES ('usr_1', 'org_1', 'viewer')");
  for (const n of [1, 2]) {
    await owner.execute(
      `INSERT INTO apps (id, organization_id, name, host, fallback_url, api_key_ciphertext, api_key_hash, api_key_preview, settings, host_verified_at, created_at, updated_at)
       VALUES ('app_${n}', 'org_${n}', 'App', '${n}.localhost', 'https://example.com/', 'k1.hush', 'hush${n}', 'lk_…', '{}', now(), now(), now())`,
    );
    await owner.execute(
      `INSERT INTO links (id, organization_id, app_id, short_code, path, source, created_at, updated_at)
       VALUES ('lnk_${n}', 'org_${n}', 'app_${n}', 'summer', '/summer', 'dashboard', now(), now())`,
    );
  }
  const connect = (role: ProcessRoleName) => new Postgres({ url: database.urlAs(role), name: role, connectionsMax: 1 });
  as = {
    signpost_api_process: connect('signpost_api_process'),
    signpost_gateway: connect('signpost_gateway'),
    signpost_ingest: connect('signpost_ingest'),
    signpost_redirector: connect('signpost_redirector'),
    signpost_webhooks: connect('signpost_webhooks'),
  };
});

afterAll(async () => {
  await Promise.all([owner, ...Object.values(as)].map((db) => db.close()));
  await database.stop();
});

test('redirectors and the gateway find links and apps by their URL', async () => {
  for (const role of ['signpost_redirector', 'signpost_gateway'] as const) {
    expect([...(await readLinks(as[role], ['1.localhost/summer'])).keys()]).toEqual(['1.localhost/summer']);
    expect([...(await readApps(as[role], ['1.localhost'])).keys()]).toEqual(['1.localhost']);
  }
});

const everybody = [
  'SELECT * FROM apps',
  'SELECT api_key_ciphertext FROM apps',
  "UPDATE users SET password_hash = 'mine'",
  "UPDATE memberships SET role = 'owner'",
  'DELETE FROM memberships',
  'DELETE FROM users',
  "UPDATE links SET fallback_url = 'https://evil.example/'",
  'DELETE FROM links',
  "UPDATE apps SET host = 'evil.example'",
  'DELETE FROM apps',
  'INSERT INTO ingest.erasure (organization_id, until_ms, salt, expires_at) VALUES ($$org_1$$, 0, $$$$, now())',
  'SELECT ids FROM ingest.unfinished_erasure',
  'UPDATE ingest.numbering SET since_ms = 0',
  'INSERT INTO pg_migrations (name, run_on) VALUES ($$x$$, now())',
  'CREATE TABLE mine (a int)',
  'CREATE FUNCTION mine() RETURNS int LANGUAGE sql AS $$SELECT 1$$',
  'ALTER TABLE links DISABLE ROW LEVEL SECURITY',
  'DROP POLICY tenant ON links',
  'TRUNCATE links',
  'CREATE ROLE mine',
  'SET ROLE signpost',
  "COPY links TO '/tmp/links'",
  "COPY (SELECT 1) TO PROGRAM 'true'",
  "SELECT pg_read_file('/etc/passwd')",
  'UPDATE click_shares SET used = 0',
  'DELETE FROM click_holders',
];

test('redirectors take shares of clicks only through functions', async () => {
  await owner.execute(`UPDATE links SET max_clicks = 9 WHERE id = 'lnk_1'`);
  const redirector = as.signpost_redirector;
  const report = `SELECT * FROM signpost_report_clicks('one', 'machine', 'redirector-0', false, $1, $2, $3, $4)`;
  expect(await redirector.query(report, [[], [], [], []])).toEqual([]);
  expect(await redirector.query(`SELECT * FROM signpost_grant_clicks('one', 'lnk_1', 0, 0, 0, 200, 1)`)).toEqual([
    { is_granted: true, granted: 4, returned: 0, used: 0, open_elsewhere: 0 },
  ]);
  expect(await redirector.query(report, [['lnk_1'], [4], [1], [3]])).toEqual([]);
  const tenancy = new Tenancy(as.signpost_gateway);
  const seen = (organization: string) =>
    tenancy.within(allApps([organization]), (tenant) =>
      tenant.query('SELECT granted, returned, used FROM click_shares WHERE $1::text[] IS NOT NULL'),
    );
  expect([await seen('org_1'), await seen('org_2')]).toEqual([[{ granted: 4, returned: 1, used: 3 }], []]);
  // The calls of redirectors of the previous version.
  const enter = `SELECT signpost_enter_clicks('one', 'machine', 'redirector-0', '', false) AS latest`;
  expect(await redirector.query(enter)).toEqual([{ latest: 'any' }]);
  await redirector.query(`SELECT signpost_report_clicks('one', '{lnk_1}', '{4}', '{1}', '{3}')`);
  expect(await redirector.query(`SELECT * FROM signpost_take_clicks('one', 'lnk_1', 4, 1, 3, 200, 0, 1)`)).toEqual([
    { outcome: 'granted', granted: 7, returned: 1, open_elsewhere: 0 },
  ]);
  for (const sql of ['SELECT * FROM click_shares', 'SELECT * FROM click_holders'])
    await expect(redirector.query(sql)).rejects.toThrow(/permission denied/);
});

const shares = [
  "SELECT signpost_enter_clicks('mine', 'm', 'i', '', false)",
  "SELECT signpost_report_clicks('mine', '{lnk_1}', '{9}', '{0}', '{9}')",
  "SELECT signpost_report_clicks('mine', 'm', 'i', false, '{lnk_1}', '{9}', '{0}', '{9}')",
  "SELECT signpost_grant_clicks('mine', 'lnk_1', 0, 0, 0, 9, 9)",
  "SELECT signpost_take_clicks('mine', 'lnk_1', 0, 0, 0, 9, 0, 9)",
];

const accounts = [
  "SELECT signpost_prove_address('usr_1')",
  "SELECT signpost_note_change('org_1', 'usr_1', '', '', NULL, '{}', '', '')",
  'SELECT * FROM invitations',
  'SELECT * FROM audit_log',
  'SELECT * FROM mails',
  'SELECT * FROM password_resets',
  "SELECT signpost_reset_password('', now(), '')",
  "SELECT signpost_set_role('usr_1', 'org_1', 'usr_1', 'owner')",
  'SELECT password_hash FROM users',
  'SELECT * FROM refresh_tokens',
  'SELECT * FROM browser_sessions',
  'SELECT * FROM memberships',
  'SELECT * FROM user_totp',
  'SELECT * FROM recovery_codes',
  'SELECT * FROM oauth_states',
  'SELECT * FROM organizations',
  "INSERT INTO memberships (user_id, organization_id, role) VALUES ('usr_1', 'org_2', 'owner')",
  'SET ROLE signpost_api',
  'SELECT * FROM host_checks',
  'DELETE FROM outbox',
];
const records = ['SELECT * FROM ingest.batch', 'SELECT * FROM ingest.visitor_salt', 'DELETE FROM ingest.mark'];
const installs = ['SELECT * FROM install_answers', 'SELECT * FROM install_names', 'SELECT * FROM claims'];

const webhooks = [
  'SELECT secret_ciphertext FROM webhook_endpoints',
  'SELECT * FROM webhook_messages',
  'SELECT * FROM webhook_batches',
  'DELETE FROM webhook_attempts',
];

const refused: Record<ProcessRoleName, readonly string[]> = {
  signpost_redirector: [...everybody, ...accounts, ...records, ...installs, ...webhooks],
  signpost_webhooks: [
    ...everybody,
    ...shares,
    ...accounts,
    ...records,
    ...installs,
    'SELECT * FROM links',
    "UPDATE webhook_endpoints SET url = 'https://evil.example/'",
    'INSERT INTO webhook_endpoints DEFAULT VALUES',
    'DELETE FROM webhook_endpoints',
  ],
  signpost_gateway: [
    ...everybody,
    ...shares,
    ...accounts,
    ...records,
    ...webhooks,
    'SELECT * FROM ingest.progress',
    'UPDATE claims SET device = $$$$',
  ],
  signpost_ingest: [
    ...everybody,
    ...shares,
    ...accounts,
    'SELECT * FROM links',
    'SELECT name FROM apps',
    ...installs.slice(0, 2),
    ...webhooks,
    ...['checkpoint', 'last_batch', 'late_cursor', 'lease', 'mark', 'progress', 'stray', 'erasure', 'revision'].map(
      (table) => `DELETE FROM ingest.${table}`,
    ),
  ],
  signpost_api_process: [
    ...everybody,
    ...records,
    ...installs,
    ...webhooks,
    'SELECT * FROM links',
    'SELECT api_key_hash FROM apps',
    "UPDATE users SET email = 'mine@example.com'",
    "INSERT INTO users (id, email, password_hash) VALUES ('usr_2', 'eve@example.com', 'mine')",
    'UPDATE organizations SET requires_totp = false',
    "UPDATE organizations SET name = 'mine'",
    'UPDATE audit_log SET actor_id = $$$$',
    'INSERT INTO audit_log (organization_id) VALUES ($$org_1$$)',
    'UPDATE users SET unverified_since = NULL',
    'DELETE FROM audit_log',
    'SELECT signpost_trim_audit_log(1)',
    'SET ROLE signpost_gateway',
  ],
};

test.each(processRoles.flatMap((role) => refused[role].map((sql) => [role, sql] as const)))(
  '%s cannot: %s',
  async (role, sql) => {
    await expect(as[role].execute(sql)).rejects.toThrow(/permission denied|must be|Only roles/i);
  },
);

test('in a transaction of tenants, no change of another organization can be noted', async () => {
  const tenancy = new Tenancy(as.signpost_api_process);
  const note = (organization: string | null) =>
    tenancy.within(allApps(['org_1']), (tenant) =>
      tenant.query(
        `SELECT signpost_note_change($2, 'usr_1', 'deleteLink', '', NULL, '{}', '', '') WHERE $1::text[] IS NOT NULL`,
        [organization],
      ),
    );
  expect(await note('org_1')).toHaveLength(1);
  for (const other of ['org_2', null]) await expect(note(other)).rejects.toThrow(/cannot be noted/);
});

test('within its transaction the gateway sees and adds only links of one tenant', async () => {
  const tenancy = new Tenancy(as.signpost_gateway);
  const add = (organization: string) =>
    tenancy.within(allApps(['org_1']), (tenant) =>
      tenant.query(
        `INSERT INTO links (id, organization_id, app_id, short_code, path, source, created_at, updated_at)
         SELECT 'lnk_of_' || $2, $2, 'app_1', 'code-' || $2, '/', 'sdk', now(), now() WHERE $1::text[] IS NOT NULL RETURNING id`,
        [organization],
      ),
    );
  expect(await add('org_1')).toHaveLength(1);
  await expect(add('org_2')).rejects.toThrow(/row-level security/);
  const all = 'SELECT DISTINCT organization_id FROM links WHERE $1::text[] IS NOT NULL';
  expect(await tenancy.within(allApps(['org_2']), (tenant) => tenant.query(all))).toEqual([
    { organization_id: 'org_2' },
  ]);
  // Outside a transaction, a key is looked up among all tenants.
  expect(await as.signpost_gateway.query("SELECT id FROM apps WHERE api_key_hash = 'hush2'")).toEqual([
    { id: 'app_2' },
  ]);
  await expect(
    as.signpost_gateway.execute(
      `INSERT INTO links (id, organization_id, app_id, short_code, path, source, created_at, updated_at)
       VALUES ('lnk_x', 'org_1', 'app_1', 'xyz', '/', 'sdk', now(), now())`,
    ),
  ).rejects.toThrow(/row-level security/);
});

test("within a tenant's transaction the API sees only that tenant's rows", async () => {
  const tenancy = new Tenancy(as.signpost_api_process);
  const all = 'SELECT id FROM apps WHERE $1::text[] IS NOT NULL';
  expect(await tenancy.within(allApps(['org_2']), (tenant) => tenant.query(all))).toEqual([{ id: 'app_2' }]);
});

test('ingest deletes expired claims', async () => {
  const claim = 'INSERT INTO claims (click_id, app_id, device, match_id, answer, expires_at)';
  await as.signpost_gateway.execute(`${claim} VALUES ('clk_1', 'app_1', '', 'm', '{}', now() - interval '1 day')`);
  expect(await new ExpiredClaims(as.signpost_ingest).delete()).toBe(1);
});

test('a privilege that a role no longer has is revoked by the next migration', async () => {
  await owner.execute('GRANT ALL ON users TO signpost_redirector');
  await owner.execute('GRANT SELECT (password_hash) ON users TO signpost_redirector');
  await Promise.all([migratePostgres({ url: database.url }), migratePostgres({ url: database.url })]);
  await expect(as.signpost_redirector.query('SELECT password_hash FROM users')).rejects.toThrow(/permission denied/);
  expect((await readLinks(as.signpost_redirector, ['1.localhost/summer'])).size).toBe(1);
});

test('npm start creates missing roles, each with its own password that only the file owner can read', async () => {
  const server = await ownPostgresForTest();
  const folder = mkdtempSync(join(tmpdir(), 'signpost-roles-'));
  try {
    const urls = await ensureDatabaseRoles(server.url, folder);
    expect(await ensureDatabaseRoles(server.url, folder)).toEqual(urls);
    await migratePostgres({ url: server.url });
    expect(new Set(Object.values(urls).map((url) => new URL(url).password)).size).toBe(5);
    for (const [process, url] of Object.entries(urls)) {
      expect(statSync(join(folder, `password-${process}`)).mode & 0o777).toBe(0o600);
      const db = new Postgres({ url, name: 'test', connectionsMax: 1 });
      await expect(db.execute("UPDATE users SET password_hash = 'mine'")).rejects.toThrow(/permission denied/);
      await db.close();
    }
  } finally {
    await server.stop();
    rmSync(folder, { recursive: true });
  }
});

test('without the roles, and with an owner that may not create any, everything is migrated and works', {
  tags: ['slow'],
}, async () => {
  const server = await ownPostgresForTest();
  const admin = new Postgres({ url: server.url, name: 'test', connectionsMax: 1 });
  try {
    await admin.execute("CREATE ROLE plain LOGIN PASSWORD 'plain'");
    await admin.execute('CREATE ROLE signpost_api NOLOGIN NOINHERIT');
    await admin.execute('GRANT signpost_api TO plain');
    await admin.execute('CREATE DATABASE plain OWNER plain');
    const url = new URL(server.url);
    [url.username, url.password, url.pathname] = ['plain', 'plain', '/plain'];
    const trigram = new Postgres({ url: server.url.replace(/\/postgres$/, '/plain'), name: 'test', connectionsMax: 1 });
    await trigram.execute('CREATE EXTENSION IF NOT EXISTS pg_trgm');
    await trigram.close();
    await migratePostgres({ url: url.href });
    const db = new Postgres({ url: url.href, name: 'test', connectionsMax: 1 });
    const within = new Tenancy(db).within(allApps(['org_1']), (tenant) =>
      tenant.query('SELECT id FROM links WHERE id = ANY ($1)'),
    );
    expect(await within).toEqual([]);
    await db.close();
  } finally {
    await admin.close();
    await server.stop();
  }
});

test('no process can run code as the owner of the schema', async () => {
  const open = await owner.query<{ name: string; fault: string }>(`
    SELECT p.oid::regprocedure::text AS name, fault
      FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace AND n.nspname IN ('public', 'ingest')
      CROSS JOIN LATERAL (VALUES
        ('looks up names in the temporary schema of its caller first', NOT coalesce('search_path=public, pg_temp' = ANY (p.proconfig), false)),
        ('may be called by everyone', has_function_privilege('public', p.oid, 'EXECUTE'))) AS f (fault, has_fault)
     WHERE p.prosecdef AND has_fault ORDER BY 1, 2`);
  expect(open).toEqual([]);
  await grantProcessRoles(database.url);
  for (const db of Object.values(as))
    await expect(db.execute('CREATE TEMP TABLE links (id text)')).rejects.toThrow('permission denied');
});
