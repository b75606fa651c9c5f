/** A page of another origin in a real Chromium, and the proxy that terminates TLS in front of the edge. */
import { request as ask, createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { build } from 'esbuild';
import { chromium, type Page } from 'playwright-core';
import { packageRoot } from '#common/process/paths.ts';

/** A request as the proxy saw it. */
interface Passed {
  readonly method: string;
  readonly path: string;
  readonly contentType: string;
  readonly status: number;
}

export interface BrowserPage {
  readonly page: Page;
  /** Host and port by which a page reaches the edge. */
  readonly edgeHost: string;
  readonly passed: readonly Passed[];
  readonly faults: readonly string[];
  open(): Promise<void>;
  /** Ends the browser, so that the next page has no cache and no storage. */
  close(): Promise<void>;
}

/** @param entry a module that the page runs, relative to the project. */
export async function browserPage(edgeBase: string, entry: string, executablePath: string): Promise<BrowserPage> {
  const { outputFiles } = await build({
    entryPoints: [entry],
    absWorkingDir: packageRoot(),
    ...{ bundle: true, format: 'esm', platform: 'browser', target: 'es2022', write: false, logLevel: 'silent' },
  });
  const script = outputFiles[0]?.text ?? '';
  const passed: Passed[] = [];
  const proxy = await listening(proxyOf(new URL(edgeBase), passed));
  const site = await listening(
    createServer((request, response) => {
      const isScript = request.url === '/page.mjs';
      response.writeHead(200, { 'content-type': isScript ? 'text/javascript' : 'text/html' });
      response.end(
        isScript ? script : '<!doctype html><body><button>Buy</button><script type=module src=/page.mjs></script>',
      );
    }),
  );
  const isolated = ['--no-sandbox', '--disable-gpu', '--disable-background-networking', '--disable-component-update'];
  const rules = '--host-resolver-rules=MAP * 127.0.0.1:9, EXCLUDE 127.0.0.1, EXCLUDE localhost';
  const browser = await chromium.launch({ executablePath, args: [...isolated, '--no-first-run', rules] });
  const page = await browser.newPage();
  const faults: string[] = [];
  page.on('pageerror', (error) => faults.push(error.message));
  return {
    page,
    passed,
    faults,
    edgeHost: `127.0.0.1:${proxy.port}`,
    async open() {
      await page.goto(`http://localhost:${site.port}/shop?utm_source=news&utm_campaign=spring`);
    },
    async close() {
      await browser.close();
      for (const { server } of [proxy, site]) {
        server.closeAllConnections();
        await new Promise((resolve) => server.close(resolve));
      }
    },
  };
}

function proxyOf(edge: URL, passed: Passed[]): Server {
  return createServer((request, response) => {
    const { method = '', url = '', headers } = request;
    const onward = { ...headers, 'x-forwarded-proto': 'https', 'x-forwarded-for': '198.51.100.9' };
    const options = { host: edge.hostname, port: edge.port, method, path: url, headers: onward };
    const sent = ask(options, (answer) => {
      const status = answer.statusCode ?? 0;
      passed.push({ method, path: url, contentType: headers['content-type'] ?? '', status });
      response.writeHead(status, answer.headers);
      answer.pipe(response);
    });
    sent.on('error', () => response.destroy());
    request.pipe(sent);
  });
}

async function listening(server: Server): Promise<{ server: Server; port: number }> {
  await new Promise<void>((resolve) => server.listen(0, resolve));
  return { server, port: (server.address() as AddressInfo).port };
}
