import { afterAll, beforeAll, expect, test } from 'vitest';
import { ApiKeys, newApiKey } from '#common/api-key.ts';
import { newSecretKey, parseSecretKeys } from '#common/encryption.ts';
import { Postgres } from '#common/stores/postgres.ts';
import { postgresForTest, type TestDatabase } from '#testing/servers.ts';
import { checkSecret } from './secret-check.ts';

let database: TestDatabase;
let db: Postgres;
const [first, second] = [newSecretKey('k1'), newSecretKey('k2')];
const notes: string[] = [];

function check(secretKey: string, onLost = 'refuse'): Promise<void> {
  const note = (line: string) => notes.push(line);
  return checkSecret({ db, secretKey, source: 'SECRET_KEY', onLost, note });
}

async function keepApp(id: string, secret: string): Promise<void> {
  const key = new ApiKeys(parseSecretKeys(secret)).store(newApiKey(), id);
  await db.execute(
    `INSERT INTO apps (id, organization_id, name, host, fallback_url, api_key_ciphertext, api_key_hash, api_key_preview, settings, created_at, updated_at)
     VALUES ($1, 'org_1', 'One', $2, 'https://example.com/', $3, $4, $5, '{}', now(), now())`,
    [id, `${id.replace('_', '-')}.localhost`, key.api_key_ciphertext, key.api_key_hash, key.api_key_preview],
  );
}

beforeAll(async () => {
  database = await postgresForTest();
  db = new Postgres({ url: database.url, name: 'test', connectionsMax: 1 });
  await db.execute("INSERT INTO organizations (id, name) VALUES ('org_1', 'One')");
});

afterAll(async () => {
  await db.close();
  await database.stop();
});

test('the first start stores a check, after which no other secret is accepted, even without apps', async () => {
  await check(first);
  await check(first);
  await expect(check(newSecretKey('k1'))).rejects.toThrow('The API keys of 0 apps and other secrets can');
});

test('keys that one of the secrets can decrypt do not prevent a start', async () => {
  await keepApp('app_1', first);
  await check(first);
  await check(`${second},${first}`);
});

test('a secret with the same name and different bytes is rejected with one sentence that says what to do', async () => {
  await keepApp('app_2', second);
  await expect(check(newSecretKey('k1'))).rejects.toThrow(
    /^The API keys of 2 apps \(app_1, app_2\) and other secrets can't be decrypted with SECRET_KEY: restore the SECRET_KEY [^\n]+LOST_API_KEYS=replace:2 once[^\n]+\.$/,
  );
  await expect(check(first)).rejects.toThrow('The API keys of 1 app (app_2) and other secrets can');
});

test('lost keys are replaced only if their number is named, and other keys stay', async () => {
  for (const onLost of ['replace:0', 'replace:2']) await expect(check(first, onLost)).rejects.toThrow('LOST_API_KEYS');
  const before = await db.query<{ api_key_ciphertext: string }>(
    "SELECT api_key_ciphertext FROM apps WHERE id = 'app_1'",
  );
  await check(first, 'replace:1');
  expect(notes).toEqual(['1 apps got new API keys; GET /apps/{id} shows them']);
  await check(first);
  expect(await db.query("SELECT api_key_ciphertext FROM apps WHERE id = 'app_1'")).toEqual(before);
});
