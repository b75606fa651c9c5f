/**
 * A process that learns links, killed at each of its steps.
 *
 * @module-tag slow
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type DnsForTest, dnsForTest } from '#api/testing/dns-server.ts';
import { askChannel } from '#common/links/link-asks.ts';
import { type Receiver, receiverForTest } from '#testing/receiver.ts';
import { postgresForTest, redisForTest, type TestPostgres, type TestServer } from '#testing/servers.ts';
import { Rows, TestEdge, until } from './testing/running-edge.ts';

const outside = '127.0.0.4';
const host = 'go.localhost';
const home = 'https://www.example.com/home';
const browser = { 'user-agent': 'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/126.0.0.0 Safari/537.36' };

let database: TestPostgres;
let redis: TestServer;
let dns: DnsForTest;
let old: Receiver;
let rows: Rows;
let edge: TestEdge;
let appId: string;
let learner: ChildProcess | undefined;

beforeAll(async () => {
  [database, redis, dns, old] = await Promise.all([
    postgresForTest(),
    redisForTest(),
    dnsForTest(),
    receiverForTest(outside),
  ]);
  dns.addresses.set('old.example', [outside]);
  rows = new Rows(database.url);
  await rows.begin();
  const migration = { url: `http://old.example:${old.port}/{code}`, destination_hosts: ['www.example.com'] };
  appId = await rows.app({ host, fallback_url: home, settings: { privacy_mode: 'full_ip', migration } });
  edge = await TestEdge.start({ redis: redis.url, postgres: database.urlAs('signpost_redirector') });
  await until(() => edge.cache.isSubscribed, 'changes arrive');
}, 60_000);
afterAll(async () => {
  await kill();
  await edge.stop();
  await rows.db.close();
  await Promise.all([redis.stop(), dns.stop(), old.stop()]);
  await database.stop();
});

async function start(): Promise<void> {
  const databaseUrl = database.urlAs('signpost_api_process');
  const settings = { redisUrl: redis.url, databaseUrl, dnsServer: dns.address, allowed: outside };
  learner = spawn(process.execPath, ['--import', 'tsx', 'api/testing/learner-to-kill.ts', JSON.stringify(settings)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let text = '';
  learner.stdout?.setEncoding('utf8').on('data', (chunk: string) => {
    text += chunk;
  });
  await until(() => text.includes('started'), 'the learner has started', 60_000);
  await until(async () => (await edge.redis.commands.publish(askChannel, '')) > 0, 'it listens');
}

async function kill(): Promise<void> {
  const child = learner;
  learner = undefined;
  if (!child || child.exitCode !== null || child.signalCode !== null) return;
  child.kill('SIGKILL');
  await once(child, 'exit');
}

async function visit(code: string) {
  const { status, headers } = await edge.get(host, `/${code}`, browser);
  return [status, headers.location];
}
const linksWith = (code: string) =>
  rows.db.query<{ id: string }>('SELECT id FROM links WHERE app_id = $1 AND short_code = $2', [appId, code]);

const steps = ['while it asks', 'when it is answered', 'when the link is made'] as const;

test.each(steps)(
  'a learner killed %s costs only that visit its link, and the next visits get one link',
  { timeout: 180_000 },
  async (step) => {
    const code = step.replaceAll(' ', '-');
    await start();
    let isFirst = true;
    old.answer = (response, { path }) => {
      if (path.startsWith('/x')) response.writeHead(404).end();
      else if (isFirst && step === 'while it asks') void kill();
      else {
        response.writeHead(302, { location: `https://www.example.com${path}` }).end();
        if (isFirst && step === 'when it is answered') void kill();
      }
      isFirst &&= path.startsWith('/x');
    };
    const first = visit(code);
    if (step === 'when the link is made') {
      await until(async () => (await linksWith(code)).length > 0, 'the link is there', 10_000);
      await kill();
    }
    const [status, location] = await first;
    expect(status).toBe(302);
    expect([home, `https://www.example.com/${code}`]).toContain(location);
    await until(() => learner === undefined, 'it was killed', 10_000);
    await start();
    await until(async () => (await visit(code))[1] !== home, 'the link is learned', 60_000);
    expect(await visit(code)).toEqual([302, `https://www.example.com/${code}`]);
    const [link, ...others] = await linksWith(code);
    expect(others).toEqual([]);
    expect(edge.clicks().filter(({ link_id }) => link_id === link?.id).length).toBeGreaterThanOrEqual(2);
    await kill();
  },
);
