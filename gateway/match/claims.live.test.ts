import { afterAll, beforeAll, expect, test } from 'vitest';
import { RecentClicks } from '#common/attribution/recent-clicks.ts';
import { HOUR_MS } from '#common/durations.ts';
import { newId } from '#common/ids.ts';
import { Postgres } from '#common/stores/postgres.ts';
import { SdkEdge } from '#gateway/testing/sdk-edge.ts';
import type { TestServer } from '#testing/servers.ts';
import { type NewClaim, PostgresClaimStore } from './claim-store.ts';
import { Claims } from './claims.ts';

const safari =
  'Mozilla/5.0 (iPhone; CPU iPhone OS 17_5_1 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.5 Mobile/15E148 Safari/604.1';
const iphone = { platform: 'ios', os_version: '17.5.1', device_model: 'iPhone15,2', language: 'en_US' };

let edge: SdkEdge;
let postgres: TestServer;
let clicks: RecentClicks;
beforeAll(async () => {
  ({ edge, postgres } = await SdkEdge.startWithPostgres());
  clicks = new RecentClicks(edge.redis);
});
afterAll(async () => {
  await edge.stop();
  expect(edge.failures).toEqual([]);
});

interface Place {
  readonly app_id: string;
  readonly key: string;
  readonly link_id: string;
}

async function place(settings = {}): Promise<Place> {
  const app = await edge.app(settings);
  return { ...app, link_id: await edge.link(app.app_id, 'summer') };
}

/** Stores a click as ingest does; `again` simulates that Redis has lost it. */
async function click(
  { app_id, link_id }: Place,
  ageMs = 60_000,
): Promise<{ click_id: string; again(): Promise<void> }> {
  const time = Date.now() - ageMs;
  const click_id = newId('clk', time);
  const utm = { utm_source: '', utm_medium: '', utm_campaign: '', utm_term: '', utm_content: '' };
  const recent = { click_id, app_id, link_id, time, query: '', campaign: '', ...utm };
  const browser = { user_agent: safari, language: 'en-US' };
  const again = () =>
    clicks.put([{ click: recent, is_bot: false, near: { address: '198.51.100.7', browser, windowMs: 6 * HOUR_MS } }]);
  await again();
  return { click_id, again };
}

async function match({ key }: Place, body: object) {
  return await edge.post('/sdk/match', key, { ...iphone, ...body });
}

test('a named click stays with its device after Redis lost everything, and the device gets the same answer', async () => {
  const app = await place();
  const { click_id, again } = await click(app);
  const first = await match(app, { click_id, device_id: 'd1' });
  expect(first.body).toMatchObject({ matched: true, click_id });
  await edge.redis.commands.flushall();
  await again();
  expect((await match(app, { click_id, device_id: 'd2' })).body).toMatchObject({ matched: false, click_id: null });
  expect((await match(app, { click_id, device_id: 'd1' })).body).toEqual(first.body);
});

test('a click found by its address stays with its device after Redis lost everything', async () => {
  const app = await place();
  const { click_id, again } = await click(app);
  const first = await match(app, { device_id: 'd1' });
  expect(first.body).toMatchObject({ match_type: 'probabilistic', click_id });
  await edge.redis.commands.flushall();
  await again();
  expect((await match(app, { device_id: 'd2' })).body.match_type).toBe('none');
  await edge.redis.commands.flushall();
  // The click is no longer listed at its address; the device still gets its answer.
  expect((await match(app, { device_id: 'd1' })).body).toEqual(first.body);
});

test('a click with a claim that Redis has lost does not make another link ambiguous', async () => {
  const app = await place();
  const taken = await click(app);
  await match(app, { click_id: taken.click_id, device_id: 'd1' });
  await edge.redis.commands.flushall();
  await taken.again();
  const other = await click({ ...app, link_id: await edge.link(app.app_id, 'winter') }, 61_000);
  expect((await match(app, { device_id: 'd2' })).body).toMatchObject({
    match_type: 'probabilistic',
    click_id: other.click_id,
  });
});

