import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { makeSocketFolder } from './socket-folder.ts';

let folder = '';
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'signpost-sockets-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

/** A server's folder whose path is too long for a socket. */
const long = () => join(folder, 'x'.repeat(110), 'postgres');

test('a socket is in the server’s own folder, which is private, and without what an earlier start left', () => {
  const made = makeSocketFolder(folder, 'a.sock');
  writeFileSync(join(made, 'a.sock'), '');
  expect(made).toBe(join(folder, 'socket'));
  expect(readdirSync(makeSocketFolder(folder, 'a.sock'))).toEqual([]);
  expect(statSync(made).mode & 0o777).toBe(0o700);
});

test('where that path is too long, a private folder with a shorter path is used, the same one each time', () => {
  const made = makeSocketFolder(long(), 'a.sock', folder);
  expect([dirname(made), statSync(made).mode & 0o777]).toEqual([folder, 0o700]);
  writeFileSync(join(made, 'a.sock'), '');
  expect(makeSocketFolder(long(), 'a.sock', folder)).toBe(made);
  expect(readdirSync(made)).toEqual([]);
});

function emptied(path: string): string {
  rmSync(path, { recursive: true });
  return path;
}

test.each([
  ['is open to others', (path: string) => chmodSync(path, 0o755)],
  ['is a link', (path: string) => symlinkSync(folder, emptied(path))],
  ['is a file', (path: string) => writeFileSync(emptied(path), '')],
])('a short folder that %s, perhaps by another user, is refused with a sentence and left alone', (_, spoil) => {
  const made = makeSocketFolder(long(), 'a.sock', folder);
  mkdirSync(join(folder, 'kept'));
  spoil(made);
  expect(() => makeSocketFolder(long(), 'a.sock', folder)).toThrow(
    /too long for a Unix socket.*Set DATA_DIR to a path/,
  );
  expect(existsSync(join(folder, 'kept'))).toBe(true);
});
