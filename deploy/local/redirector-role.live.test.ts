import { mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { readApps, readLinks } from '#common/link-snapshot.ts';
import { Postgres } from '#common/postgres.ts';
import { ensureRedirectorRole } from './redirector-role.ts';
import { postgresForTest, type TestDatabase } from './test-servers.ts';

const folder = mkdtempSync(join(tmpdir(), 'signpost-redirector-role-'));
let database: TestDatabase;
let owner: Postgres;
let redirector: Postgres;

beforeAll(async () => {
  database = await postgresForTest();
  owner = new Postgres({ url: database.url, name: 'owner', connectionsMax: 1 });
  await owner.execute("INSERT INTO organizations (id, name) VALUES ('org_1', 'One')");
  await owner.execute(
    `INSERT INTO apps (id, organization_id, name, host, fallback_url, api_key_ciphertext, api_key_hash, api_key_preview, settings, host_verified_at, created_at, updated_at)
     VALUES ('app_1', 'org_1', 'One', 'one.localhost', 'https://example.com/', 'k1.hush', 'hush', 'lk_…', '{}', now(), now(), now())`,
  );
  await owner.execute(
    `INSERT INTO links (id, organization_id, app_id, short_code, path, source, created_at, updated_at)
     VALUES ('lnk_1', 'org_1', 'app_1', 'summer', '/summer', 'dashboard', now(), now())`,
  );
  await ensureRedirectorRole(database.url, folder);
  redirector = new Postgres({ url: await ensureRedirectorRole(database.url, folder), name: 'redirector' });
});

afterAll(async () => {
  await redirector.close();
  await owner.execute('DROP OWNED BY signpost_redirector');
  await owner.close();
  await database.stop();
  rmSync(folder, { recursive: true });
});

test('a redirector finds links and apps with its own user', async () => {
  expect([...(await readLinks(redirector, ['one.localhost/summer'])).keys()]).toEqual(['one.localhost/summer']);
  expect([...(await readApps(redirector, ['one.localhost'])).keys()]).toEqual(['one.localhost']);
});

test.each([
  'SELECT * FROM users',
  'SELECT * FROM apps',
  'SELECT api_key_ciphertext FROM apps',
  'SELECT api_key_hash FROM apps',
  'SELECT * FROM refresh_tokens',
  'SELECT * FROM memberships',
  'SELECT * FROM install_answers',
  'SELECT * FROM ingest.batch',
  "UPDATE links SET fallback_url = 'https://evil.example/'",
  'DELETE FROM links',
  "UPDATE apps SET host = 'evil.example'",
  'CREATE TABLE mine (a int)',
  'SET ROLE signpost_api',
  "COPY links TO '/tmp/links'",
  "SELECT pg_read_file('/etc/passwd')",
])('and can do nothing else: %s', async (sql) => {
  await expect(redirector.execute(sql)).rejects.toThrow(/permission denied|must be|Only roles/i);
});

test('its password is readable by its owner alone', () => {
  expect(statSync(join(folder, 'password-redirector')).mode & 0o777).toBe(0o600);
});
