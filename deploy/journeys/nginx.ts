/**
 * nginx with the unchanged rules of deploy/single/nginx.conf in Debian's layout, beside Debian's default site and another
 * one, on the test's own ports and with certificates of its own.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { request as plainRequest } from 'node:http';
import { request } from 'node:https';
import { networkInterfaces, tmpdir } from 'node:os';
import { join } from 'node:path';
import { vi } from 'vitest';
import { freePort } from '#deploy/local/ports.ts';
import { findProgram } from '#deploy/local/programs.ts';

export const nginxProgram = findProgram(['nginx'], ['/usr/sbin']);

export interface NginxSettings {
  /** PROXY_SECRET of the installation. */
  readonly secret?: string;
  readonly apiPort: number;
  readonly linkPort: number;
  readonly certFile: string;
  readonly keyFile: string;
  /** Where the other site's requests go. */
  readonly otherPort?: number;
}

export interface NginxReply {
  readonly status: number;
  readonly location: string;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly bytes: Buffer;
}

/** /etc/nginx/sites-enabled/default of Debian's package, without its comments. */
const debianSite = `server {
	listen 80 default_server;
	listen [::]:80 default_server;
	root /var/www/html;
	server_name _;
	location / { return 418; }
}`;
const otherSite = `server {
	listen 443 ssl;
	server_name other.example;
	ssl_certificate /etc/fullchain.pem;
	ssl_certificate_key /etc/privkey.pem;
	location / { proxy_pass http://127.0.0.1:9; }
}`;

export class Nginx {
  readonly #folder: string;
  readonly #child: ChildProcess;
  readonly port: number;
  readonly #plainPort: number;

  private constructor(folder: string, child: ChildProcess, port: number, plainPort: number) {
    this.#folder = folder;
    this.#child = child;
    this.port = port;
    this.#plainPort = plainPort;
  }

  static async start(settings: NginxSettings): Promise<Nginx> {
    const folder = mkdtempSync(join(tmpdir(), 'signpost-nginx-'));
    const [https, http] = [await freePort(), await freePort()];
    const hasIpv6 = Object.values(networkInterfaces()).some((all) => all?.some(({ address }) => address === '::1'));
    const onTestPorts = (text: string) =>
      text
        .replaceAll('127.0.0.1:8445', `127.0.0.1:${settings.apiPort}`)
        .replaceAll('127.0.0.1:8080', `127.0.0.1:${settings.linkPort}`)
        .replaceAll('X-Signpost-Proxy ""', `X-Signpost-Proxy "${settings.secret ?? ''}"`)
        .replaceAll('127.0.0.1:9;', `127.0.0.1:${settings.otherPort ?? 9};`)
        .replaceAll(/listen \[::\]:(\d+)(.*);/g, (_, port: string, rest: string) =>
          hasIpv6 ? `listen [::1]:${port === '443' ? https : http}${rest};` : '',
        )
        .replaceAll('listen 443', `listen 127.0.0.1:${https}`)
        .replaceAll('listen 80', `listen 127.0.0.1:${http}`)
        .replaceAll(/\S+fullchain\.pem/g, settings.certFile)
        .replaceAll(/\S+privkey\.pem/g, settings.keyFile);
    const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
      (name) => `${name}_temp_path ${folder}/${name};`,
    );
    mkdirSync(join(folder, 'conf.d'));
    mkdirSync(join(folder, 'sites-enabled'));
    const rules = readFileSync('deploy/single/nginx.conf', 'utf8');
    writeFileSync(join(folder, 'conf.d', 'nginx.conf'), onTestPorts(rules));
    writeFileSync(join(folder, 'sites-enabled', 'default'), onTestPorts(debianSite));
    writeFileSync(join(folder, 'sites-enabled', 'other'), onTestPorts(otherSite));
    const whole = `daemon off; master_process off; pid ${folder}/pid; error_log ${folder}/error.log;
events {}
http { access_log off; ${temporary.join(' ')}
include ${folder}/conf.d/*.conf;
include ${folder}/sites-enabled/*;
}
`;
    writeFileSync(join(folder, 'nginx.conf'), whole);
    const args = ['-p', folder, '-c', join(folder, 'nginx.conf'), '-e', join(folder, 'error.log')];
    const child = spawn(nginxProgram ?? '', args, { stdio: 'ignore' });
    const nginx = new Nginx(folder, child, https, http);
    const errors = () => readFileSync(join(folder, 'error.log'), { encoding: 'utf8', flag: 'a+' });
    await vi.waitFor(async () => {
      const answer = await nginx.get('api.example.com', '/').catch((error: unknown) => error);
      if (answer instanceof Error) throw new Error(`${answer.message}; ${errors()}`);
    }, 20_000);
    return nginx;
  }

  /** @param name the name in the TLS handshake, if it is another than the host. */
  get(host: string, path: string, headers: Readonly<Record<string, string>> = {}, name = host): Promise<NginxReply> {
    const options = { host: '127.0.0.1', path, agent: false, headers: { ...headers, host } };
    return new Promise((done, fail) => {
      const asked = request({ ...options, port: this.port, servername: name, rejectUnauthorized: false }, (answer) => {
        const chunks: Buffer[] = [];
        answer.on('data', (chunk: Buffer) => chunks.push(chunk));
        answer.on('error', fail);
        answer.on('end', () =>
          done({
            status: answer.statusCode ?? 0,
            location: String(answer.headers.location ?? ''),
            headers: answer.headers,
            bytes: Buffer.concat(chunks),
          }),
        );
      });
      asked.on('error', fail).end();
    });
  }

  /** The status of an answer without TLS, and where it leads. */
  getPlain(host: string, path: string): Promise<readonly [status: number, location: string]> {
    const options = { host: '127.0.0.1', port: this.#plainPort, path, agent: false, headers: { host } };
    return new Promise((done, fail) => {
      plainRequest(options, (answer) => {
        answer.resume();
        done([answer.statusCode ?? 0, String(answer.headers.location ?? '')]);
      })
        .on('error', fail)
        .end();
    });
  }

  async stop(): Promise<void> {
    const ended = new Promise<void>((done) => this.#child.once('exit', () => done()));
    this.#child.kill('SIGTERM');
    if (this.#child.exitCode === null) await ended;
    rmSync(this.#folder, { recursive: true, force: true });
  }
}
