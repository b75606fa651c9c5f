import {
  chmodSync,
  chownSync,
  lchownSync,
  mkdirSync,
  mkdtempSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { makeDataFolderPrivate, refuseForeignDataFolder } from './private-folder.ts';

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

test.each([0o777, 0o1777, 0o703])(
  'a folder that every user could write to is refused with its content, and stays as it is: %o',
  (mode) => {
    const data = join(folder, 'data');
    mkdirSync(data);
    writeFileSync(join(data, 'secret-key'), 'planted');
    chmodSync(data, mode);
    expect(() => makeDataFolderPrivate(data)).toThrow(`Every user of the machine can write to ${data}`);
    expect(statSync(data).mode & 0o1777).toBe(mode);
  },
);

const isRoot = process.getuid?.() === 0;
const stranger = 65_534;

test('npm start takes a folder of its own user, also through a link of its own, and one that does not exist yet', () => {
  mkdirSync(join(folder, 'data'));
  symlinkSync(join(folder, 'data'), join(folder, 'link'));
  for (const name of ['data', 'link', 'link/new', 'new/data']) refuseForeignDataFolder(join(folder, name));
});

test.runIf(isRoot)('npm start takes no folder of another user, who could replace its secrets', () => {
  const data = join(folder, 'data');
  mkdirSync(data, { mode: 0o700 });
  symlinkSync(data, join(folder, 'link'));
  chownSync(data, stranger, stranger);
  for (const name of ['data', 'link'])
    expect(() => refuseForeignDataFolder(join(folder, name))).toThrow(
      `${data} belongs to another user (uid ${stranger}), who could replace what is in DATA_DIR: start as that user, or`,
    );
});

test.runIf(isRoot)('npm start takes no folder that a link of another user leads to', () => {
  mkdirSync(join(folder, 'own', 'data'), { recursive: true });
  symlinkSync(join(folder, 'own'), join(folder, 'link'));
  lchownSync(join(folder, 'link'), stranger, stranger);
  for (const name of ['link', 'link/data', 'link/new'])
    expect(() => refuseForeignDataFolder(join(folder, name))).toThrow(
      `${join(folder, 'link')} belongs to another user`,
    );
});

test.runIf(isRoot)('npm start takes a folder of its own below one of another user, such as a home', () => {
  mkdirSync(join(folder, 'home', 'data'), { recursive: true });
  chownSync(join(folder, 'home'), stranger, stranger);
  refuseForeignDataFolder(join(folder, 'home', 'data'));
});
