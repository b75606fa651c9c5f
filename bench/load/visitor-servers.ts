/**
 * The servers that visitors connect to: the bare server, nginx alone, the redirector with and without terminating TLS,
 * and the redirector behind nginx and Caddy, set up as in docs/production.md.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { generate } from 'selfsigned';
import type { SettingName } from '#common/process/settings.ts';
import { freePort } from '#deploy/local/ports.ts';
import { findProgram } from '#deploy/local/programs.ts';
import { benchHost, type Stage } from './stage.ts';
import { Subject } from './subject.ts';

export type KeyKind = 'ECDSA P-256' | 'RSA 2048';
export const keyKinds = ['ECDSA P-256', 'RSA 2048'] as const satisfies readonly KeyKind[];

/** Where visitors connect, and every process that uses CPU for a visit there. */
export interface Entrance {
  readonly port: number;
  readonly pids: readonly number[];
}

export interface VisitedServer {
  readonly name: string;
  /** `plain`: without TLS. */
  readonly entrances: Readonly<Record<'plain' | KeyKind, Entrance>>;
}

interface Ports {
  readonly plain: number;
  readonly 'ECDSA P-256': number;
  readonly 'RSA 2048': number;
}

async function freePorts(): Promise<Ports> {
  return { plain: await freePort(), 'ECDSA P-256': await freePort(), 'RSA 2048': await freePort() };
}

/** A server whose processes serve all its ports. */
function served(name: string, ports: Ports, ...pids: number[]): VisitedServer {
  const at = (port: number) => ({ port, pids });
  const { plain, 'ECDSA P-256': ecdsa, 'RSA 2048': rsa } = ports;
  return { name, entrances: { plain: at(plain), 'ECDSA P-256': at(ecdsa), 'RSA 2048': at(rsa) } };
}

interface CertificateFiles {
  readonly certFile: string;
  readonly keyFile: string;
}

export class VisitorServers {
  readonly #stage: Stage;
  readonly #subjects: Subject[] = [];
  readonly #children: ChildProcess[] = [];
  readonly #certificates = new Map<KeyKind, CertificateFiles>();

  constructor(stage: Stage) {
    this.#stage = stage;
  }

