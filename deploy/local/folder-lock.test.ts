import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { startChild } from './child.ts';
import { lockFolder } from './folder-lock.ts';

let folder = '';

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'signpost-lock-'));
});

afterEach(() => rmSync(folder, { recursive: true, force: true }));

test('a folder is locked by one process at a time, and the error names the holder', async () => {
  const lock = await lockFolder(folder);
  await expect(lockFolder(folder)).rejects.toThrow(`is in use by process ${process.pid}`);
  lock.release();
  (await lockFolder(folder)).release();
});

test('the lock of a process that has ended is ignored, as is that of another process with its pid', async () => {
  const child = await startChild({ name: 'holder', command: '/bin/sleep', args: ['60'], logFile: join(folder, 'log') });
  (await lockFolder(folder)).passTo(child.pid);
  await expect(lockFolder(folder)).rejects.toThrow(`is in use by process ${child.pid}`);
  await child.stop();
  (await lockFolder(folder)).release();
  writeFileSync(join(folder, 'lock'), `${process.pid} 1`);
  (await lockFolder(folder)).release();
});

test('if many processes want a folder left by a dead process, one gets it', async () => {
  writeFileSync(join(folder, 'lock'), '999999999 1');
  const results = await Promise.allSettled(Array.from({ length: 20 }, () => lockFolder(folder)));
  expect(results.filter((result) => result.status === 'fulfilled')).toHaveLength(1);
  expect(readFileSync(join(folder, 'lock'), 'utf8').split(' ')[0]).toBe(String(process.pid));
});

test('an empty lock, as a power loss leaves it, is ignored after a moment', async () => {
  writeFileSync(join(folder, 'lock'), '');
  const results = await Promise.allSettled(Array.from({ length: 5 }, () => lockFolder(folder)));
  expect(results.filter((result) => result.status === 'fulfilled')).toHaveLength(1);
  expect(readFileSync(join(folder, 'lock'), 'utf8').split(' ')[0]).toBe(String(process.pid));
});

test('a lock that cannot be read gives an immediate one-sentence error that names it and says what to do', async () => {
  // Root can read every file, so the lock is a folder here.
  const file = join(folder, 'lock');
  mkdirSync(file);
  await expect(lockFolder(folder, 60_000)).rejects.toThrow(
    `${file} cannot be read (EISDIR): delete it if nothing uses ${folder}, or set DATA_DIR to another folder.`,
  );
});

test('a folder that cannot be created gives a one-sentence error', async () => {
  const file = join(folder, 'file');
  writeFileSync(file, '');
  await expect(lockFolder(join(file, 'data'))).rejects.toThrow(/cannot be written \(ENOTDIR\).*DATA_DIR/);
});
