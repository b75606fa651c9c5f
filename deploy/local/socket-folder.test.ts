import {
  chmodSync,
  chownSync,
  cpSync,
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
import { makeSocketFolder, removeSocketFolder } from './socket-folder.ts';

let folder = '';
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'signpost-sockets-'));
  mkdirSync(long(), { recursive: true });
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

test('where that path is too long, a private folder with a shorter path is used, the same one at a restart', () => {
  const made = makeSocketFolder(long(), 'a.sock', undefined, folder);
  expect([dirname(made), statSync(made).mode & 0o777]).toEqual([folder, 0o700]);
  writeFileSync(join(made, 'a.sock'), '');
  expect(makeSocketFolder(long(), 'a.sock', undefined, folder)).toBe(made);
  expect(readdirSync(made)).toEqual([]);
  rmSync(made, { recursive: true });
  expect(makeSocketFolder(long(), 'a.sock', undefined, folder)).toBe(made);
});

test('the shorter folder is removed when the server is stopped, and the next one has another name', () => {
  const made = makeSocketFolder(long(), 'a.sock', undefined, folder);
  writeFileSync(join(made, 'a.sock'), '');
  removeSocketFolder(long(), 'a.sock');
  expect(existsSync(made)).toBe(false);
  expect(makeSocketFolder(long(), 'a.sock', undefined, folder)).not.toBe(made);
});

function emptied(path: string): string {
  rmSync(path, { recursive: true });
  return path;
}

test.each([
  ['is open to others', (path: string) => chmodSync(path, 0o755)],
  ['is a link', (path: string) => symlinkSync(join(folder, 'kept'), emptied(path))],
  ['is a file', (path: string) => writeFileSync(emptied(path), '')],
  ['has files of someone else', (path: string) => writeFileSync(join(path, 'theirs'), '')],
])('a shorter folder that %s does not block a start: it is left alone, and another one is used', (_, spoil) => {
  const made = makeSocketFolder(long(), 'a.sock', undefined, folder);
  mkdirSync(join(folder, 'kept'));
  writeFileSync(join(folder, 'kept', 'a.sock'), '');
  spoil(made);
  const other = makeSocketFolder(long(), 'a.sock', undefined, folder);
  expect([other === made, readdirSync(other), statSync(other).mode & 0o777]).toEqual([false, [], 0o700]);
  removeSocketFolder(long(), 'a.sock');
  expect([existsSync(made), existsSync(other), existsSync(join(folder, 'kept', 'a.sock'))]).toEqual([
    true,
    false,
    true,
  ]);
});

test.runIf(process.getuid?.() === 0)(
  'as root, a shorter folder of a user who does not run the server is not used',
  () => {
    const [server, stranger] = [65_533, 65_534];
    const made = makeSocketFolder(long(), 'a.sock', server, folder);
    chownSync(made, server, server);
    expect(makeSocketFolder(long(), 'a.sock', server, folder)).toBe(made);
    chownSync(made, stranger, stranger);
    const other = makeSocketFolder(long(), 'a.sock', server, folder);
    expect([other === made, statSync(other).uid]).toEqual([false, 0]);
    chownSync(other, server, server);
    removeSocketFolder(long(), 'a.sock', server);
    expect([existsSync(made), existsSync(other)]).toEqual([true, false]);
  },
);

test('a copy of the data does not take the folder that the original uses', () => {
  const made = makeSocketFolder(long(), 'a.sock', undefined, folder);
  writeFileSync(join(made, 'a.sock'), '');
  const copy = join(folder, 'y'.repeat(110), 'postgres');
  cpSync(long(), copy, { recursive: true });
  expect(makeSocketFolder(copy, 'a.sock', undefined, folder)).not.toBe(made);
  expect(readdirSync(made)).toEqual(['a.sock']);
});

test('without a folder for temporary files that can be used, one sentence says what to do', () => {
  expect(() => makeSocketFolder(long(), 'a.sock', undefined, join(folder, 'absent'))).toThrow(
    /too long for a Unix socket.*ENOENT.*Set DATA_DIR to a path of at most \d+ bytes\.$/,
  );
});
