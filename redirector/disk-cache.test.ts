import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { DiskCache, diskCacheLimits } from './disk-cache.ts';

const key = 'link myapp.localhost/summer';

let folder: string;
let nowMs: number;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'signpost-disk-cache-'));
  nowMs = 1_800_000_000_000;
});

afterEach(() => rmSync(folder, { recursive: true, force: true }));

const diskCache = (instance: string) => new DiskCache(folder, instance, () => nowMs++);

async function closed(instance: string, change: (one: DiskCache) => void): Promise<void> {
  const one = diskCache(instance);
  change(one);
  await one.close();
}

test('an entry of one process is available to the others, and to itself after a restart, for three hours', async () => {
  await closed('r0', (one) => one.put(key, 'old'));
  for (const instance of ['r0', 'r1']) expect(await diskCache(instance).find(key)).toBe('old');
  nowMs += diskCacheLimits.lineMsMax;
  expect(await diskCache('r0').find(key)).toBeUndefined();
});

test.each(['r0', 'r1'])(
  'a change received by %s removes the entry that r0 wrote, even if the receiver never wrote the key',
  async (who) => {
    await closed('r0', (one) => one.put(key, 'old'));
    await closed(who, (one) => one.changed(key));
    for (const instance of ['r0', 'r1', 'r2']) expect(await diskCache(instance).find(key)).toBeUndefined();
  },
);

test('each change counts, even the second within a minute, if another process stored the old value in between', async () => {
  const one = diskCache('r0');
  one.changed(key);
  await closed('r1', (other) => other.put(key, 'between'));
  one.changed(key);
  await one.close();
  expect(await diskCache('r2').find(key)).toBeUndefined();
});

test('a change takes effect immediately, before it is in the file', async () => {
  await closed('r0', (one) => one.put(key, 'old'));
  const one = diskCache('r0');
  expect(await one.find(key)).toBe('old');
  one.changed(key);
  expect(await one.find(key)).toBeUndefined();
  await closed('r1', (other) => other.put(key, 'new'));
  nowMs += diskCacheLimits.rescanMs;
  expect(await one.find(key)).toBe('new');
  await one.close();
});

test('lookups of unknown keys write nothing', async () => {
  await closed('r0', (one) => {
    one.put(key, null);
    expect(one.counters.lines).toBe(0);
  });
});
