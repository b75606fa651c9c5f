/**
 * Empties, kills and freezes Redis while devices send requests: events are accepted, a named click is matched or
 * requested again later, and installs count once.
 */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { sleep, systemTime } from '#common/time.ts';
import { times } from './fault-sizes.ts';
import { RedisWire } from './redis-wire.ts';
import { Stage } from './stage.ts';

const ANSWER_MS_MAX = 5_000;
const installsEach = times(20);

let stage: Stage;
beforeAll(async () => {
  stage = await Stage.start({ settings: { RATE_LIMIT_MATCH: '1000000', RATE_LIMIT_GENERAL: '1000000' } });
});
afterAll(() => stage.stop());

const post = async (path: string, body: object) => {
  const startedMs = Date.now();
  const reply = await stage.stack.api(path, { method: 'POST', headers: { 'x-api-key': stage.apiKey }, body });
  expect(Date.now() - startedMs).toBeLessThan(ANSWER_MS_MAX);
  return reply;
};

/** Clicks of a new link that have reached ClickHouse. */
async function clicksOf(path: string, count: number): Promise<string[]> {
  const link = await stage.newLink(path);
  const headers = { host: stage.host, 'user-agent': 'Mozilla/5.0 (Linux; Android 14; Pixel 8) Chrome/124.0 Mobile' };
  for (let n = 0; n < count; n++) await stage.stack.redirector(`/${link.short_code}?n=${n}`, { headers });
  const stored = async () =>
    (await stage.stored.ask(`SELECT click_id FROM clicks WHERE link_id = '${link.id}'`)).split('\n');
  await expect.poll(async () => (await stored()).length, { timeout: 20_000 }).toBe(count);
  return await stored();
}

const faults: Record<string, { hurt: () => Promise<void>; heal: () => Promise<void>; isAway: boolean }> = {
  emptied: {
    hurt: () => RedisWire.send(stage.stores.redis.directUrl, 'FLUSHALL').then(() => undefined),
    heal: () => Promise.resolve(),
    isAway: false,
  },
  killed: {
    hurt: () => stage.stores.redis.kill(),
    heal: () => stage.stores.redis.start(),
    isAway: true,
  },
  frozen: {
    hurt: () => Promise.resolve(stage.stores.redis.freeze()),
    heal: () => Promise.resolve(stage.stores.redis.thaw()),
    isAway: true,
  },
};

test.each(Object.entries(faults))('with Redis %s, each install counts once', async (name, { hurt, heal, isAway }) => {
  const clicks = await clicksOf(`/redis-${name}`, installsEach * 2);
  const [matched, installed] = [clicks.slice(0, installsEach), clicks.slice(installsEach)];
  await post('/sdk/events', { name: 'warm', device_id: 'd' });
  await hurt();
  const seen: Record<string, number> = {};
  const note = (what: string, reply: { status: number; headers: Readonly<Record<string, unknown>> }) => {
    seen[`${what} ${reply.status}`] = (seen[`${what} ${reply.status}`] ?? 0) + 1;
    if (reply.status === 500) expect(Number(reply.headers['retry-after'])).toBeGreaterThan(0);
  };
  for (let n = 0; n < 10; n++) {
    const event = await post('/sdk/events', { name: 'e', device_id: 'd', event_id: `redis-${name}-${n}` });
    note('event', event);
    expect(event.status).toBe(202);
  }
  for (const [n, click_id] of matched.entries()) {
    const reply = await post('/sdk/match', { platform: 'android', click_id, device_id: `m-${name}-${n}` });
    note('match', reply);
    if (reply.status === 200) expect(reply.json<{ click_id: string }>().click_id).toBe(click_id);
    else expect([reply.status, isAway]).toEqual([500, true]);
  }
  const install = (click_id: string, n: number) =>
    post('/sdk/install', { platform: 'android', click_id, install_id: `i-${name}-${n}`, device_id: `i-${name}-${n}` });
  for (const [n, click_id] of installed.entries()) note('install', await install(click_id, n));
  await heal();
  console.log(`redis ${name}: ${JSON.stringify(seen)}`);
  // Whatever the responses until now, each device repeats its request until it succeeds, and then once more: each click
  // gives one install.
  for (const [n, click_id] of installed.entries()) {
    for (let tries = 0; ; tries++) {
      const reply = await install(click_id, n);
      if (reply.status < 300) {
        expect(reply.json<{ attributed: boolean }>().attributed).toBe(true);
        break;
      }
      if (tries > 50) throw new Error(`no install after Redis was back: ${reply.text}`);
      await sleep(systemTime, 200);
    }
    expect((await install(click_id, n)).json<{ duplicate: boolean }>().duplicate).toBe(true);
  }
  const counted = async () =>
    await stage.stored.ask(
      `SELECT count(), uniqExact(install_id), uniqExact(click_id) FROM installs WHERE startsWith(install_id, 'i-${name}-') FORMAT TSV`,
    );
  await expect.poll(counted, { timeout: 30_000 }).toBe(`${installsEach}\t${installsEach}\t${installsEach}`);
});
