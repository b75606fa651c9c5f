import { expect, test } from 'vitest';
import { fileFault } from '#common/process/file-fault.ts';
import { backUp } from './back-up.ts';

test.runIf(process.platform === 'linux')('a folder that no backup can be written to is one sentence', async () => {
  // No user may create a folder there, not even root.
  const folder = '/proc/backups/1';
  const thrown = await backUp({ dataDir: '/nowhere', folder, nowMs: Date.now }).catch((error: unknown) => error);
  expect(fileFault(thrown)).toMatch(/^\/proc\/backups(\/1)? cannot be used \(E[A-Z]+ at mkdir\): [^\n]+\.$/);
});
