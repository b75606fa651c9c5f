import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { HOUR_MS } from '#common/durations.ts';
import { SnapshotCache } from './snapshot-cache.ts';
import { snapshotLimits } from './snapshot-source.ts';

type Destination = { readonly to: string };
type Found = ReadonlyMap<string, Destination>;

const before: Destination = { to: 'before' };
const after: Destination = { to: 'after' };
const hour = HOUR_MS;

let read: () => Promise<Found>;
let lastResort: () => Promise<string | undefined>;
let kept: (string | null)[];
let cache: SnapshotCache<Destination>;

const found = (value: Destination) => () => Promise.resolve(new Map([['summer', value]]));
const unavailable = () => Promise.reject(new Error('Postgres is unavailable'));
const hangs = () => new Promise<Found>(() => {});

beforeEach(async () => {
  vi.useFakeTimers();
  read = found(before);
  lastResort = () => Promise.resolve(undefined);
  kept = [];
  cache = new SnapshotCache<Destination>({
    source: { prefix: 'l:', encode: JSON.stringify, decode: JSON.parse, read: () => read() },
    store: { mget: (keys) => Promise.resolve(keys.map(() => null)), addMissing: () => Promise.resolve() },
    clock: Date.now,
    entriesMax: 10,
    bytesMax: 100_000,
    onChecked: (_, text) => void kept.push(text),
    lastResort: () => lastResort(),
  });
  cache.setSubscribed(true);
});
afterEach(() => vi.useRealTimers());

/** What a visitor currently gets; `undefined` means that no store answers. */
async function visit(): Promise<Destination | null | undefined> {
  const known = cache.get('summer', Date.now());
  if (known !== undefined) return known;
  const loading = cache.load('summer');
  await vi.advanceTimersByTimeAsync(snapshotLimits.lookupMs + 4 * snapshotLimits.staleWaitMs);
  return await loading;
}

/** Served once, then suspect, and looked up by a visitor while Postgres answers like this. */
async function lookUpSuspect(answer: () => Promise<Found>) {
  expect(await visit()).toEqual(before);
  await vi.advanceTimersByTimeAsync(snapshotLimits.freshMs);
  read = answer;
  const waiting = cache.load('summer');
  await vi.advanceTimersByTimeAsync(100);
  return { waiting };
}

test('an outage is answered from the cache', async () => {
  await lookUpSuspect(hangs);
  await vi.advanceTimersByTimeAsync(snapshotLimits.staleWaitMs);
  expect(await visit()).toEqual(before);
  read = unavailable;
  await vi.advanceTimersByTimeAsync(hour);
  expect(await visit()).toEqual(before);
});

test.each([
  ['hangs', hangs],
  ['fails a moment later', () => new Promise<Found>((_, fail) => setTimeout(fail, 200, new Error('unavailable')))],
])('a value that changed during its lookup is not returned while Postgres %s, nor an hour later', async (_, answer) => {
  const { waiting } = await lookUpSuspect(answer);
  cache.changed('summer');
  expect(await visit()).toBeUndefined();
  expect(await waiting).toBeUndefined();
  read = unavailable;
  await vi.advanceTimersByTimeAsync(hour);
  expect(await visit()).toBeUndefined();
  read = found(after);
  await vi.advanceTimersByTimeAsync(snapshotLimits.retryMs);
  expect(await visit()).toEqual(after);
});

test('a value read before a change is not stored elsewhere after it', async () => {
  let answer: (found: Found) => void = () => {};
  read = () =>
    new Promise<Found>((done) => {
      answer = done;
    });
  void cache.load('summer');
  await vi.advanceTimersByTimeAsync(100);
  cache.changed('summer');
  read = found(after);
  answer(new Map([['summer', before]]));
  await vi.advanceTimersByTimeAsync(100);
  expect(kept).toEqual([JSON.stringify(after)]);
  expect(await visit()).toEqual(after);
});

test('a value from the last-resort cache is not returned if a change arrives in the meantime', async () => {
  let answer: (text: string) => void = () => {};
  lastResort = () =>
    new Promise<string>((done) => {
      answer = done;
    });
  read = unavailable;
  const waiting = cache.load('summer');
  await vi.advanceTimersByTimeAsync(100);
  cache.changed('summer');
  answer(JSON.stringify(before));
  expect(await waiting).toBeUndefined();
  lastResort = () => Promise.resolve(undefined);
  expect(await visit()).toBeUndefined();
});

test('a cache whose clock is set back by years looks up again, once, and learns of a change that was not announced', async () => {
  vi.setSystemTime(Date.UTC(2029, 0, 1));
  cache.setSubscribed(true);
  expect(await visit()).toEqual(before);
  vi.setSystemTime(Date.UTC(2026, 0, 1));
  read = found(after);
  expect(await visit()).toEqual(after);
  read = found(before);
  expect(await visit()).toEqual(after);
});
