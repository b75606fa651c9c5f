/** nginx with the unchanged rules of deploy/single/nginx.conf, on the test's own ports and with a certificate of its own. */
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { request } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'vitest';
import { freePort } from '#deploy/local/ports.ts';
import { findProgram } from '#deploy/local/programs.ts';

export const nginxProgram = findProgram(['nginx'], ['/usr/sbin']);

export interface NginxSettings {
  readonly apiPort: number;
  readonly linkPort: number;
  readonly certFile: string;
  readonly keyFile: string;
}

export class Nginx {
  readonly #folder: string;
  readonly #child: ChildProcess;
  readonly #port: number;

  private constructor(folder: string, child: ChildProcess, port: number) {
    this.#folder = folder;
    this.#child = child;
    this.#port = port;
  }

  static async start(settings: NginxSettings): Promise<Nginx> {
    const folder = mkdtempSync(join(tmpdir(), 'signpost-nginx-'));
    const [https, http] = [await freePort(), await freePort()];
    const rules = readFileSync('deploy/single/nginx.conf', 'utf8')
      .replaceAll('127.0.0.1:8445', `127.0.0.1:${settings.apiPort}`)
      .replaceAll('127.0.0.1:8080', `127.0.0.1:${settings.linkPort}`)
      .replaceAll('listen 443', `listen 127.0.0.1:${https}`)
      .replaceAll('listen 80', `listen 127.0.0.1:${http}`)
      .replaceAll(/\S+fullchain\.pem/g, settings.certFile)
      .replaceAll(/\S+privkey\.pem/g, settings.keyFile);
    const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
      (name) => `${name}_temp_path ${folder}/${name};`,
    );
    const whole = `daemon off; master_process off; pid ${folder}/pid; error_log ${folder}/error.log;
events {}
http { access_log off; ${temporary.join(' ')}
${rules}
}
`;
    writeFileSync(join(folder, 'nginx.conf'), whole);
    const args = ['-p', folder, '-c', join(folder, 'nginx.conf'), '-e', join(folder, 'error.log')];
    const child = spawn(nginxProgram ?? '', args, { stdio: 'ignore' });
    const nginx = new Nginx(folder, child, https);
    const errors = () => readFileSync(join(folder, 'error.log'), { encoding: 'utf8', flag: 'a+' });
    await expect.poll(() => nginx.get('x', '/').then(() => 'up', errors), { timeout: 20_000 }).toBe('up');
    return nginx;
  }

  get(
    host: string,
    path: string,
    headers: Readonly<Record<string, string>> = {},
  ): Promise<{ status: number; location: string }> {
    const options = {
      host: '127.0.0.1',
      port: this.#port,
      servername: host,
      path,
      agent: false,
      rejectUnauthorized: false,
    };
    return new Promise((done, fail) => {
      const asked = request({ ...options, headers: { ...headers, host } }, (answer) => {
        answer.resume();
        done({ status: answer.statusCode ?? 0, location: String(answer.headers.location ?? '') });
      });
      asked.on('error', fail).end();
    });
  }

  async stop(): Promise<void> {
    const ended = new Promise<void>((done) => this.#child.once('exit', () => done()));
    this.#child.kill('SIGTERM');
    if (this.#child.exitCode === null) await ended;
    rmSync(this.#folder, { recursive: true, force: true });
  }
}
