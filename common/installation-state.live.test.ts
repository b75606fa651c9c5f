import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { type ProcessRoleName, processRoles } from '#pg-migrations/role-rights.ts';
import { postgresForTest, type TestPostgres } from '#testing/servers.ts';
import { ApiKeys, newApiKey } from './api-key.ts';
import { Encryption, newSecretKey, parseSecretKeys } from './encryption.ts';
import { InstallationState, type InstallationStateParts, sealedSecretCheck } from './installation-state.ts';
import { Postgres } from './stores/postgres.ts';

let postgres: TestPostgres;
let db: Postgres;
const lines: string[] = [];
const log = { warn: (line: string) => lines.push(line), info: (line: string) => lines.push(line) };
const [first, second] = [newSecretKey('k1'), newSecretKey('k2')];

beforeAll(async () => {
  postgres = await postgresForTest();
  db = new Postgres({ url: postgres.url, name: 'test' });
});
beforeEach(async () => {
  lines.length = 0;
  await db.execute(`UPDATE installation SET store = '', secret_check = NULL, outbound_held_since = NULL`);
});
afterAll(async () => {
  await db.close();
  await postgres.stop();
});

const stateWith = (secretKey: string, more: Partial<InstallationStateParts> = {}) =>
  new InstallationState({ db, secrets: parseSecretKeys(secretKey), log, sends: 'webhooks', ...more });
const api = { writesSecretCheck: true };

test('a process with another SECRET_KEY knows it, says so once, and sends nothing', async () => {
  await stateWith(first, api).look();
  const right = stateWith(first);
  expect([right.maySend(), await right.look(), right.maySend(), right.check()]).toEqual([false, 'right', true, true]);
  const wrong = stateWith(newSecretKey('k1'));
  await wrong.look();
  expect([await wrong.look(), wrong.maySend(), wrong.check()]).toEqual([
    ...['wrong', false, 'SECRET_KEY is not the key of this installation'],
  ]);
  expect(lines).toEqual([expect.stringMatching(/^SECRET_KEY is not the key of this installation, so/)]);
});

test('during a rotation the old key and both keys are right; after rotate-secret the new key and both are', async () => {
  await stateWith(first, api).look();
  const verdicts = () =>
    Promise.all([first, `${second},${first}`, second].map((keys) => stateWith(keys, { log }).look()));
  expect(await verdicts()).toEqual(['right', 'right', 'wrong']);
  await db.execute('UPDATE installation SET secret_check = $1', [
    sealedSecretCheck(new Encryption(parseSecretKeys(`${second},${first}`))),
  ]);
  expect(await verdicts()).toEqual(['wrong', 'right', 'right']);
});

test('after an upgrade, the first API process writes the check only if it can decrypt what is stored', async () => {
  await db.execute(`INSERT INTO organizations (id, name) VALUES ('org_1', 'One') ON CONFLICT DO NOTHING`);
  const key = new ApiKeys(parseSecretKeys(first)).store(newApiKey(), 'app_1');
  await db.execute(
    `INSERT INTO apps (id, organization_id, name, host, fallback_url, api_key_ciphertext, api_key_hash, api_key_preview, settings, created_at, updated_at)
     VALUES ('app_1', 'org_1', 'One', 'one.localhost', 'https://example.com/', $1, $2, $3, '{}', now(), now())`,
    [key.api_key_ciphertext, key.api_key_hash, key.api_key_preview],
  );
  expect(await stateWith(second, api).look()).toBe('wrong');
  expect(await stateWith(second).look()).toBe('right');
  expect(await stateWith(first, api).look()).toBe('right');
  expect(await stateWith(second).look()).toBe('wrong');
});

test('a database that was restored on another server holds everything, and says so once', async () => {
  const original = stateWith(first, api);
  await original.look();
  expect([original.maySend(), original.heldSince]).toEqual([true, null]);
  // As pg_restore leaves it: the row names the server that was backed up.
  await db.execute(`UPDATE installation SET store = 'another server/1'`);
  const copy = stateWith(first);
  await copy.look();
  await copy.look();
  expect([copy.maySend(), copy.heldSince, copy.check()]).toEqual([false, expect.any(Date), true]);
  expect(lines).toEqual([expect.stringMatching(/^webhooks are held since \S+: this is a restored copy\./)]);
  await db.execute('UPDATE installation SET outbound_held_since = NULL, store = signpost_store()');
  await copy.look();
  expect([copy.maySend(), lines[1]]).toEqual([true, 'webhooks are sent again']);
});

const reading: readonly ProcessRoleName[] = ['signpost_api_process', 'signpost_gateway', 'signpost_webhooks'];
test.each(processRoles)('%s sees the state only through a function, and only if it needs it', async (role) => {
  const own = new Postgres({ url: postgres.urlAs(role), name: 'test' });
  try {
    await stateWith(first, api).look();
    expect(await stateWith(first, { db: own }).look()).toBe(reading.includes(role) ? 'right' : 'unknown');
    await expect(own.query('SELECT * FROM installation')).rejects.toThrow(/permission denied/);
  } finally {
    await own.close();
  }
});
