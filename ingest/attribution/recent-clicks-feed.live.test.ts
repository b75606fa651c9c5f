import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from 'vitest';
import { RecentClicks } from '#common/attribution/recent-clicks.ts';
import { DAY_MS, HOUR_MS, MINUTE_MS } from '#common/durations.ts';
import { newId } from '#common/ids.ts';
import { encodeFrame } from '#common/log/frame.ts';
import { defaultInstallation } from '#common/log/log-names.ts';
import { keepLogStream } from '#common/log/log-stream.ts';
import type { Click } from '#common/log/record.ts';
import { Nats } from '#common/stores/nats.ts';
import { Redis } from '#common/stores/redis.ts';
import { systemTime, type Time } from '#common/time.ts';
import { findRedis } from '#deploy/local/redis.ts';
import type { LogFrame } from '#ingest/formed-batch.ts';
import { LogReader } from '#ingest/log-reader.ts';
import { testClick } from '#ingest/testing/pipeline-harness.ts';
import { natsForTest, redisForTest, type TestServer } from '#testing/servers.ts';
import { skipWithout } from '#testing/skip.ts';
import { defaultFacts, KnownApps } from './known-apps.ts';
import { type FeedOptions, RecentClicksFeed } from './recent-clicks-feed.ts';

let natsServer: TestServer;
let redisServer: TestServer;
let nats: Nats;
let redis: Redis;
let clicks: RecentClicks;
const feeds: RecentClicksFeed[] = [];
const readers: LogReader[] = [];
let lines: string[] = [];

beforeAll(async () => {
  [natsServer, redisServer] = await Promise.all([natsForTest(), redisForTest()]);
  nats = await Nats.connect({ url: natsServer.url, name: 'test', installation: defaultInstallation });
  await keepLogStream(nats, { bytesMax: 1e8, replicas: 1 }, () => undefined);
  redis = new Redis({ url: redisServer.url, name: 'test', onError: () => undefined });
  await redis.connect();
  clicks = new RecentClicks(redis);
});
beforeEach(async () => {
  lines = [];
  await redis.commands.flushall();
});
afterEach(() => {
  for (const each of [...feeds.splice(0), ...readers.splice(0)]) each.stop();
});
afterAll(async () => {
  await redis.close();
  await nats.close();
  await Promise.all([natsServer.stop(), redisServer.stop()]);
});

const everyApp = new KnownApps(async () => new Map(), Date.now);

async function startFeed(options: Partial<FeedOptions> = {}): Promise<RecentClicksFeed> {
  const log = (line: string) => void lines.push(line);
  const parts = { nats, redis, clicks, apps: everyApp, partition: 0, time: systemTime, log };
  const feed = new RecentClicksFeed({ ...parts, ...options });
  feeds.push(feed);
  await feed.start();
  return feed;
}

let frameNo = 0;
/** Adds one click to the log. @returns its id. */
async function click(more: Partial<Click> = {}): Promise<string> {
  // For an app that stores whole addresses, so that clicks are found by the whole address.
  const given = JSON.parse(testClick(more.time ?? Date.now(), 'full_ip'));
  const line = JSON.stringify({ ...given, ...more });
  const bytes = Buffer.alloc(4_096);
  const lane = { kind: 'click', partition: 0 } as const;
  const header = { ...lane, producer_id: 'p'.repeat(26), frame_no: ++frameNo, records: 1, written_at: Date.now() };
  const length = encodeFrame(bytes, 0, header, `${line}\n`);
  await nats.request(nats.names.subjectOf(lane), bytes.subarray(0, length));
  return JSON.parse(line).click_id;
}

const positionKey = 'clicks_fed:0';
/** The times of the log between which clicks are in Redis. */
const stored = async () => (await redis.commands.get(positionKey))?.split(' ').map(Number);
const storedAgeMs = async () => Date.now() - ((await stored())?.[1] ?? Date.now() / 2);
const eventually = (read: () => unknown) => expect.poll(read, { timeout: 10_000, interval: 20 });
const isThere = async (id: string) => (await clicks.byIds([id]).catch(() => []))[0]?.click_id === id;

