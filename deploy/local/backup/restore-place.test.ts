import { chmodSync, lchownSync, mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { refuseForeignLinks, refuseForeignTarget } from './restore-place.ts';

const stranger = 4_321;
const isRoot = process.getuid?.() === 0;
let folder: string;
let data: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'signpost-place-'));
  data = join(folder, 'data');
  mkdirSync(join(data, 'mine'), { recursive: true, mode: 0o700 });
});
afterEach(() => rmSync(folder, { recursive: true }));

function link(path: string, owner?: number): string {
  const file = join(data, path);
  mkdirSync(dirname(file), { recursive: true });
  symlinkSync(join(data, 'mine'), file);
  if (owner !== undefined) lchownSync(file, owner, owner);
  return file;
}

test('a restore takes a folder of its user that only they can write to, one that is missing, and links of its user', () => {
  link('../own');
  for (const name of ['data', 'own', 'own/new', 'new/data']) refuseForeignTarget(join(folder, name));
  link('tls');
  refuseForeignLinks(data, ['tls/x', 'absent/x']);
});

test.each([0o777, 0o1777, 0o702])('a restore refuses a DATA_DIR with mode %o', (mode) => {
  chmodSync(data, mode);
  expect(() => refuseForeignTarget(data)).toThrow(/^Others than its owner can write to .* Nothing was restored.$/);
});

test.runIf(isRoot)('root restores into a private folder of another user, who runs npm start', () => {
  lchownSync(data, stranger, stranger);
  refuseForeignTarget(data);
  chmodSync(data, 0o770);
  expect(() => refuseForeignTarget(data)).toThrow(/can write to/);
});

test.runIf(isRoot)('a restore refuses a DATA_DIR that a link of another user leads to', () => {
  const path = link('../link', stranger);
  for (const target of [path, join(path, 'new')])
    expect(() => refuseForeignTarget(target)).toThrow(
      `${path} belongs to another user (uid ${stranger}) and is a link`,
    );
});

test.runIf(isRoot).each(['tls', 'journal', 'clickhouse/store.restored', 'nowhere'])(
  'a restore refuses a link of another user in the place of %s',
  (name) => {
    const path = link(name, stranger);
    rmSync(join(data, 'mine'), { recursive: true });
    for (const entry of [name, `${name}/x`])
      expect(() => refuseForeignLinks(data, [entry])).toThrow(`${path} belongs to another user (uid ${stranger})`);
    refuseForeignLinks(data, ['other/x']);
  },
);
