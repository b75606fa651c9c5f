/**
 * Measures POST /sdk/match over HTTP: at full speed, then at half of that rate, with each latency measured from when
 * the request was due.
 */
import { parseArgs } from 'node:util';
import { AddressWriter } from '#common/address-writer.ts';
import { RecentClicks } from '#common/attribution/recent-clicks.ts';
import { campaignFrom } from '#common/campaign-fields.ts';
import { HOUR_MS } from '#common/durations.ts';
import { newId } from '#common/ids.ts';
import { Redis } from '#common/stores/redis.ts';
import { post, type RequestOf } from './post-client.ts';
import { writeResult } from './result-file.ts';
import { openSdkStage, requestBytes, type SdkStage } from './sdk-stage.ts';
import { treeCpuUs } from './subject.ts';

const CLICKS_PER_ADDRESS = 3;
/** Addresses whose clicks are written in one batch. */
const ADDRESSES_AT_ONCE = 200;
const CONNECTIONS = 16;
const safari =
  'Mozilla/5.0 (iPhone; CPU iPhone OS 17_5_1 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.5 Mobile/15E148 Safari/604.1';

function addressOf(n: number): string {
  return `24.${(n >> 16) & 255}.${(n >> 8) & 255}.${n & 255}`;
}

interface Seeded {
  readonly clicks: number;
  readonly redis_bytes_per_click: number;
  /** Keys that Redis evicted for lack of memory. */
  readonly evicted_keys: number;
}

async function seed(stage: SdkStage, addresses: number): Promise<Seeded> {
  const redis = new Redis({ url: stage.redisUrl, name: 'bench', commandTimeoutMs: 10_000 });
  await redis.connect();
  const clicks = new RecentClicks(redis);
  const names = new AddressWriter(stage.addressKey);
  const none = {
    query: '',
    ...campaignFrom(() => ''),
  };
  const figure = async (section: string, name: string) =>
    Number(new RegExp(`${name}:(\\d+)`).exec(await redis.commands.info(section))?.[1]);
  const before = await figure('memory', 'used_memory');
  for (let from = 0; from < addresses; from += ADDRESSES_AT_ONCE) {
    const time = Date.now() - 60_000;
    const count = Math.min(ADDRESSES_AT_ONCE, addresses - from);
    const some = Array.from({ length: count * CLICKS_PER_ADDRESS }, (_, index) => {
      const n = from + Math.floor(index / CLICKS_PER_ADDRESS);
      const link_id = stage.links[n % stage.links.length] ?? '';
      return {
        click: { click_id: newId('clk', time), app_id: stage.app_id, link_id, time, ...none },
        is_bot: false,
        near: {
          address: names.ofDevice(addressOf(n), 'anonymize_ip'),
          browser: { user_agent: safari, language: 'en-US' },
          windowMs: 6 * HOUR_MS,
        },
      };
    });
    await clicks.put(some);
    if (from % 20_000 === 0) console.error(`recent clicks written: ${from * CLICKS_PER_ADDRESS}`);
  }
  const written = addresses * CLICKS_PER_ADDRESS;
  const seeded = {
    clicks: written,
    redis_bytes_per_click: Math.round(((await figure('memory', 'used_memory')) - before) / written),
    evicted_keys: await figure('stats', 'evicted_keys'),
  };
  await redis.close();
  return seeded;
}

function matches(key: string, addresses: number): RequestOf {
  return (n) => {
    const device = {
      platform: 'ios',
      os_version: '17.5.1',
      device_model: 'iPhone15,2',
      language: 'en-US',
      device_id: `d${n}`,
    };
    return requestBytes('/sdk/match', key, addressOf(n % addresses), JSON.stringify(device));
  };
}

function cpuOf({ gateway, postgresPid, redisPid }: SdkStage) {
  return { gateway: gateway.read().cpuUs, postgres: treeCpuUs(postgresPid), redis: treeCpuUs(redisPid) };
}

export async function benchMatch(args: readonly string[]): Promise<void> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      seconds: { type: 'string', default: '5' },
      clicks: { type: 'string', default: '1000000' },
    },
  });
  const stage = await openSdkStage((line) => console.error(line));
  try {
    const addresses = Math.ceil(Number(values.clicks) / CLICKS_PER_ADDRESS);
    const seeded = await seed(stage, addresses);
    const seconds = Number(values.seconds);
    const options = {
      port: stage.port,
      connections: CONNECTIONS,
      status: 200,
      // A request that finds no match has another cost.
      holding: '"matched":true',
      requestOf: matches(stage.key, addresses),
    };
    await post({ ...options, seconds: 2, from: 0 });
    const before = cpuOf(stage);
    const peak = await post({ ...options, seconds, from: 1_000_000 });
    const after = cpuOf(stage);
    const costOf = (name: keyof typeof after) => Math.round((after[name] - before[name]) / peak.answered);
    const rate = Math.floor(peak.answered / peak.seconds / 2);
    const half = await post({ ...options, seconds, rate, from: 2_000_000 });
    const result = {
      ...seeded,
      peak_per_s: peak.answered / peak.seconds,
      cpu_us: costOf('gateway'),
      postgres_cpu_us: costOf('postgres'),
      redis_cpu_us: costOf('redis'),
      half_rate: rate,
      half_p50_ms: half.latency.getValueAtPercentile(50) / 1000,
      half_p99_ms: half.latency.getValueAtPercentile(99) / 1000,
      failed: peak.failed + half.failed,
    };
    console.log(JSON.stringify(result, null, 2));
    writeResult('match', result);
  } finally {
    await stage.close();
  }
}