/** The reader of the partition's owner, which passes its frames to the feed. */
function ownersReader(feed: RecentClicksFeed, time: Time = systemTime): LogReader {
  const reader: LogReader = new LogReader({
    ...{ nats, time, partition: 0, position: () => 0, log: () => undefined, onCaughtUp: () => undefined },
    onFrame: (frame) => {
      feed.take(frame, reader);
      return true;
    },
  });
  readers.push(reader);
  reader.start();
  return reader;
}

/** A megabyte without a valid click. */
const clickFrame = {
  header: { kind: 'click', partition: 0, producer_id: 'q'.repeat(26), frame_no: 1, records: 1, written_at: 0 },
  bytes: Buffer.alloc(1_048_576),
  streamTime: 1,
} as LogFrame;

const consumers = async () => {
  const answer = await nats.request(nats.names.api('CONSUMER.NAMES'), Buffer.alloc(0));
  return JSON.parse(String(answer?.bytes)).total as number;
};

test('it reads itself until it has all that came before, then uses the frames of the owner’s reader alone', async () => {
  // Those of an earlier test are deleted without waiting.
  await eventually(consumers).toBe(0);
  const feed = await startFeed();
  const first = await click();
  await eventually(() => isThere(first)).toBe(true);
  expect(feed.counters.frames_followed).toBe(0);
  ownersReader(feed);
  const ids: string[] = [];
  await eventually(async () => {
    ids.push(await click());
    return feed.counters.frames_followed > 10 && (await consumers()) === 1;
  }).toBe(true);
  ids.push(await click());
  await eventually(async () => (await Promise.all(ids.map(isThere))).every(Boolean)).toBe(true);
});

test('a feed with a wrong clock copies clicks, and a position that one has left in Redis does not hide any', async () => {
  const storeTimes = {
    get now() {
      return Date.now();
    },
    oldestOf: () => 0,
  };
  for (const years of [3, -3]) {
    const time: Time = { ...systemTime, now: () => Date.now() + years * 365 * DAY_MS };
    const feed = await startFeed({ time, storeTimes });
    const id = await click();
    await eventually(() => isThere(id)).toBe(true);
    await eventually(storedAgeMs).toBeLessThan(MINUTE_MS);
    expect(await storedAgeMs()).toBeGreaterThan(-MINUTE_MS);
    feed.stop();
    await redis.commands.flushall();
  }
  const before = await click();
  const ahead = Date.now() + 3 * 365 * DAY_MS;
  await redis.commands.set(positionKey, `${ahead} ${ahead}`);
  await startFeed({ storeTimes });
  await eventually(() => isThere(before)).toBe(true);
  expect(await storedAgeMs()).toBeGreaterThan(-MINUTE_MS);
});

test('once the owner’s reader is behind for seconds, the feed reads itself', async () => {
  let skippedMs = 0;
  const time: Time = { ...systemTime, elapsed: () => systemTime.elapsed() + skippedMs };
  // Those of an earlier test are deleted without waiting.
  await eventually(consumers).toBe(0);
  const feed = await startFeed({ time });
  const reader = ownersReader(feed);
  await eventually(async () => {
    await click();
    return feed.counters.frames_followed > 0 && (await consumers()) === 1;
  }).toBe(true);
  reader.stop();
  skippedMs = 6_000;
  const id = await click();
  await eventually(() => isThere(id)).toBe(true);
});

test('a reader that has not been at the end of the log for seconds is not followed', async () => {
  const feed = await startFeed();
  const id = await click();
  await eventually(() => isThere(id)).toBe(true);
  const now = systemTime.elapsed();
  feed.take(clickFrame, { caughtUpAt: now - 6_000 });
  expect(feed.counters.frames_followed).toBe(0);
  feed.take(clickFrame, { caughtUpAt: now });
  expect(feed.counters.frames_followed).toBe(1);
});

