import { chmodSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { fileFault } from '#common/process/file-fault.ts';
import { backUp } from './back-up.ts';
import { tryRestore } from './trial-restore.ts';

let parent = '';
beforeEach(() => {
  parent = mkdtempSync(join(tmpdir(), 'signpost-backup-'));
});
afterEach(() => rmSync(parent, { recursive: true }));

test('a backup is not written into a folder that exists, and that folder stays as it is', async () => {
  const [planted, link] = [join(parent, 'planted'), join(parent, 'link')];
  mkdirSync(planted);
  chmodSync(planted, 0o777);
  symlinkSync(planted, link);
  for (const folder of [planted, link])
    await expect(backUp({ dataDir: '/nowhere', folder, nowMs: Date.now })).rejects.toThrow(/already exists/);
  expect([existsSync(planted), existsSync(link)]).toEqual([true, true]);
});

test('a backup is not tried out where other users could replace its copy', async () => {
  mkdirSync(join(parent, 'backup'));
  mkdirSync(join(parent, 'backup.trial'));
  chmodSync(parent, 0o777);
  await expect(tryRestore(join(parent, 'backup'))).rejects.toThrow(`other users can write to ${parent}`);
  expect(readdirSync(parent)).toEqual(['backup', 'backup.trial']);
});

test.runIf(process.platform === 'linux')('a folder that no backup can be written to is one sentence', async () => {
  // No user may create a folder there, not even root.
  const folder = '/proc/backups/1';
  const thrown = await backUp({ dataDir: '/nowhere', folder, nowMs: Date.now }).catch((error: unknown) => error);
  expect(fileFault(thrown)).toMatch(/^\/proc\/backups(\/1)? cannot be used \(E[A-Z]+ at mkdir\): [^\n]+\.$/);
});
