import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { fileFault } from './file-fault.ts';

function thrownBy(work: () => unknown): unknown {
  try {
    return work();
  } catch (error) {
    return error;
  }
}

test('an error of the file system becomes one sentence with the path, the code and what to do', () => {
  const folder = mkdtempSync(join(tmpdir(), 'signpost-fault-'));
  const file = join(folder, 'file');
  writeFileSync(file, '');
  expect(fileFault(thrownBy(() => readFileSync(join(folder, 'no'))))).toBe(
    `${join(folder, 'no')} cannot be used (ENOENT at open): it does not exist.`,
  );
  expect(fileFault(thrownBy(() => mkdirSync(join(file, 'inner'))))).toContain('ENOTDIR');
  const denied = Object.assign(new Error('EACCES'), { code: 'EACCES', syscall: 'mkdir', path: '/backups/1' });
  expect(fileFault(denied)).toMatch(/^\/backups\/1 cannot be used \(EACCES at mkdir\): run this as the user [^.]*\.$/);
  rmSync(folder, { recursive: true });
});

test.runIf(process.platform === 'linux')('a full disk is named even though the error has no path', async () => {
  const full = await open('/dev/full', 'w');
  const error = await full.write('x').catch((thrown: unknown) => thrown);
  await full.close();
  expect(fileFault(error)).toBe('A file cannot be used (ENOSPC at write): its disk is full. Free some space.');
});

test('errors of the network and of the program itself are not taken for errors of the file system', async () => {
  const refused = await new Promise((resolve) => connect(join(tmpdir(), 'no-socket')).once('error', resolve));
  expect([fileFault(refused), fileFault(new TypeError('x')), fileFault('text')]).toEqual([null, null, null]);
});