test('clicks that it ignored before it follows are in Redis, even if the stream was replaced while its own reader was paused', {
  timeout: 60_000,
}, async () => {
  let [skippedMs, isSlow] = [0, false];
  let release: () => void = () => undefined;
  const isReleased = new Promise<void>((done) => {
    release = done;
  });
  const slow = Object.assign(new RecentClicks(redis), {
    put: async (entries: Parameters<RecentClicks['put']>[0]) => {
      if (isSlow) await isReleased;
      await clicks.put(entries);
    },
  });
  const time: Time = { ...systemTime, elapsed: () => systemTime.elapsed() + skippedMs };
  // Those of an earlier test are deleted without waiting.
  await eventually(consumers).toBe(0);
  const feed = await startFeed({ time, clicks: slow });
  const owners = ownersReader(feed, time);
  await eventually(async () => {
    await click();
    return feed.counters.frames_followed;
  }).toBeGreaterThan(0);
  // The feed reads itself for ten minutes, and its reader is paused by a slow Redis.
  owners.stop();
  skippedMs += 6_000;
  await eventually(consumers).toBe(1);
  isSlow = true;
  for (let n = 0; n < 700; n++) await click();
  await nats.request(nats.names.api('STREAM.DELETE'), Buffer.alloc(0));
  await keepLogStream(nats, { bytesMax: 1e8, replicas: 1 }, () => undefined);
  const others = ownersReader(feed, time);
  const ids = [await click(), await click(), await click()];
  await eventually(() => others.counters.messages).toBeGreaterThanOrEqual(3);
  skippedMs += 600_000;
  for (let n = 0; n < 10; n++) ids.push(await click());
  release();
  await expect
    .poll(async () => (await Promise.all(ids.map(isThere))).every(Boolean), { timeout: 40_000, interval: 100 })
    .toBe(true);
});

test('a slow Redis does not make the owner’s reader wait: beyond 16 MB of waiting frames, the feed reads itself', async () => {
  let release: () => void = () => undefined;
  const isReleased = new Promise<void>((done) => {
    release = done;
  });
  const slow = { put: () => isReleased } as unknown as RecentClicks;
  const feed = await startFeed({ clicks: slow });
  const reader = { caughtUpAt: Number.MAX_SAFE_INTEGER };
  await eventually(() => {
    feed.take(clickFrame, reader);
    return feed.counters.frames_followed;
  }).toBeGreaterThan(0);
  for (let taken = 0; taken < 100; taken++) feed.take(clickFrame, reader);
  expect(feed.counters.frames_followed).toBeLessThan(25);
  release();
});

test('while Redis refuses writes because it cannot save, the feed waits, logs it once, and resumes where it stopped', async (context) => {
  skipWithout(!findRedis().isStandIn, 'redis-server', context);
  const feed = await startFeed();
  const before = await click();
  await eventually(() => isThere(before)).toBe(true);
  const save = async () => {
    await redis.commands.bgsave();
    await eventually(() => redis.commands.info()).toContain('rdb_bgsave_in_progress:0');
  };
  // A folder takes the place of the file.
  const obstacle = join(redisServer.dataDir, 'dump.rdb');
  rmSync(obstacle, { recursive: true, force: true });
  mkdirSync(join(obstacle, 'inside'), { recursive: true });
  await redis.commands.config('SET', 'save', '3600 1');
  await save();
  const during = await click();
  await eventually(() => feed.counters.redis_failures).toBeGreaterThan(2);
  expect(await isThere(during)).toBe(false);
  expect(lines).toEqual([expect.stringContaining('MISCONF')]);
  rmSync(obstacle, { recursive: true });
  await save();
  await eventually(() => isThere(during)).toBe(true);
  // The click may be visible in Redis before the feed receives the reply.
  await eventually(() => lines).toEqual([expect.stringContaining('MISCONF'), 'Redis accepts recent clicks again']);
  await redis.commands.config('SET', 'save', '');
});

test('a click that only Redis refuses is retried and does not end ingest', async () => {
  const feed = await startFeed();
  const first = await click();
  await eventually(() => isThere(first)).toBe(true);
  const [atAddress] = await redis.commands.keys('near:app_*');
  await redis.commands.del(atAddress ?? '');
  await redis.commands.lpush(atAddress ?? '', 'of another kind');
  const second = await click();
  await eventually(() => feed.counters.redis_failures).toBeGreaterThan(1);
  await redis.commands.del(atAddress ?? '');
  const near = async () => (await clicks.gather(atAddress?.split(':')[1] ?? '', '', '8.8.8.8', [])).near;
  await eventually(async () => (await near()).map(({ click_id }) => click_id)).toContain(second);
  expect(lines[0]).toContain('WRONGTYPE');
});

