/**
 * Caddy with the unchanged deploy/single/Caddyfile, but on the test's own ports and with certificates of its internal
 * authority.
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { type RequestOptions, request } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, vi } from 'vitest';
import { freePort } from '#deploy/local/ports.ts';
import { findProgram } from '#deploy/local/programs.ts';

export const caddyProgram = findProgram(['caddy']);

interface CaddyJson {
  admin?: object;
  logging?: object;
  storage?: object;
  apps: {
    http: { https_port?: number; servers: Record<string, { listen: string[]; automatic_https?: object }> };
    tls: { automation: { policies: { issuers?: object[] }[] } };
    pki?: object;
  };
}

export interface CaddySettings {
  /** PROXY_SECRET of the installation. */
  readonly secret?: string;
  readonly apiHost: string;
  readonly apiPort: number;
  readonly linkPort: number;
  readonly tlsQuestion: string;
}

export interface HttpsReply {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly text: string;
}

export class Caddy {
  readonly #folder: string;
  readonly port: number;
  readonly #child: ChildProcess;

  private constructor(folder: string, port: number, child: ChildProcess) {
    this.#folder = folder;
    this.port = port;
    this.#child = child;
  }

  static async start(settings: CaddySettings): Promise<Caddy> {
    if (caddyProgram === undefined) throw new Error('caddy is not installed');
    const folder = mkdtempSync(join(tmpdir(), 'signpost-caddy-'));
    const port = await freePort();
    const words = {
      SIGNPOST_API_HOST: settings.apiHost,
      SIGNPOST_API_PORT: String(settings.apiPort),
      SIGNPOST_LINK_PORT: String(settings.linkPort),
      SIGNPOST_TLS_QUESTION: settings.tlsQuestion,
    };
    const assigned = Object.entries(words).map(([name, value]) => `${name}=${value}`);
    const adapt = [...assigned, caddyProgram, 'adapt', '--config', 'deploy/single/Caddyfile'];
    const config = JSON.parse(
      execFileSync('env', adapt, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }),
    ) as CaddyJson;
    config.admin = { disabled: true };
    config.storage = { module: 'file_system', root: folder };
    config.apps.pki = { certificate_authorities: { local: { install_trust: false } } };
    config.apps.http.https_port = port;
    for (const server of Object.values(config.apps.http.servers)) {
      server.listen = [`127.0.0.1:${port}`];
      server.automatic_https = { disable_redirects: true };
    }
    for (const policy of config.apps.tls.automation.policies) policy.issuers = [{ module: 'internal' }];
    const file = join(folder, 'caddy.json');
    writeFileSync(file, JSON.stringify(config));
    const environment = [`HOME=${folder}`, `SIGNPOST_PROXY_SECRET=${settings.secret ?? ''}`];
    const child = spawn('env', [...environment, caddyProgram, 'run', '--config', file], { stdio: 'ignore' });
    const caddy = new Caddy(folder, port, child);
    await vi.waitFor(async () => expect((await caddy.get(settings.apiHost, '/v1/version')).status).toBe(200), {
      timeout: 30_000,
      interval: 100,
    });
    return caddy;
  }

  /** The certificate of its authority. */
  get authority(): string {
    return join(this.#folder, 'pki', 'authorities', 'local', 'root.crt');
  }

  /** GET with the host in SNI and in the request; the certificate must be for it, from this Caddy's authority. */
  get(host: string, path: string, headers: Readonly<Record<string, string>> = {}): Promise<HttpsReply> {
    return this.#send(host, path, { headers: { host, ...headers } });
  }

  post(host: string, path: string, content: unknown): Promise<HttpsReply> {
    const body = JSON.stringify(content);
    const headers = { host, 'content-type': 'application/json', 'content-length': String(Buffer.byteLength(body)) };
    return this.#send(host, path, { method: 'POST', headers }, body);
  }

  #send(host: string, path: string, settings: RequestOptions, body?: string): Promise<HttpsReply> {
    const ca = readFileSync(this.authority);
    return new Promise((settle, fail) => {
      const options = { host: '127.0.0.1', port: this.port, servername: host, path, ca, agent: false as const };
      const sent = request({ ...options, ...settings, timeout: 20_000 }, (response) => {
        let text = '';
        response.setEncoding('utf8');
        response.on('data', (chunk: string) => {
          text += chunk;
        });
        response.on('end', () => settle({ status: response.statusCode ?? 0, headers: response.headers, text }));
      });
      sent.on('error', fail);
      sent.on('timeout', () => sent.destroy(new Error('no answer in 20 s')));
      sent.end(body);
    });
  }

  async stop(): Promise<void> {
    const ended = new Promise((done) => this.#child.once('exit', done));
    this.#child.kill('SIGTERM');
    await ended;
    rmSync(this.#folder, { recursive: true, force: true });
  }
}
