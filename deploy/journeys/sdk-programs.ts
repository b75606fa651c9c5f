/** The programs of the SDK's journeys: a device that can be killed, and the examples. */
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { type Browser, chromium, type Page } from 'playwright-core';
import { packageRoot } from '#common/process/paths.ts';
import { bundle } from '#sdk/testing/bundle.ts';
import type { Stack } from './stack.ts';

async function listening(server: Server): Promise<string> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** Passes requests on to the installation, over plain HTTP on its own side; can keep an answer back. */
export class Relay {
  readonly #server: Server;
  readonly paths: string[] = [];
  url = '';
  #holdPath = '';
  #onHeld: () => void = () => undefined;
  /** The server has the request, and its answer is kept back. */
  readonly held = new Promise<void>((resolve) => {
    this.#onHeld = resolve;
  });

  private constructor(stack: Stack) {
    this.#server = createServer((request, response) => {
      // A request that can't be passed on is one that is cut.
      this.#pass(stack, request, response).catch(() => response.destroy());
    });
  }

  async #pass(stack: Stack, request: IncomingMessage, response: ServerResponse): Promise<void> {
    const path = (request.url ?? '').slice('/v1'.length);
    this.paths.push(path);
    const body: unknown = JSON.parse(await text(request));
    const headers = { 'x-api-key': String(request.headers['x-api-key']) };
    const reply = await stack.api(path, { method: 'POST', headers, body });
    if (path === this.#holdPath) this.#onHeld();
    else response.writeHead(reply.status, { 'content-type': 'application/json' }).end(reply.text);
  }

  static async start(stack: Stack): Promise<Relay> {
    const relay = new Relay(stack);
    relay.url = await listening(relay.#server);
    return relay;
  }

  holdAnswerOf(path: string): void {
    this.#holdPath = path;
  }

  release(): void {
    this.#holdPath = '';
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}

interface Life {
  /** Everything that it printed. */
  readonly ended: Promise<string>;
  kill(): Promise<void>;
}

export class Device {
  readonly #folder: string;
  readonly #args: readonly string[];

  private constructor(folder: string, host: string, apiKey: string) {
    this.#folder = folder;
    this.#args = [join(folder, 'device.mjs'), host, apiKey, join(folder, 'store')];
  }

  static async create(host: string, apiKey: string): Promise<Device> {
    const folder = mkdtempSync(join(tmpdir(), 'signpost-device-'));
    await writeFile(
      join(folder, 'device.mjs'),
      await bundle({ entry: 'sdk/testing/device-to-kill.ts', platform: 'node' }),
    );
    return new Device(folder, host, apiKey);
  }

  start(names: readonly string[]): Life {
    const child = spawn(process.execPath, [...this.#args, ...names], { stdio: ['ignore', 'pipe', 'inherit'] });
    const exited = new Promise<void>((resolve) => child.once('exit', () => resolve()));
    return {
      ended: text(child.stdout),
      async kill() {
        child.kill('SIGKILL');
        await exited;
      },
    };
  }

  remove(): void {
    rmSync(this.#folder, { recursive: true });
  }
}

const placeholders = (stack: Stack, apiKey: string) => ({
  'https://api.example.com': `https://127.0.0.1:${stack.apiPort}`,
  lk_your_key: apiKey,
});

export class ExampleServer {
  readonly #child: ChildProcess;
  readonly #folder: string;
  readonly #url: string;

  private constructor(child: ChildProcess, folder: string, url: string) {
    this.#child = child;
    this.#folder = folder;
    this.#url = url;
  }

  static async start(stack: Stack, apiKey: string): Promise<ExampleServer> {
    const folder = mkdtempSync(join(tmpdir(), 'signpost-server-'));
    const replace = placeholders(stack, apiKey);
    const file = join(folder, 'server.mjs');
    await writeFile(file, await bundle({ entry: 'sdk/examples/node-server.mjs', platform: 'node', replace }));
    const env = { PORT: '0', NODE_EXTRA_CA_CERTS: join(stack.dataDir, 'tls/cert.pem') };
    const child = spawn(process.execPath, [file], { cwd: folder, env, stdio: ['ignore', 'pipe', 'inherit'] });
    const port = await new Promise<string>((resolve, reject) => {
      child.once('exit', (code) => reject(new Error(`the server ended with ${code}`)));
      child.stdout.on('data', (chunk: Buffer) => {
        const [, found] = /listening on (\d+)/.exec(chunk.toString()) ?? [];
        if (found) resolve(found);
      });
    });
    return new ExampleServer(child, folder, `http://127.0.0.1:${port}`);
  }

  post(path: string, body: unknown): Promise<Response> {
    return fetch(this.#url + path, { method: 'POST', body: JSON.stringify(body), headers: { connection: 'close' } });
  }

  /** As a process manager does. */
  async stop(): Promise<void> {
    const exited = new Promise((resolve) => this.#child.once('exit', resolve));
    this.#child.kill('SIGTERM');
    await exited;
    rmSync(this.#folder, { recursive: true });
  }
}

export interface Tab {
  open(): Promise<void>;
  /** Clicks, and waits for what the page then says. */
  buy(state: string): Promise<void>;
  refuse(): Promise<void>;
  /** Events in the page's storage. */
  stored(): Promise<number>;
  /** Everything in it. */
  kept(): Promise<string[]>;
}

/** The example's page on a server of its own, in a browser. */
export interface ExamplePage {
  /** They share their storage. */
  newTab(): Promise<Tab>;
  goOffline(): void;
  goOnline(): void;
  close(): Promise<void>;
}

export async function examplePage(stack: Stack, apiKey: string, executablePath: string): Promise<ExamplePage> {
  const replace = placeholders(stack, apiKey);
  const script = await bundle({ entry: 'sdk/examples/web-page.mjs', platform: 'browser', replace });
  const html = await readFile(join(packageRoot(), 'sdk/examples/web-page.html'), 'utf8');
  const server = createServer((request, response) => {
    const isScript = request.url === '/web-page.mjs';
    response.writeHead(200, { 'content-type': isScript ? 'text/javascript' : 'text/html' });
    response.end(isScript ? script : html);
  });
  const url = await listening(server);
  const isolated = ['--no-sandbox', '--disable-gpu', '--disable-background-networking', '--disable-component-update'];
  const chrome: Browser = await chromium.launch({ executablePath, args: [...isolated, '--no-first-run'] });
  const context = await chrome.newContext({ ignoreHTTPSErrors: true });
  let isOnline = true;
  await context.route('**/v1/sdk/**', (route) => (isOnline ? route.continue() : route.abort('connectionreset')));
  return {
    newTab: async () => tabOf(await context.newPage(), url),
    goOffline() {
      isOnline = false;
    },
    goOnline() {
      isOnline = true;
    },
    async close() {
      await chrome.close();
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

function tabOf(page: Page, url: string): Tab {
  return {
    async open() {
      await page.goto(url);
    },
    async buy(state) {
      await page.locator('#state').evaluate((element: { textContent: string }) => {
        element.textContent = '';
      });
      await page.locator('#buy').click();
      await page.getByText(state, { exact: true }).waitFor();
    },
    refuse: () => page.locator('#refuse').click(),
    stored: () => page.evaluate<number>('Object.keys(localStorage).filter((key) => /^signpost:.+:e/.test(key)).length'),
    kept: () => page.evaluate<string[]>('Object.values(localStorage)'),
  };
}