const iphone = 'Mozilla/5.0 (iPhone; CPU iPhone OS 17_4 like Mac OS X) AppleWebKit/605.1.15 Version/17.4 Safari/604.1';
const android = 'Mozilla/5.0 (Linux; Android 14; Pixel 8) AppleWebKit/537.36 Chrome/120.0.0.0 Mobile Safari/537.36';
const mac =
  'Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.4 Safari/605.1.15';
const windows = 'Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 Chrome/120.0.0.0 Safari/537.36';

test('only clicks of people on a platform of their app are stored by address, within its window', async () => {
  const [ios, both, none] = [newId('app', 1), newId('app', 2), newId('app', 3)];
  const facts = { ...defaultFacts, probabilistic_window_hours: 1 };
  const apps = new KnownApps(
    async () =>
      new Map([
        [ios, { ...facts, has_android: false }],
        [both, facts],
        [none, { ...facts, has_ios: false, has_android: false }],
      ]),
    Date.now,
  );
  await startFeed({ apps });
  const of = (app_id: string, user_agent: string, more: Partial<Click> = {}) => click({ app_id, user_agent, ...more });
  const wanted = new Map([
    [ios, [await of(ios, iphone), await of(ios, mac)]],
    [both, [await of(both, iphone), await of(both, android), await of(both, mac)]],
    [none, []],
  ]);
  const kept = [...wanted.values()].flat();
  const others = [
    await of(ios, android),
    await of(none, iphone),
    await of(both, windows),
    await of(both, 'Googlebot/2.1'),
    await of(both, iphone, { is_preview: true }),
    await of(both, iphone, { is_prefetch: true }),
    await of(both, iphone, { trigger: 'universal_link' }),
    await of(both, iphone, { privacy_mode: 'no_ip' }),
    await of(both, iphone, { time: Date.now() - 61 * 60_000 }),
  ];
  const last = await of(both, iphone);
  await eventually(() => isThere(last)).toBe(true);
  for (const [app_id, ids] of wanted) {
    const { near } = await clicks.gather(app_id, '', '8.8.8.8', []);
    const found = near.map(({ click_id }) => click_id).filter((id) => id !== last);
    expect(found.sort(), app_id).toEqual(ids.toSorted());
  }
  // By its id, each recent click is available for some minutes.
  const known = await clicks.byIds([...kept, ...others]);
  expect(known.map((one) => one !== null)).toEqual([...kept, ...others].map((_, at) => at !== kept.length + 8));
  expect(known.slice(kept.length, -1).map((one) => one?.is_bot)).toEqual([
    ...[false, false, false, true, true, true, false, false],
  ]);
});

test('clicks that Redis has lost are restored soon, even if no new clicks arrive', async () => {
  const feed = await startFeed();
  const lost = await click();
  await eventually(() => isThere(lost)).toBe(true);
  await eventually(storedAgeMs).toBeLessThan(HOUR_MS);
  await redisServer.kill('SIGKILL');
  await redisServer.restart({ isWiped: true });
  await eventually(() => isThere(lost)).toBe(true);
  expect(feed.counters.rereads).toBe(1);
});

test('if a feed dies while it rereads lost clicks, its successor rereads them', async () => {
  const positions: number[] = [];
  const watched = new RecentClicks(redis);
  const feed = await startFeed({ clicks: watched });
  const lost = await click();
  await eventually(() => isThere(lost)).toBe(true);
  await eventually(storedAgeMs).toBeLessThan(HOUR_MS);
  watched.put = async () => {
    positions.push((await stored())?.[1] ?? 0);
    feed.stop();
  };
  await redis.commands.flushall();
  await eventually(() => positions.length).toBe(1);
  expect(positions[0]).toBeLessThan(Date.now() - 5 * HOUR_MS);
  await startFeed();
  await eventually(() => isThere(lost)).toBe(true);
});

