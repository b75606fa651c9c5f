import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { expect, onTestFinished, test } from 'vitest';
import { resetPassword } from '#api/admin/accounts.ts';
import { systemClock } from '#common/clock.ts';
import { Postgres } from '#common/stores/postgres.ts';
import { postgresForTest } from '#testing/servers.ts';
import { FirstLoginWatch } from './first-login-watch.ts';
import { ensureFirstUser } from './first-user.ts';
import { firstLogin, loginFile } from './made-once.ts';

test('the generated password stays in login.json until it is changed, and is then deleted', async () => {
  const dataDir = mkdtempSync(`${tmpdir()}/signpost-login-`);
  const database = await postgresForTest();
  const db = new Postgres({ url: database.url, name: 'test', connectionsMax: 1 });
  const watch = new FirstLoginWatch(database.url, dataDir, () => undefined);
  onTestFinished(async () => {
    await watch.stop();
    await db.close();
    await database.stop();
    rmSync(dataDir, { recursive: true });
  });
  const login = firstLogin(dataDir, { email: 'Ada@example.com', password: '' });
  await ensureFirstUser(database.url, login);
  for (let times = 0; times < 2; times++) {
    await watch.check();
    expect(existsSync(loginFile(dataDir))).toBe(true);
  }
  await resetPassword({ db, clock: systemClock }, login.email, 'seven unrelated heavy words');
  await watch.check();
  expect(existsSync(loginFile(dataDir))).toBe(false);
  await watch.check();
});

test('an unavailable Postgres deletes no password and is asked again', async () => {
  const dataDir = mkdtempSync(`${tmpdir()}/signpost-login-`);
  const notes: string[] = [];
  const watch = new FirstLoginWatch('postgres://x@127.0.0.1:1/x', dataDir, (line) => notes.push(line));
  onTestFinished(async () => {
    await watch.stop();
    rmSync(dataDir, { recursive: true });
  });
  firstLogin(dataDir, { email: '', password: '' });
  expect([await watch.check(), await watch.check()]).toEqual([false, false]);
  expect(existsSync(loginFile(dataDir))).toBe(true);
  expect(notes).toHaveLength(1);
});
