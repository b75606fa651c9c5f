import { expect, test } from 'vitest';
import { CountedAddresses } from './counted-addresses.ts';
import { newSecretKey, parseSecretKeys } from './encryption.ts';
import { chargeOf, LocalWindows, limitKey, RateLimiter, windowOf } from './rate-limit.ts';

const limits = { auth: 5, links: 30, match: 1000, events: 500, general: 100 };
const addresses = new CountedAddresses(parseSecretKeys(newSecretKey('test')));
const unavailable = () => Promise.reject(new Error('unavailable'));

test('the request that reaches the limit is served; the next one gets the number of whole seconds to wait', () => {
  const window = (count: number) => ({ count, resetMs: 60_500 });
  expect(chargeOf(5, window(1), 500)).toEqual({
    quota: { limit: 5, remaining: 4, resetEpochSeconds: 61 },
    rejection: null,
  });
  expect(chargeOf(5, window(5), 30_000).rejection).toBeNull();
  const refused = chargeOf(5, window(6), 30_000);
  expect(refused.quota.remaining).toBe(0);
  expect(refused.rejection).toMatchObject({ code: 'RATE_LIMITED', retryAfterSeconds: 31 });
});

test('a client that waits for Retry-After gets a new window', () => {
  for (let nowMs = 500; nowMs < 60_500; nowMs += 37) {
    const waited = nowMs + (chargeOf(1, { count: 2, resetMs: 60_500 }, nowMs).rejection?.retryAfterSeconds ?? 0) * 1000;
    expect(waited).toBeGreaterThanOrEqual(60_500);
  }
});

test('without Redis, authentication gets a 500 with Retry-After and limit headers', async () => {
  const charge = await new RateLimiter(unavailable, limits, addresses, () => 1_000).charge('auth', '192.0.2.1');
  expect(charge.rejection).toMatchObject({ code: 'INTERNAL_ERROR', retryAfterSeconds: 5 });
  expect(charge.quota).toEqual({ limit: 5, remaining: 0, resetEpochSeconds: 6 });
});

test('without Redis everything else is counted in this process, each subject separately', async () => {
  let nowMs = 1_000;
  const limiter = new RateLimiter(unavailable, { ...limits, general: 2 }, addresses, () => nowMs);
  const one = async (subject: string) => (await limiter.charge('general', subject)).rejection?.code ?? 'answered';
  expect(await one('a')).toBe('answered');
  expect(await one('a')).toBe('answered');
  expect(await one('a')).toBe('RATE_LIMITED');
  expect(await one('b')).toBe('answered');
  nowMs += 60_000;
  expect(await one('a')).toBe('answered');
});

test('a Redis that hangs is tried once per second instead of by every request', async () => {
  let nowMs = 1_000;
  let asked = 0;
  let isAway = true;
  const limiter = new RateLimiter(
    () => {
      asked++;
      return isAway ? unavailable() : Promise.resolve([7, '61000']);
    },
    limits,
    addresses,
    () => nowMs,
  );
  for (let request = 0; request < 50; request++) await limiter.charge('general', 'a');
  expect(asked).toBe(1);
  isAway = false;
  nowMs += 1_000;
  expect((await limiter.charge('general', 'a')).quota.remaining).toBe(93);
});

test('a window that a machine with a wrong clock started makes no client wait for longer than a window', () => {
  const { quota, rejection } = chargeOf(10, { count: 11, resetMs: 800 * 86_400_000 }, 5_000);
  expect(rejection?.retryAfterSeconds).toBe(60);
  expect(quota.resetEpochSeconds).toBe(65);
});

test('a window of this process ends when its clock is set back', () => {
  const windows = new LocalWindows();
  for (let n = 0; n < 5; n++) windows.take('a', 800 * 86_400_000);
  expect(windows.take('a', 1_000)).toEqual({ count: 1, resetMs: 61_000 });
});

test('the number of windows in this process is bounded', () => {
  const windows = new LocalWindows();
  for (let subject = 0; subject < 200_000; subject++) windows.take(`ip-${subject}`, 1_000);
  expect(windows.take('ip-199999', 1_000).count).toBe(2);
  expect(windows.take('ip-0', 1_000).count).toBe(1);
});

test('classes do not share a window', () => {
  expect(limitKey('auth', 'x')).not.toBe(limitKey('general', 'x'));
});

test('an invalid reply of Redis is an error, and the request is not allowed', () => {
  expect(() => windowOf('OK')).toThrow();
  expect(() => windowOf([null, undefined])).toThrow();
  expect(windowOf([3, '61000'])).toEqual({ count: 3, resetMs: 61_000 });
});

test('a caller with no requests left is rejected without asking Redis, until the window ends and never for longer than a window', async () => {
  let nowMs = 1_000;
  let answer = [99, '31000'];
  let asked = 0;
  const take = () => {
    asked++;
    return Promise.resolve(answer);
  };
  const limiter = new RateLimiter(take, limits, addresses, () => nowMs);
  await limiter.chargeAddress('general', 'a');
  expect(limiter.spent('general', 'a')).toBeNull();
  answer = [100, '31000'];
  expect((await limiter.chargeAddress('general', 'a')).rejection).toBeNull();
  expect(limiter.spent('general', 'a')).toMatchObject({
    quota: { limit: 100, remaining: 0, resetEpochSeconds: 31 },
    rejection: { code: 'RATE_LIMITED', retryAfterSeconds: 30 },
  });
  expect([limiter.spent('general', 'b'), limiter.spent('links', 'a')]).toEqual([null, null]);
  nowMs = 31_000;
  expect(limiter.spent('general', 'a')).toBeNull();
  // The machine that started this window has a clock that is an hour ahead.
  answer = [101, '3600000'];
  await limiter.chargeAddress('general', 'a');
  nowMs += 59_999;
  expect(limiter.spent('general', 'a')).not.toBeNull();
  nowMs += 1;
  expect(limiter.spent('general', 'a')).toBeNull();
  expect(asked).toBe(3);
});

test('an address that is counted in Redis cannot be read there', async () => {
  const keys: string[] = [];
  const take = (names: readonly string[]) => {
    keys.push(...names);
    return Promise.resolve([1, '61000']);
  };
  const limiter = new RateLimiter(take, limits, addresses, () => 1_000);
  await limiter.chargeAddress('general', '192.0.2.1');
  await limiter.chargeNetworks('auth', '192.0.2.1');
  await limiter.chargeNetworks('auth', '2001:db8:1:2::3');
  expect(keys.length).toBe(5);
  for (const key of keys) expect(key).toMatch(/^limit:(general|auth):[\w-]{16}$/);
});