test('while a reread has to wait, the stored position is where it will begin, so that a successor can continue', {
  tags: ['slow'],
}, async () => {
  let aheadMs = 0;
  const feed = await startFeed({ time: { ...systemTime, elapsed: () => systemTime.elapsed() + aheadMs } });
  const newest = await click();
  await eventually(() => isThere(newest)).toBe(true);
  await redis.commands.flushall();
  await eventually(() => feed.counters.rereads).toBe(1);
  await eventually(storedAgeMs).toBeLessThan(HOUR_MS);
  // Lost once more, within the pause between two rereads.
  await redis.commands.flushall();
  await eventually(() => redis.commands.exists(positionKey)).toBe(1);
  expect(await storedAgeMs()).toBeGreaterThan(5 * HOUR_MS);
  expect(feed.counters.rereads).toBe(1);
  aheadMs = 120_000;
  await eventually(() => feed.counters.rereads).toBe(2);
  await eventually(storedAgeMs).toBeLessThan(HOUR_MS);
});

test('clicks that Redis lost are reread even if another feed of the partition saw the loss first, waited, and ended', async () => {
  const feed = await startFeed();
  const lost = await click();
  await eventually(() => isThere(lost)).toBe(true);
  await eventually(storedAgeMs).toBeLessThan(HOUR_MS);
  const begin = Date.now() - 6 * HOUR_MS;
  await redis.commands.multi().flushall().set(positionKey, `${begin} ${begin}`).exec();
  await eventually(() => isThere(lost)).toBe(true);
  expect(feed.counters.rereads).toBe(1);
});

test('a feed that lags behind another feed of its partition does not set the position back', async () => {
  const feed = await startFeed();
  const first = await click();
  await eventually(() => isThere(first)).toBe(true);
  const [begin] = (await stored()) ?? [];
  const ahead = Date.now() + HOUR_MS;
  await redis.commands.set(positionKey, `${begin} ${ahead}`);
  const second = await click();
  await eventually(() => isThere(second)).toBe(true);
  const script = vi.spyOn(redis.commands, 'evalsha');
  await eventually(() => script.mock.calls.filter(([, , key]) => key === positionKey).length).toBeGreaterThan(1);
  script.mockRestore();
  expect(await stored()).toEqual([begin, ahead]);
  expect(feed.counters.rereads).toBe(0);
});

test('a stopped feed sends nothing more to Redis', async () => {
  const open = new Set<object>();
  const time: Time = {
    ...systemTime,
    every: (ms, callback) => {
      const timer = systemTime.every(ms, callback);
      open.add(timer);
      return timer;
    },
    clear: (timer) => {
      systemTime.clear(timer);
      if (timer) open.delete(timer);
    },
  };
  const feed = await startFeed({ time });
  expect(open.size).toBeGreaterThan(0);
  feed.stop();
  expect(open.size).toBe(0);
});

test('a full Redis that evicts nothing does not stop the feed: newer clicks are stored once there is room', async (context) => {
  const setMemory = (policy: string, bytes: string) =>
    redis.commands.config('SET', 'maxmemory-policy', policy, 'maxmemory', bytes);
  // The stand-in has no memory limit, whatever it answers to CONFIG SET.
  skipWithout(!findRedis().isStandIn, 'redis-server', context);
  await setMemory('volatile-lru', '0');
  let aheadMs = 0;
  const feed = await startFeed({ time: { ...systemTime, elapsed: () => systemTime.elapsed() + aheadMs } });
  const before = await click();
  await eventually(() => isThere(before)).toBe(true);
  await setMemory('noeviction', '1');
  try {
    await click();
    await eventually(() => feed.counters.redis_failures).toBeGreaterThan(1);
    expect(lines).toEqual([expect.stringContaining('OOM')]);
    expect(feed.counters.clicks_skipped).toBe(0);
    aheadMs = 10_000;
    await eventually(() => feed.counters.clicks_skipped).toBeGreaterThan(0);
  } finally {
    await setMemory('volatile-lru', '0');
  }
  const after = await click();
  await eventually(() => isThere(after)).toBe(true);
  expect(feed.counters.rereads).toBe(0);
});

test('a Redis that repeatedly evicts the feed’s position does not make it start over each time', {
  tags: ['slow'],
}, async () => {
  const feed = await startFeed();
  for (let round = 0; round < 3; round++) {
    await redis.commands.del(positionKey);
    await eventually(() => redis.commands.exists(positionKey)).toBe(1);
  }
  const last = await click();
  await eventually(() => isThere(last)).toBe(true);
  expect(feed.counters.rereads).toBe(1);
});
