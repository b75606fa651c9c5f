import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { newId } from '#common/ids.ts';
import { Journal, type JournalLane } from '#common/journal/journal.ts';
import { eventJson, eventPrefix } from '#common/log/event-record.ts';
import { partitionOf } from '#common/log/partition.ts';
import { Postgres } from '#common/stores/postgres.ts';
import { whenQuiet } from '#testing/busy-machine.ts';
import { redisForTest, type TestServer } from '#testing/servers.ts';
import type { Ingest } from './ingest.ts';
import { PipelineHarness } from './testing/pipeline-harness.ts';

const organization_id = newId('org', 1);
let app_id = '';
let way: PipelineHarness;
let db: Postgres;
let redis: TestServer;
const here: Ingest[] = [];

beforeAll(async () => {
  [way, redis] = await Promise.all([PipelineHarness.start(), redisForTest()]);
  db = new Postgres({ url: way.postgres.url, name: 'test' });
});
beforeEach(() => {
  app_id = newId('app', Date.now());
});
afterEach(async () => {
  way.more = {};
  await Promise.all(here.splice(0).map((ingest) => ingest.stop()));
  await way.stopIngests();
  await db.execute('DELETE FROM ingest.member');
  await db.execute('DELETE FROM ingest.stray');
});
afterAll(async () => {
  for (const edge of edges.values()) await (await edge).close();
  await db.close();
  await Promise.all([way.stop(), redis.stop()]);
});

const patience = { timeout: 45_000, interval: 100 };
const long = 120_000;

/** How many partitions each live ingest owns, most first. */
async function shares(): Promise<number[]> {
  const rows = await db.query<{ n: number }>(
    `SELECT count(*) FILTER (WHERE l.expires_at > now()) AS n FROM ingest.member m LEFT JOIN ingest.lease l ON l.owner = m.owner
      WHERE m.expires_at > now() GROUP BY m.owner ORDER BY n DESC`,
  );
  return rows.map(({ n }) => n);
}

function event(event_id: string): string {
  const now = Date.now();
  const origin = { organization_id, app_id, received_at: now, ip: '8.8.8.8', privacy_mode: 'full_ip' as const };
  const decision = {
    ...{ event_id, time: now, revenue_amount: '', revenue_currency: '', is_conversion: false },
    ...{ is_id_made: false, linkFields: '' },
  };
  return eventJson(eventPrefix({ ...origin, defaults: {} }), decision, JSON.stringify({ name: 'open' }));
}

/** An edge runs with a fixed number of partitions: one journal for each number. */
const edges = new Map<number, Promise<Journal>>();
const lanes = new Set<JournalLane>();

function edgeOf(partitions: number): Promise<Journal> {
  const known = edges.get(partitions);
  if (known) return known;
  const root = join(way.folder, 'journal');
  const opened = Journal.open({
    root,
    slot: `edge-of-${partitions}`,
    segmentBytes: 100_000,
    bytesMax: 1e9,
    sync: 'after_answer',
  });
  edges.set(partitions, opened);
  return opened;
}

async function keepEvents(ids: readonly string[], partitions: number): Promise<void> {
  const journal = await edgeOf(partitions);
  await Promise.all(
    ids.map(
      (id) =>
        new Promise<void>((done, fail) => {
          const lane = journal.lane('event', partitionOf(app_id, id, partitions));
          lanes.add(lane);
          journal.append(lane, event(id), { committed: done, refused: () => fail(new Error('refused')) });
        }),
    ),
  );
}

/** Frames of journals that are not committed yet. */
async function uncommitted(): Promise<number> {
  const rows = await db.query<{ frames: number }>(
    `SELECT coalesce(sum(mark + (SELECT coalesce(sum((range->>1)::bigint - (range->>0)::bigint + 1), 0)
       FROM jsonb_array_elements(ahead) AS range)), 0)::bigint AS frames FROM ingest.mark WHERE kind = 'event'`,
  );
  let appended = 0;
  for (const { frame_no } of lanes) appended += frame_no;
  return appended - (rows[0]?.frames ?? 0);
}

async function stored(): Promise<{ rows: number; ids: number }> {
  const [row] = await way.client.query<{ rows: number; ids: number }>(
    'SELECT count() AS rows, uniqExact(event_id) AS ids FROM events WHERE app_id = {app_id:String}',
    { app_id },
  );
  return { rows: Number(row?.rows), ids: Number(row?.ids) };
}

async function ingestHere(instance: string, more: Record<string, string>): Promise<Ingest> {
  way.more = more;
  const ingest = await way.ingestHere(instance);
  here.push(ingest);
  ingest.start();
  return ingest;
}

test('ingest processes share the partitions, take over those of a dead process within ten seconds, and give some to a new one', {
  tags: ['slow'],
  timeout: long,
}, async () => {
  // The default.
  way.more = { LOG_PARTITIONS: '5', LEASE_SECONDS: '6' };
  const first = way.ingest('', 'a');
  await expect.poll(shares, patience).toEqual([5]);
  const second = way.ingest('', 'b');
  await expect.poll(shares, patience).toEqual([3, 2]);
  second.process.kill('SIGKILL');
  await second.exited;
  const diedAt = performance.now();
  await expect.poll(shares, patience).toEqual([5]);
  expect(performance.now() - diedAt).toBeLessThan(whenQuiet(10_000));
  way.ingest('', 'c');
  await expect.poll(shares, patience).toEqual([3, 2]);
  await first.stop();
  const leftAt = performance.now();
  await expect.poll(shares, patience).toEqual([5]);
  expect(performance.now() - leftAt).toBeLessThan(whenQuiet(10_000));
  await way.keep(500, 5, 5);
  await expect.poll(() => way.figures(), patience).toEqual(way.wanted);
});

