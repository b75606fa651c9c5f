/** Kills redirector processes and Postgres while links with max_clicks are visited as fast as this machine can. */
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { Agent, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { childEnvironment } from '#common/process/config.ts';
import { freePort } from '#deploy/local/ports.ts';
import { migratePostgres } from '#pg-migrations/migrate.ts';
import { ownPostgresForTest, redisForTest, type TestServer } from '#testing/servers.ts';
import { Rows, until } from './testing/running-edge.ts';

const host = 'myapp.localhost';
const max = 100;
let postgres: TestServer;
let redis: TestServer;
let rows: Rows;
let appId: string;
let folder: string;
let port: number;
const redirectors = new Map<string, ChildProcess>();

beforeAll(async () => {
  [postgres, redis] = await Promise.all([ownPostgresForTest(), redisForTest()]);
  await migratePostgres({ url: postgres.url });
  rows = new Rows(postgres.url);
  await rows.begin();
  appId = await rows.app({ host });
  folder = mkdtempSync(join(tmpdir(), 'signpost-click-limit-'));
  port = await freePort();
});
afterAll(async () => {
  for (const name of redirectors.keys()) await kill(name);
  await rows.db.close();
  await Promise.all([redis.stop(), postgres.stop()]);
  rmSync(folder, { recursive: true, force: true });
});

async function start(name: string): Promise<void> {
  const child = spawn(process.execPath, ['dist/redirector/main.js'], {
    env: childEnvironment({
      DATA_DIR: folder,
      INSTANCE: name,
      DATABASE_URL: postgres.url,
      REDIS_URL: redis.url,
      ADDRESS_KEY: 'a key for tests that is long enough',
      REDIRECTOR_HTTP_PORT: String(port),
      REDIRECTOR_HTTPS_PORT: '0',
      METRICS_PORT: '0',
      LOG_LEVEL: 'info',
    }),
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  redirectors.set(name, child);
  let text = '';
  child.stdout?.setEncoding('utf8').on('data', (chunk: string) => {
    text += chunk;
  });
  await until(() => text.includes('"part":"server"'), `${name} listens`, 60_000);
}

async function kill(name: string): Promise<void> {
  const child = redirectors.get(name);
  child?.kill('SIGKILL');
  await until(() => child === undefined || child.signalCode !== null, `${name} has ended`, 20_000);
}

/** Outcomes of the visits of one link. */
interface Seen {
  ledOn: number;
  /** Requests that were interrupted; their click may have been recorded. */
  cut: number;
}

class Visitors {
  readonly seen = new Map<string, Seen>();
  readonly others = new Set<string>();
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 32 });

  constructor(codes: readonly string[]) {
    for (const code of codes) this.seen.set(code, { ledOn: 0, cut: 0 });
  }

  /** Sends 32 requests at a time, cycling through the links, until the condition holds. */
  async visit(isOver: () => boolean): Promise<void> {
    const codes = [...this.seen.keys()];
    let turn = 0;
    const one = async () => {
      while (!isOver()) await this.#visit(codes[turn++ % codes.length] ?? '');
    };
    await Promise.all(Array.from({ length: 32 }, one));
  }

  /** Visits each link `times` times. */
  async visitEach(times: number): Promise<void> {
    let left = times * this.seen.size;
    await this.visit(() => left-- <= 0);
  }

  end(): void {
    this.#agent.destroy();
  }

  #visit(code: string): Promise<void> {
    const seen = this.seen.get(code) ?? { ledOn: 0, cut: 0 };
    const headers = { host, 'user-agent': 'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/126.0' };
    return new Promise((done) => {
      const sent = request({ port, host: '127.0.0.1', path: `/${code}`, headers, agent: this.#agent }, (answer) => {
        answer.resume();
        if (answer.statusCode === 302) seen.ledOn++;
        else this.others.add(String(answer.statusCode));
        answer.on('close', done);
      });
      sent.on('error', () => {
        seen.cut++;
        done();
      });
      sent.end();
    });
  }
}

async function newLinks(count: number, round: number): Promise<string[]> {
  const codes = Array.from({ length: count }, (_, n) => `link-${round}-${n}`);
  for (const short_code of codes)
    await rows.link(appId, { short_code, max_clicks: max, fallback_url: 'https://example.com/' });
  return codes;
}

/** Visits until Postgres knows that every click of the links is used. */
async function visitToTheEnd(visitors: Visitors, round: number): Promise<void> {
  const left = async () => {
    const [row] = await rows.db.query<{ left: number }>(
      `SELECT ($1::integer * $2::integer - coalesce(sum(s.used), 0))::integer AS left FROM click_shares s JOIN links l ON l.id = s.link_id
        WHERE l.short_code LIKE $3`,
      [max, visitors.seen.size, `link-${round}-%`],
    );
    return row?.left;
  };
  await expect
    .poll(
      async () => {
        await visitors.visitEach(4);
        return left();
      },
      { timeout: 80_000, interval: 400 },
    )
    .toBe(0);
}

/** Checks the counts. A kill may cost clicks: those of the visitors whose connection it interrupted. */
function expectExact({ seen, others }: Visitors): void {
  const tooMany = [...seen].filter(([, { ledOn }]) => ledOn > max);
  const lost = [...seen].filter(([, { ledOn, cut }]) => ledOn + cut < max);
  expect({ tooMany, lost }).toEqual({ tooMany: [], lost: [] });
  expect([...others].filter((status) => status !== '410' && status !== '503')).toEqual([]);
}

/** One round: visits links while something is killed and restarted, and then uses the links up. */
async function round(number: number, disturb: () => Promise<void>): Promise<void> {
  const visitors = new Visitors(await newLinks(8, number));
  let isDisturbed = false;
  const ledOn = () => [...visitors.seen.values()].reduce((sum, one) => sum + one.ledOn, 0);
  const visiting = visitors.visit(() => isDisturbed || ledOn() > 6 * max);
  await until(() => ledOn() > max, 'visitors are led on', 20_000);
  await disturb();
  isDisturbed = true;
  await visiting;
  await visitToTheEnd(visitors, number);
  visitors.end();
  expectExact(visitors);
}

async function killPostgres(): Promise<void> {
  await postgres.kill('SIGKILL');
  await postgres.revive();
}

async function killAndStart(name: string): Promise<void> {
  await kill(name);
  await start(name);
}

test('of 100 clicks never more than 100 are redirected, while a redirector and Postgres are killed', {
  tags: ['slow'],
}, async () => {
  await Promise.all([start('redirector-0'), start('redirector-1')]);
  await round(1, async () => {
    await killAndStart('redirector-0');
    await killPostgres();
  });
});

test('of 100 clicks never more than 100 are redirected by four redirectors that are killed repeatedly', {
  tags: ['slow'],
  timeout: 900_000,
}, async () => {
  for (const n of [0, 1, 2, 3]) await killAndStart(`redirector-${n}`);
  for (let n = 2; n < 14; n++) {
    await round(n, async () => {
      const kills = [killAndStart(`redirector-${n % 4}`)];
      if (n % 3 === 0) kills.push(killPostgres());
      if (n % 4 === 0) kills.push(killAndStart(`redirector-${(n + 1) % 4}`));
      await Promise.all(kills);
    });
  }
});
