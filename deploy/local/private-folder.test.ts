import { chmodSync, mkdirSync, mkdtempSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { makeDataFolderPrivate } from './private-folder.ts';

let folder = '';
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'signpost-data-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const modeOf = (path: string) => statSync(path).mode & 0o777;

test('a new folder is accessible only to its owner', () => {
  makeDataFolderPrivate(join(folder, 'new', 'data'));
  expect(modeOf(join(folder, 'new', 'data'))).toBe(0o700);
});

test.each([0o755, 0o777, 0o750, 0o701])(
  'a folder of an earlier version that others may enter is closed: %o',
  (mode) => {
    const data = join(folder, 'data');
    mkdirSync(data);
    chmodSync(data, mode);
    makeDataFolderPrivate(data);
    expect(modeOf(data)).toBe(0o700);
  },
);

test('the content of a folder of an earlier version is made private too, and links out of it are not followed', () => {
  const data = join(folder, 'data');
  mkdirSync(join(data, 'postgres'), { recursive: true, mode: 0o755 });
  writeFileSync(join(data, 'secret-key'), 'x', { mode: 0o644 });
  writeFileSync(join(folder, 'mine'), 'x', { mode: 0o644 });
  symlinkSync(join(folder, 'mine'), join(data, 'tls'));
  chmodSync(data, 0o755);
  makeDataFolderPrivate(data);
  expect([modeOf(join(data, 'postgres')), modeOf(join(data, 'secret-key'))]).toEqual([0o700, 0o600]);
  expect(modeOf(join(folder, 'mine'))).toBe(0o644);
});

test('a folder that cannot be made private is rejected with one line that says what to do', () => {
  // No user, not even root, can change a mode below /proc.
  expect(() => makeDataFolderPrivate('/proc/self')).toThrow(
    /^\/proc\/self is accessible to other users \(mode 555\), and its mode cannot be changed \(\w+\): run chmod 700 on it[^\n]+$/,
  );
});