test('with several ingest processes whose feeds follow the log, each click is written to Redis once', {
  tags: ['slow'],
  timeout: long,
}, async () => {
  const settings = { LOG_PARTITIONS: '5', REDIS_URL: redis.url };
  const [a, b] = [await ingestHere('a', settings), await ingestHere('b', settings)];
  await expect.poll(shares, patience).toEqual([3, 2]);
  const fed = () => [a.feedCounters.clicks, b.feedCounters.clicks] as const;
  const since = ([ofA, ofB]: readonly [number, number]) => [fed()[0] - ofA, fed()[1] - ofB].sort((x, y) => x - y);
  // A feed that begins to follow uses two readers for a moment, and may write a click twice then.
  const whileChanging = async () => {
    const before = fed();
    await way.keep(25, 5, 5);
    await expect.poll(() => way.figures(), patience).toEqual(way.wanted);
    const { own_readers_stopped } = a.feedCounters;
    return [own_readers_stopped + b.feedCounters.own_readers_stopped, ...since(before)];
  };
  await expect.poll(whileChanging, patience).toEqual([5, 10, 15]);
  const before = fed();
  await way.keep(200, 5, 5);
  // Each process feeds the clicks of its own partitions.
  await expect.poll(() => since(before), patience).toEqual([80, 120]);
  await expect.poll(() => way.figures(), patience).toEqual(way.wanted);
  expect(since(before)).toEqual([80, 120]);
});

test('an event that is resent while the number of partitions goes from 1 to 4 to 2 is counted once, with two ingest processes', {
  tags: ['slow'],
  timeout: long,
}, async () => {
  let sent = 0;
  const send = async (layouts: readonly number[], count: number) => {
    const ids = Array.from({ length: count }, () => `e${sent++}`);
    for (let from = 0; from < ids.length; from += 25) {
      // Edges change one after another, so a client's repeats meet both numbers at the same time.
      await Promise.all(layouts.map((partitions) => keepEvents(ids.slice(from, from + 25), partitions)));
    }
  };
  for (const [before, after] of [
    [1, 4],
    [4, 2],
  ] as const) {
    await ingestHere('a', { LOG_PARTITIONS: String(before) });
    await ingestHere('b', { LOG_PARTITIONS: String(before) });
    await send([before], 200);
    const changing = send([before, after, before], 1_000);
    await here.shift()?.stop();
    await ingestHere('a', { LOG_PARTITIONS: String(after) });
    await send([after, before], 200);
    await here.shift()?.stop();
    await ingestHere('b', { LOG_PARTITIONS: String(after) });
    await changing;
    await send([before, after], 200);
    await expect.poll(uncommitted, patience).toBe(0);
    expect(await stored()).toEqual({ rows: sent, ids: sent });
    await Promise.all(here.splice(0).map((ingest) => ingest.stop()));
  }
});

test('records in a partition beyond LOG_PARTITIONS are read', {
  tags: ['slow'],
  timeout: long,
}, async () => {
  const ids = Array.from({ length: 300 }, (_, n) => `r${n}`);
  await ingestHere('a', { LOG_PARTITIONS: '4' });
  await keepEvents(ids.slice(0, 150), 4);
  await here.shift()?.stop();
  await keepEvents(ids.slice(150), 4);
  const ingest = await ingestHere('a', { LOG_PARTITIONS: '1' });
  await expect.poll(uncommitted, patience).toBe(0);
  expect(await stored()).toEqual({ rows: 300, ids: 300 });
  await expect.poll(() => ingest.partitions.of(3)?.state, patience).toBe('running');
});

test(
  'an operator’s request for a partition of which nothing else is known is carried out',
  async () => {
    await db.execute('INSERT INTO ingest.revision (partition, replay_from) VALUES (9, 0)');
    const isDone = async () => (await db.query('SELECT FROM ingest.revision WHERE done_at IS NULL')).length === 0;
    await ingestHere('a', { LOG_PARTITIONS: '1' });
    await expect.poll(isDone, patience).toBe(true);
  },
  long,
);

test('an ingest is ready when it runs its share; rows that are dated a year ahead take none of it, a living owner elsewhere does', {
  timeout: long,
}, async () => {
  const lease = (owner: string, end: string) =>
    db.execute(
      `INSERT INTO ingest.lease AS l (partition, owner, epoch, expires_at) VALUES (0, $1, 1, now() + $2::interval)
       ON CONFLICT (partition) DO UPDATE SET owner = excluded.owner, epoch = l.epoch + 1, expires_at = excluded.expires_at`,
      [owner, end],
    );
  await lease('elsewhere/a', '5 minutes');
  const ingest = await ingestHere('ready', { LOG_PARTITIONS: '2' });
  expect(ingest.partitions.readiness).toEqual(expect.any(String));
  await expect.poll(() => ingest.partitions.readiness, patience).toMatch(/^runs \d of the \d partitions/);
  await lease('pod-7/a', '1 year');
  await db.execute(
    `INSERT INTO ingest.member (owner, partitions, joined_at, expires_at) VALUES ('pod-7/a', 9, '2020-01-01', now() + interval '1 year')`,
  );
  await expect.poll(() => ingest.partitions.readiness, patience).toBe(true);
  await expect.poll(() => ingest.partitions.of(0)?.state, patience).toBe('running');
});