  async start(): Promise<VisitedServer[]> {
    for (const kind of keyKinds) this.#certificates.set(kind, await this.#certificate(kind));
    const servers = [await this.#bare(), await this.#redirector()];
    const behind = await this.#redirectorAt(await freePort(), 'behind', { TRUSTED_PROXIES: '127.0.0.1' });
    const nginx = findProgram(['nginx'], ['/usr/sbin']);
    if (nginx) servers.push(await this.#nginx(nginx, null), await this.#nginx(nginx, behind));
    const caddy = findProgram(['caddy']);
    if (caddy) servers.push(await this.#caddy(caddy, behind));
    return servers;
  }

  async stop(): Promise<void> {
    for (const child of this.#children) child.kill('SIGTERM');
    await Promise.all(this.#subjects.map((one) => one.stop()));
  }

  async #certificate(kind: KeyKind): Promise<CertificateFiles> {
    const key = kind === 'RSA 2048' ? { keyType: 'rsa' as const, keySize: 2048 } : { keyType: 'ec' as const };
    const made = await generate([{ name: 'commonName', value: benchHost }], {
      ...key,
      algorithm: 'sha256',
      extensions: [{ name: 'subjectAltName', altNames: [{ type: 2, value: benchHost }] }],
    });
    const at = join(this.#stage.folder, kind.slice(0, 3));
    const files = { certFile: `${at}.crt`, keyFile: `${at}.key` };
    writeFileSync(files.certFile, made.cert);
    writeFileSync(files.keyFile, made.private);
    return files;
  }

  #filesOf(kind: KeyKind): CertificateFiles {
    const files = this.#certificates.get(kind);
    if (!files) throw new Error(`no certificate of ${kind}`);
    return files;
  }

  async #bare(): Promise<VisitedServer> {
    const start = async (files?: CertificateFiles): Promise<Entrance> => {
      const args = files ? [files.certFile, files.keyFile] : [];
      const subject = Subject.start('bare', 'bench/baseline/bare-302.ts', {}, [], args);
      this.#subjects.push(subject);
      return { pids: [subject.pid], port: Number((await subject.line(/port (\d+)/))[1]) };
    };
    const [ecdsa, rsa] = keyKinds;
    return {
      name: 'bare uWebSockets.js',
      entrances: {
        plain: await start(),
        'ECDSA P-256': await start(this.#filesOf(ecdsa)),
        'RSA 2048': await start(this.#filesOf(rsa)),
      },
    };
  }

  async #redirectorAt(port: number, name: string, more: Partial<Record<SettingName, string>>) {
    const subject = Subject.start(name, 'dist/redirector/main.js', {
      DATA_DIR: this.#stage.folder,
      INSTANCE: `redirector-${name}`,
      DATABASE_URL: this.#stage.postgres.url,
      REDIS_URL: this.#stage.redis.url,
      ADDRESS_KEY: 'benchmark key, of the required length',
      REDIRECTOR_HTTP_PORT: String(port),
      REDIRECTOR_HTTPS_PORT: '0',
      LOG_LEVEL: 'info',
      ...more,
    });
    this.#subjects.push(subject);
    await subject.line(/"part":"server"/);
    return { pid: subject.pid, port };
  }

  async #redirector(): Promise<VisitedServer> {
    const start = async (kind: KeyKind, port: number): Promise<[plain: Entrance, tls: Entrance]> => {
      const tlsPort = await freePort();
      const { certFile, keyFile } = this.#filesOf(kind);
      const { pid } = await this.#redirectorAt(port, kind.slice(0, 3), {
        REDIRECTOR_HTTPS_PORT: String(tlsPort),
        TLS_CERT_FILE: certFile,
        TLS_KEY_FILE: keyFile,
      });
      return [
        { port, pids: [pid] },
        { port: tlsPort, pids: [pid] },
      ];
    };
    const [plain, ecdsa] = await start('ECDSA P-256', await freePort());
    const [, rsa] = await start('RSA 2048', 0);
    return { name: 'redirector', entrances: { plain, 'ECDSA P-256': ecdsa, 'RSA 2048': rsa } };
  }

  /** @param behind the redirector that it passes visits to; null if nginx answers them itself. */
  async #nginx(program: string, behind: { pid: number; port: number } | null): Promise<VisitedServer> {
    const { folder } = this.#stage;
    const ports = await freePorts();
    const answer = behind
      ? 'location / { proxy_pass http://links; }'
      : 'location / { return 302 https://example.com/sale?ref=link; }';
    const secured = keyKinds.map((kind) => {
      const { certFile, keyFile } = this.#filesOf(kind);
      return `server { listen 127.0.0.1:${ports[kind]} ssl; ssl_protocols TLSv1.2 TLSv1.3; ssl_certificate ${certFile}; ssl_certificate_key ${keyFile}; ${answer} }`;
    });
    const name = behind ? 'nginx-front' : 'nginx';
    const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
      (one) => `${one}_temp_path ${folder}/${name}-${one};`,
    );
    const file = join(folder, `${name}.conf`);
    writeFileSync(
      file,
      `daemon off; master_process off; pid ${folder}/${name}.pid; error_log ${folder}/${name}.log;
events { worker_connections 4096; }
http {
  access_log off; server_tokens off; ${temporary.join(' ')}
  upstream links { server 127.0.0.1:${behind?.port ?? 1}; keepalive 64; }
  proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header Host $host;
  proxy_set_header X-Forwarded-For $remote_addr; proxy_set_header X-Forwarded-Proto $scheme;
  server { listen 127.0.0.1:${ports.plain}; ${answer} }
  ${secured.join('\n')}
}
`,
    );
    const pid = await this.#run(program, ['-p', folder, '-c', file, '-e', `${folder}/${name}.log`], ports.plain);
    return behind
      ? served('redirector behind nginx', ports, pid, behind.pid)
      : served('nginx, `return 302`', ports, pid);
  }

  async #caddy(program: string, behind: { pid: number; port: number }): Promise<VisitedServer> {
    const ports = await freePorts();
    const proxied = `bind 127.0.0.1\n\treverse_proxy 127.0.0.1:${behind.port}`;
    const sites = keyKinds.map((kind) => {
      const { certFile, keyFile } = this.#filesOf(kind);
      return `https://${benchHost}:${ports[kind]} {\n\ttls ${certFile} ${keyFile}\n\t${proxied}\n}`;
    });
    const file = join(this.#stage.folder, 'Caddyfile');
    writeFileSync(
      file,
      `{\n\tadmin off\n\tauto_https disable_redirects\n\tstorage file_system ${this.#stage.folder}/caddy\n}\nhttp://:${ports.plain} {\n\t${proxied}\n}\n${sites.join('\n')}\n`,
    );
    const pid = await this.#run(program, ['run', '--adapter', 'caddyfile', '--config', file], ports.plain);
    return served('redirector behind Caddy', ports, pid, behind.pid);
  }

  async #run(program: string, args: readonly string[], port: number): Promise<number> {
    const child = spawn(program, args, { stdio: 'ignore' });
    this.#children.push(child);
    for (let tries = 0; child.exitCode === null && tries < 300; tries++) {
      if (await connects(port)) return child.pid ?? 0;
      await new Promise((later) => setTimeout(later, 100));
    }
    throw new Error(`${program} does not listen`);
  }
}

function connects(port: number): Promise<boolean> {
  return new Promise((done) => {
    const socket = connect({ port, host: '127.0.0.1' });
    const settle = (isOpen: boolean) => {
      socket.destroy();
      done(isOpen);
    };
    socket.once('connect', () => settle(true)).once('error', () => settle(false));
  });
}

/**
 * CPU time of all threads of a process so far, in microseconds. Counted in nanoseconds, while /proc/PID/stat counts in
 * steps of 10 ms (Linux, `sched-stats`).
 */
export function threadsCpuUs(pid: number): number {
  let ns = 0;
  for (const task of readdirSync(`/proc/${pid}/task`)) {
    ns += Number(readFileSync(`/proc/${pid}/task/${task}/schedstat`, 'utf8').split(' ', 1)[0]);
  }
  return ns / 1000;
}
