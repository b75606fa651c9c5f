import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { Agent, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { childEnvironment } from '#common/process/config.ts';
import { freePort } from '#deploy/local/ports.ts';
import { postgresForTest, redisForTest, type TestDatabase, type TestServer } from '#testing/servers.ts';
import { get, journalClicks, Rows, until } from './testing/running-edge.ts';

const host = 'myapp.localhost';
let database: TestDatabase;
let redis: TestServer;
let rows: Rows;
let folder: string;
let port: number;
const children: ChildProcess[] = [];

beforeAll(async () => {
  [database, redis] = await Promise.all([postgresForTest(), redisForTest()]);
  rows = new Rows(database.url);
  await rows.begin();
  await rows.link(await rows.app({ host }), { short_code: 'summer', fallback_url: 'https://example.com/' });
  folder = mkdtempSync(join(tmpdir(), 'signpost-redirector-'));
  port = await freePort();
});

afterAll(async () => {
  for (const child of children) if (child.exitCode === null) child.kill('SIGKILL');
  await until(() => children.every((child) => child.exitCode !== null || child.signalCode !== null), 'all have ended');
  await rows.db.close();
  await Promise.all([redis.stop(), database.stop()]);
  rmSync(folder, { recursive: true, force: true });
});

async function start(instance: string): Promise<ChildProcess> {
  const child = spawn(process.execPath, ['dist/redirector/main.js'], {
    env: childEnvironment({
      DATA_DIR: folder,
      INSTANCE: instance,
      DATABASE_URL: database.url,
      REDIS_URL: redis.url,
      ADDRESS_KEY: 'a key for tests that is long enough',
      REDIRECTOR_HTTP_PORT: String(port),
      REDIRECTOR_HTTPS_PORT: '0',
      METRICS_PORT: '0',
      LOG_LEVEL: 'info',
    }),
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  children.push(child);
  let text = '';
  child.stdout?.setEncoding('utf8').on('data', (chunk: string) => {
    text += chunk;
  });
  await until(() => text.includes('"part":"server"'), `${instance} listens`, 120_000);
  return child;
}

/** Sends sequential visits on keep-alive connections, until stopped. */
class Visitors {
  answered = 0;
  failed: string[] = [];
  readonly ids = new Set<string>();
  #isStopping = false;
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 16 });
  readonly #running: Promise<void>[];

  constructor(count: number) {
    this.#running = Array.from({ length: count }, (_, visitor) => this.#visitAgain(visitor));
  }

  async stop(): Promise<void> {
    this.#isStopping = true;
    await Promise.all(this.#running);
    this.#agent.destroy();
  }

  async #visitAgain(visitor: number): Promise<void> {
    for (let turn = 0; !this.#isStopping; turn++) {
      const id = `${visitor}-${turn}`;
      const outcome = await this.#visit(id);
      if (outcome === '302') {
        this.answered++;
        this.ids.add(id);
      } else if (outcome !== 'cut before it was sent') this.failed.push(outcome);
    }
  }

  #visit(id: string): Promise<string> {
    return new Promise((done) => {
      const path = `/summer?visit=${id}`;
      const sent = request({ port, host: '127.0.0.1', path, headers: { host }, agent: this.#agent }, (answer) => {
        answer.resume();
        answer.on('end', () => done(String(answer.statusCode)));
      });
      // A persistent connection may be closed just as it is reused; HTTP clients retry such a request (RFC 9110 9.2.2).
      sent.on('error', (error) => done(sent.reusedSocket ? 'cut before it was sent' : error.message));
      sent.end();
    });
  }
}

test('two processes share the port; stopping one fails no requests and loses no clicks', {
  tags: ['slow'],
}, async () => {
  const [first] = [await start('redirector-0'), await start('redirector-1')];
  expect((await get(port, host, '/summer')).status).toBe(302);
  const visitors = new Visitors(32);
  await until(() => visitors.answered > 2_000, 'visits are answered', 10_000);
  first?.kill('SIGTERM');
  await until(() => first?.exitCode === 0, 'the first has exited', 15_000);
  const atEnd = visitors.answered;
  await until(() => visitors.answered > atEnd + 1_000, 'the other one continues', 10_000);
  await visitors.stop();
  expect(visitors.failed).toEqual([]);
  expectKept(visitors);
});

test('an answered redirect is in the journal after kill -9', { tags: ['slow'] }, async () => {
  const only = await start('redirector-2');
  const visitors = new Visitors(32);
  await until(() => visitors.answered > 2_000, 'visits are answered', 10_000);
  only.kill('SIGKILL');
  for (const child of children) child.kill('SIGKILL');
  await visitors.stop();
  expectKept(visitors);
});

function expectKept(visitors: Visitors): void {
  const kept = new Set(
    journalClicks(join(folder, 'journal')).map((click) => String(click['query']).replace('visit=', '')),
  );
  const lost = [...visitors.ids].filter((id) => !kept.has(id));
  expect(lost).toEqual([]);
  expect(visitors.ids.size).toBe(visitors.answered);
}
