import { mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { type HeldLock, socketLocks } from './slot-lock.ts';

let root: string;
const held: HeldLock[] = [];
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'locks-'));
});
afterEach(async () => {
  for (const lock of held.splice(0)) await lock.release();
  rmSync(root, { recursive: true });
});

async function take(folder: string): Promise<HeldLock | undefined> {
  const lock = await socketLocks.take(folder);
  if (lock) held.push(lock);
  return lock;
}

test('a lock is held until it is released, and can be taken again', async () => {
  expect(await socketLocks.stateOf(root)).toBe('missing');
  const lock = await take(root);
  expect(await socketLocks.stateOf(root)).toBe('held');
  expect(await take(root)).toBeUndefined();
  await lock?.release();
  expect(await socketLocks.stateOf(root)).toBe('free');
  expect(await take(root)).toBeDefined();
  expect(readdirSync(root)).toEqual(['.lock']);
});

test('of many processes that take a lock at once, free or of a dead process, one gets it', async () => {
  for (let round = 0; round < 20; round++) {
    const takers = await Promise.all(Array.from({ length: 8 }, () => take(root)));
    expect(takers.filter((lock) => lock !== undefined)).toHaveLength(1);
    await takers.find((lock) => lock !== undefined)?.release();
  }
});

test('a holder whose socket was deleted still has the lock, and restores the socket', async () => {
  const lock = await take(root);
  rmSync(join(root, '.lock'));
  expect(await socketLocks.stateOf(root)).toBe('missing');
  expect(await lock?.renew()).toBe(true);
  expect(await socketLocks.stateOf(root)).toBe('held');
  expect(await take(root)).toBeUndefined();
});

test('a holder detects that another process has its folder', async () => {
  const lock = await take(root);
  rmSync(join(root, '.lock'));
  expect(await take(root)).toBeDefined();
  expect(await lock?.renew()).toBe(false);
});

test('the lock of a folder with a long path works too', async () => {
  const folder = join(root, 'x'.repeat(100), 'y'.repeat(100));
  mkdirSync(folder, { recursive: true });
  const lock = await take(folder);
  expect(readdirSync(folder)).toEqual(['.lock']);
  expect(await socketLocks.stateOf(folder)).toBe('held');
  expect(await take(folder)).toBeUndefined();
  await lock?.release();
  expect(await socketLocks.stateOf(folder)).toBe('free');
});

test('a file that is not a socket is not mistaken for the lock of a dead process', async () => {
  mkdirSync(join(root, '.lock', 'sub'), { recursive: true });
  expect(await socketLocks.stateOf(join(root, '.lock', 'sub', 'none'))).toBe('missing');
  const other = createServer();
  await new Promise<void>((done) => other.listen(join(root, 'x'), done));
  expect(await socketLocks.stateOf(join(root, 'x'))).toBe('unknown');
  await new Promise((done) => other.close(done));
});