test('an install finds its match by match_id after Redis lost everything', async () => {
  const app = await place();
  const { click_id } = await click(app);
  const { match_id } = (await match(app, { click_id })).body;
  await edge.redis.commands.flushall();
  const install = { platform: 'ios', device_id: 'd1', match_id };
  expect((await edge.post('/sdk/install', app.key, install)).body).toMatchObject({ attributed: true, click_id });
});

test('while Postgres is unavailable, a match that claims a click gets 500 with Retry-After, and others are answered', async () => {
  const app = await place({ probabilistic_window_hours: 0 });
  const { click_id, again } = await click(app);
  const kept = await match(app, { click_id: (await click(app)).click_id, device_id: 'd1' });
  await postgres.kill('SIGKILL');
  try {
    expect((await match(app, { device_id: 'd2' })).body).toMatchObject({ matched: false });
    expect((await match(app, { device_id: 'd1' })).body).toMatchObject({ match_id: kept.body.match_id });
    const refused = await match(app, { click_id, device_id: 'd3' });
    expect([refused.status, refused.body.error.code]).toEqual([500, 'INTERNAL_ERROR']);
    expect(refused.headers.get('retry-after')).not.toBeNull();
  } finally {
    await postgres.restart();
    await expect.poll(() => edge.db.isReady(), { timeout: 10_000 }).toBe(true);
  }
  await again();
  expect((await match(app, { click_id, device_id: 'd3' })).body).toMatchObject({ matched: true, click_id });
});

test('if devices request the same clicks from two processes at once, each click goes to one device and each device gets one click', async () => {
  const [one, two] = [1, 2].map((n) => new Postgres({ url: postgres.url, name: `edge-${n}` }));
  if (!one || !two) throw new Error('two processes were started');
  const processes = [one, two].map((db) => new Claims(new PostgresClaimStore(db)));
  const app_id = newId('app', 1);
  const ids = Array.from({ length: 50 }, () => newId('clk', Date.now()));
  const asked = ids.flatMap((click_id, at) =>
    processes.flatMap((claims) =>
      [at, 49 - at].map(async (device) => {
        const claim: NewClaim = {
          ...{ click_id, app_id, device: `d${device}\0`, match_id: newId('mat', Date.now()), answer: '{}', hours: 1 },
          ...{ is_first: true, clicked_at: Date.now(), install_name: '' },
        };
        return { claim, outcome: await claims.claim(claim) };
      }),
    ),
  );
  const claimed = (await Promise.all(asked)).filter(({ outcome }) => outcome.state === 'claimed');
  const rows = await edge.db.query<{ click_id: string; device: string }>(
    'SELECT click_id, device FROM claims WHERE app_id = $1',
    [app_id],
  );
  expect(rows).toHaveLength(claimed.length);
  expect(new Set(rows.map(({ click_id }) => click_id)).size).toBe(rows.length);
  expect(new Set(rows.map(({ device }) => device)).size).toBe(rows.length);
  await Promise.all([one.close(), two.close()]);
});

// Last, because it leaves key lookups in Postgres running for a moment.
test('with a full Redis that rejects writes, matching works, and a click goes to one device only', async (context) => {
  const app = await place();
  const { click_id } = await click(app);
  const isFull = edge.redis.commands.config('SET', 'maxmemory-policy', 'noeviction', 'maxmemory', '1');
  context.skip((await isFull.catch(() => null)) === null, 'the Redis stand-in has no memory limit');
  try {
    const first = await match(app, { click_id, device_id: 'd1' });
    expect([first.status, first.body.click_id]).toEqual([200, click_id]);
    expect((await match(app, { click_id, device_id: 'd2' })).body.matched).toBe(false);
    expect((await match(app, { click_id, device_id: 'd1' })).body).toEqual(first.body);
  } finally {
    await edge.redis.commands.config('SET', 'maxmemory-policy', 'volatile-lru', 'maxmemory', '0');
  }
});
