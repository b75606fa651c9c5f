/**
 * Measures the cost of recent clicks in Redis: memory by kind of key, and CPU per click. `node deploy/packages/run.mjs
 * bench/micro/recent-clicks.ts [clicks ...]`
 *
 * The mix: 60 % people on a phone of an app that has the platform, 25 % on desktops, 10 % bots and previews, 5 % phones
 * of an app without the platform; 20,000 per second; a third with a query; three of ten addresses belong to a carrier,
 * with 50 clicks each.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { treeCpuUs } from '#bench/load/subject.ts';
import { AddressWriter } from '#common/address-writer.ts';
import { type ClickToPut, RecentClicks } from '#common/attribution/recent-clicks.ts';
import { HOUR_MS } from '#common/durations.ts';
import { newId } from '#common/ids.ts';
import { seededRandom } from '#common/seeded-random.ts';
import { Redis } from '#common/stores/redis.ts';
import { startRedis } from '#deploy/local/redis.ts';

const counts = process.argv.slice(2).map(Number);
const clicksPerSecond = 20_000;
/** Clicks per write of the feed, and concurrent writes. */
const [perWrite, atOnce] = [200, 4];
const [apps, links] = [20, 10_000];

const random = seededRandom(5);
const names = new AddressWriter('a key for the bench, long enough for it');
const appIds = Array.from({ length: apps }, () => newId('app', 1));
const linkIds = Array.from({ length: links }, () => newId('lnk', 1));
const languages = ['de-DE,de;q=0.9,en;q=0.8', 'en-US,en;q=0.9', 'fr-FR,fr;q=0.9,en;q=0.8', 'pt-BR,pt;q=0.9'];

function agentOf(n: number): string {
  return n % 2 === 0
    ? `Mozilla/5.0 (iPhone; CPU iPhone OS 17_${n % 9} like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.${n % 9} Mobile/15E148 Safari/604.1`
    : `Mozilla/5.0 (Linux; Android 14; Pixel ${n % 9}) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/${100 + (n % 30)}.0.0.0 Mobile Safari/537.36`;
}

function clickAt(n: number, beganMs: number): ClickToPut {
  const time = beganMs + Math.floor((n * 1000) / clicksPerSecond);
  const link = Math.floor(random() ** 3 * links);
  const kind = random();
  const isShared = random() < 0.3;
  const address = isShared ? Math.floor(n / 167) : n;
  const ip = `${isShared ? 20 : 40 + ((address >> 24) & 63)}.${(address >> 16) & 255}.${(address >> 8) & 255}.${address & 255}`;
  const click = {
    click_id: newId('clk', time),
    app_id: appIds[link % apps] ?? '',
    link_id: linkIds[link] ?? '',
    time,
    query: link % 3 === 0 ? 'ref=mail&position=2' : '',
    ...{ campaign: `campaign-${link % 100}`, utm_source: 'mail', utm_medium: '', utm_campaign: 'summer' },
    ...{ utm_term: '', utm_content: '' },
  };
  const browser = { user_agent: agentOf(n), language: languages[n % 4] ?? '' };
  const place = { address: names.ofDevice(ip, 'anonymize_ip'), browser, windowMs: 6 * HOUR_MS };
  return { click, is_bot: kind >= 0.9, near: kind < 0.6 ? place : null };
}

async function measure(count: number): Promise<object> {
  const dataDir = mkdtempSync(join(tmpdir(), 'recent-clicks-'));
  const server = await startRedis({ dataDir, bytesMax: 8_000_000_000 });
  const redis = new Redis({ url: server.url, name: 'bench', commandTimeoutMs: 60_000 });
  await redis.connect();
  const clicks = new RecentClicks(redis);
  const memory = async () => Number(/used_memory:(\d+)/.exec(await redis.commands.info('memory'))?.[1]);
  const [bytesBefore, cpuBefore, ownBefore] = [await memory(), treeCpuUs(server.pid), process.cpuUsage()];
  let mobile = 0;
  const beganMs = Date.now();
  const writes: Promise<void>[] = [];
  for (let from = 0; from < count; from += perWrite) {
    const some = Array.from({ length: Math.min(perWrite, count - from) }, (_, at) => clickAt(from + at, beganMs));
    mobile += some.filter(({ near }) => near !== null).length;
    writes.push(clicks.put(some));
    if (writes.length >= atOnce) await writes.shift();
  }
  await Promise.all(writes);
  const own = process.cpuUsage(ownBefore);
  const redisUs = (treeCpuUs(server.pid) - cpuBefore) / count;
  const bytes = (await memory()) - bytesBefore;
  const kinds: Record<string, { keys: number; bytes: number }> = {};
  let cursor = '0';
  do {
    const [next, keys] = await redis.commands.scan(cursor, 'COUNT', 5_000);
    cursor = next;
    const sizes = await Promise.all(keys.map((key) => redis.commands.memory('USAGE', key)));
    for (const [at, key] of keys.entries()) {
      const of = key.slice(0, key.indexOf(':'));
      kinds[of] ??= { keys: 0, bytes: 0 };
      const kind = kinds[of];
      kind.keys++;
      kind.bytes += sizes[at] ?? 0;
    }
  } while (cursor !== '0');
  const near = kinds['near']?.bytes ?? 0;
  const byId = kinds['clicks']?.bytes ?? 0;
  await redis.close();
  await server.stop();
  rmSync(dataDir, { recursive: true });
  return {
    clicks: count,
    mobile,
    used_memory_per_click: Math.round(bytes / count),
    kinds,
    near_bytes_per_mobile_click: Math.round(near / mobile),
    by_id_bytes_per_click: Math.round(byId / count),
    redis_cpu_us: Math.round(redisUs * 100) / 100,
    own_cpu_us_with_making: Math.round(((own.user + own.system) / count) * 100) / 100,
  };
}

for (const count of counts.length > 0 ? counts : [100_000, 1_000_000]) {
  console.log(JSON.stringify(await measure(count), null, 2));
}
