import {
  chmodSync,
  chownSync,
  existsSync,
  lchownSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { makeNewFolder } from './new-folder.ts';

let folder = '';
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'signpost-new-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const stranger = 65_534;
const isRoot = process.getuid?.() === 0;

test('a new folder, and each missing one above it, is accessible only to its owner', () => {
  const made = join(folder, 'a', 'b');
  makeNewFolder(made);
  expect([statSync(made).mode & 0o777, statSync(join(folder, 'a')).mode & 0o777]).toEqual([0o700, 0o700]);
});

test.each([
  ['an empty folder', (path: string) => mkdirSync(path)],
  ['a file', (path: string) => writeFileSync(path, '')],
  ['a link to an empty folder', (path: string) => symlinkSync(folder, path)],
  ['a link to nowhere', (path: string) => symlinkSync(join(folder, 'nowhere'), path)],
])('%s in its place is refused, and nothing is made', (_, plant) => {
  const path = join(folder, 'planted');
  plant(path);
  expect(() => makeNewFolder(path)).toThrow(`${path} already exists.`);
  expect(readdirSync(folder)).toEqual(['planted']);
});

test('a folder that others can write to is refused as a place, unless it keeps them from the files of each other', () => {
  const place = join(folder, 'place');
  mkdirSync(place);
  chmodSync(place, 0o777);
  expect(() => makeNewFolder(join(place, 'a', 'b'))).toThrow(`other users can write to ${place}`);
  chmodSync(place, 0o1777);
  makeNewFolder(join(place, 'a', 'b'));
  chmodSync(place, 0o770);
  makeNewFolder(join(place, 'c'));
  expect(readdirSync(place)).toEqual(['a', 'c']);
});

test.runIf(isRoot)('a folder that another group can write to is refused as a place', () => {
  const place = join(folder, 'place');
  mkdirSync(place);
  chownSync(place, 0, stranger);
  chmodSync(place, 0o770);
  expect(() => makeNewFolder(join(place, 'a'))).toThrow(`other users can write to ${place}`);
});

test.runIf(isRoot)('a folder, or a link, of another user is refused anywhere on the way', () => {
  const [theirs, ours, link] = [join(folder, 'theirs'), join(folder, 'ours'), join(folder, 'link')];
  for (const one of [theirs, ours]) mkdirSync(one);
  makeNewFolder(join(theirs, 'ours'));
  chownSync(theirs, stranger, stranger);
  symlinkSync(ours, link);
  makeNewFolder(join(link, 'a'));
  lchownSync(link, stranger, stranger);
  symlinkSync(theirs, join(folder, 'to-theirs'));
  const refusal = (path: string) => `${path} belongs to another user (uid ${stranger}), who could read or replace`;
  expect(() => makeNewFolder(join(theirs, 'new'))).toThrow(refusal(theirs));
  expect(() => makeNewFolder(join(theirs, 'ours', 'new'))).toThrow(refusal(theirs));
  expect(() => makeNewFolder(join(link, 'b'))).toThrow(refusal(link));
  expect(() => makeNewFolder(join(folder, 'to-theirs', 'new'))).toThrow(refusal(theirs));
  expect([readdirSync(ours), existsSync(join(theirs, 'new'))]).toEqual([['a'], false]);
});
