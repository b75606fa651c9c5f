/**
 * `native-device.ts ios|android program…`: the example device of a native SDK against `npm start`. It opens for the first
 * time after a click, gets the deferred link, installs and tracks; `kill -9` between sending and answer counts once.
 */
import { deepEqual, equal, match } from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import { setTimeout as pause } from 'node:timers/promises';
import { Stack } from '#deploy/journeys/stack.ts';

const timeoutMs = 60_000;
const agents = {
  ios: 'Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.5 Mobile/15E148 Safari/604.1',
  android:
    'Mozilla/5.0 (Linux; Android 15; Pixel 8) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0 Mobile Safari/537.36',
};

async function until<T>(what: string, found: () => T | Promise<T>): Promise<NonNullable<T>> {
  for (const endMs = Date.now() + timeoutMs; Date.now() < endMs; await pause(50)) {
    const value = await found();
    if (value) return value;
  }
  throw new Error(`${what} did not happen within ${timeoutMs / 1_000} s`);
}

/** The example program: takes a command a line, and answers with lines. */
class Device {
  readonly #child: ChildProcess;
  readonly lines: string[] = [];

  constructor([program = '', ...args]: readonly string[]) {
    this.#child = spawn(program, args, { stdio: ['pipe', 'pipe', 'inherit'] });
    if (this.#child.stdout) createInterface(this.#child.stdout).on('line', (line) => this.lines.push(line));
  }

  say(line: string): void {
    this.#child.stdin?.write(`${line}\n`);
  }

  async line(start: string): Promise<string> {
    return await until(`the line '${start}'`, () => {
      const at = this.lines.findIndex((line) => line.startsWith(start));
      return at === -1 ? undefined : this.lines.splice(at, 1)[0];
    });
  }

  async kill(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const ended = new Promise((resolve) => this.#child.once('exit', resolve));
    this.#child.kill('SIGKILL');
    await ended;
  }
}

/** Plain HTTP in front of the installation; keeps the answers to events back on demand. */
class Relay {
  readonly events: { ids: string[]; duplicates: number }[] = [];
  readonly #server: Server;
  holdsAnswers = false;

  constructor(stack: Stack) {
    this.#server = createServer((request, response) => void this.#pass(stack, request, response));
  }

  async #pass(stack: Stack, request: IncomingMessage, response: ServerResponse): Promise<void> {
    const path = (request.url ?? '').slice('/v1'.length);
    const body = JSON.parse(await text(request)) as { events?: { event_id: string }[] };
    const headers = { 'x-api-key': String(request.headers['x-api-key']) };
    const reply = await stack.api(path, { method: 'POST', headers, body });
    const { duplicates = 0 } = reply.json<{ duplicates?: number }>();
    if (body.events?.length) this.events.push({ ids: body.events.map(({ event_id }) => event_id), duplicates });
    if (!this.holdsAnswers || path !== '/sdk/events')
      response.writeHead(reply.status, { 'content-type': 'application/json' }).end(reply.text);
  }

  async listen(): Promise<string> {
    await new Promise<void>((resolve) => this.#server.listen(0, '127.0.0.1', resolve));
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  close(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }
}

async function journey(stack: Stack, relay: Relay, platform: 'ios' | 'android', start: (...args: string[]) => Device) {
  const call = await stack.loggedIn();
  const fields = {
    name: 'Native',
    ios: { bundle_id: 'com.example.native', app_store_id: '123456789' },
    android: { package_name: 'com.example.native' },
    settings: { tap_page: 'ios' },
  };
  const app = (await call('/apps', { method: 'POST', body: fields })).json<{
    id: string;
    host: string;
    api_key: string;
  }>();
  const made = await call('/links', { method: 'POST', body: { app_id: app.id, path: '/beach' } });
  const link = made.json<{ id: string; short_code: string; url: string }>();
  const headers = { host: app.host, 'user-agent': agents[platform], accept: 'text/html' };
  const page = await stack.redirector(`/${link.short_code}`, { headers });
  // What the store or the tap page hands over to the installed app.
  const copied = /data-c="([^"]*)"/.exec(page.text)?.[1] ?? '';
  const referrer = new URL(String(page.headers['location'] ?? 'http://none')).searchParams.get('referrer') ?? '';
  const evidence = platform === 'ios' ? copied : referrer;
  match(evidence, /click_id=clk_/);

  const url = await relay.listen();
  const first = start(url, app.api_key, evidence);
  equal(
    await first.line('link '),
    `link /beach ${platform === 'ios' ? 'clipboard' : 'install_referrer'} deferred=true`,
  );
  relay.holdsAnswers = true;
  first.say('track purchase 19.99');
  await first.line('tracked purchase');
  first.say('flush');
  await until('the event at the server', () => relay.events.length === 1);
  await first.kill();
  relay.holdsAnswers = false;
  const second = start(url, app.api_key, '');
  second.say('track login');
  await second.line('tracked login');
  await until('an empty queue', async () => {
    second.say('flush');
    return (await second.line('flushed ')).startsWith('flushed queued=0 dropped=0');
  });
  const [sent, again, next] = relay.events;
  deepEqual(again, { ids: sent?.ids, duplicates: 1 });
  equal(next?.ids.length, 1);

  second.say(`open ${link.url}`);
  equal(await second.line('opened '), 'opened /beach');
  second.say('create /invite');
  match(await second.line('created '), /^created https?:\/\/\S+$/);
  second.say('check');
  await second.line('checked');
  deepEqual(
    second.lines.filter((line) => line.startsWith('problem')),
    [],
  );
  await second.kill();
  await until('one install and two events', async () => {
    const { totals } = (await call(`/analytics/overview?link_id=${link.id}`)).json<{
      totals: { installs: number; events: number; revenue: unknown };
    }>();
    console.log(JSON.stringify(totals));
    return totals.installs === 1 && totals.events >= 2 && totals;
  });
}

const [platform, ...program] = process.argv.slice(2);
const folder = mkdtempSync(join(tmpdir(), 'signpost-device-'));
const devices: Device[] = [];
const stack = await Stack.start();
const relay = new Relay(stack);
try {
  await journey(stack, relay, platform === 'ios' ? 'ios' : 'android', (url, key, evidence) => {
    const device = new Device([...program, url ?? '', key ?? '', folder, evidence ?? '']);
    devices.push(device);
    return device;
  });
  console.log(`a device on ${platform}: deferred link, install, events through kill -9, counted once`);
} finally {
  for (const device of devices) await device.kill().catch(() => undefined);
  relay.close();
  await stack.stop();
  rmSync(folder, { recursive: true, force: true });
}
