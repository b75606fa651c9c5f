import { appendFileSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { FileStore } from './src/file-store.ts';

let folder: string;
let path: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'signpost-store-'));
  path = join(folder, 'deep', 'queue');
});
afterEach(() => rmSync(folder, { recursive: true }));

test('what was set and not removed is there after a restart, whatever the texts contain', async () => {
  const store = new FileStore(path);
  await Promise.all([store.set('a', 'one\ntwo'), store.set('b', '"\u2028'), store.set('c', '')]);
  await store.set('a', 'three');
  await store.remove(['b', 'unknown']);
  await store.close();
  const again = new FileStore(path);
  expect(again.keys()).toEqual(['a', 'c']);
  expect([again.get('a'), again.get('b'), again.get('c')]).toEqual(['three', undefined, '']);
  await again.close();
  expect(statSync(path).mode & 0o777).toBe(0o600);
});

test('a line that a crash cut off costs only itself', async () => {
  const store = new FileStore(path);
  await store.set('a', '1');
  await store.close();
  appendFileSync(path, '\n["b","2');
  const again = new FileStore(path);
  await again.set('c', '3');
  await again.close();
  const last = new FileStore(path);
  expect(last.keys()).toEqual(['a', 'c']);
  await last.close();
});

test('a file that another live process has open is refused, one of a dead process is not', async () => {
  const store = new FileStore(path);
  expect(() => new FileStore(path)).toThrow('in use by another client of this process');
  await store.close();
  writeFileSync(`${path}.lock`, String(process.ppid));
  expect(() => new FileStore(path)).toThrow(`in use by process ${process.ppid}. Give each process its own queueFile.`);
  // Above the largest process id of Linux.
  writeFileSync(`${path}.lock`, '4194305');
  await new FileStore(path).close();
});

test('the file stays small however much goes through it', async () => {
  const store = new FileStore(path);
  for (let n = 0; n < 50; n++) {
    const keys = Array.from({ length: 100 }, (_, k) => `${n}-${k}`);
    await Promise.all(keys.map((key) => store.set(key, 'x'.repeat(100))));
    await store.remove(keys);
  }
  await store.set('last', '1');
  await store.close();
  // Each of the 2,000 lines that are kept at most has about 115 bytes.
  expect(readFileSync(path).byteLength).toBeLessThan(300_000);
  const again = new FileStore(path);
  expect(again.keys()).toEqual(['last']);
  await again.close();
});
