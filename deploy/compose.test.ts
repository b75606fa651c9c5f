/** The files of deploy/compose and of the image match the code. */
import { execFile, execFileSync, spawnSync } from 'node:child_process';
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { loadConfig } from '#common/process/config.ts';
import { findProgram } from '#deploy/local/programs.ts';
import { skipWithout } from '#testing/skip.ts';

const folder = 'deploy/compose';
const compose = readFileSync(`${folder}/compose.yaml`, 'utf8');
const example = readFileSync(`${folder}/example.env`, 'utf8');
/** Settings of the servers, and of the Caddyfile. */
const foreign = /^(POSTGRES_|CLICKHOUSE_(USER|DB|PASSWORD|DEFAULT_)|API_NAME$|COMPOSE_)/;

test('every setting of the composed processes exists', () => {
  const config = loadConfig([], {});
  const names = [...compose.matchAll(/^ +([A-Z][A-Z_]+):/gm)].map(([, name]) => name ?? '');
  expect(names.length).toBeGreaterThan(10);
  expect(names.filter((name) => !foreign.test(name) && !(name.replace(/_FILE$/, '') in config))).toEqual([]);
});

test('every variable that the file needs is in example.env, and every image has a version', () => {
  const needed = new Set([...compose.matchAll(/\$\{([A-Z_]+):\?\}/g)].map(([, name]) => name));
  const given = [...example.matchAll(/^([A-Z_]+)=/gm)].map(([, name]) => name);
  expect([...needed, 'COMPOSE_PROJECT_NAME'].sort()).toEqual(given.sort());
  const images = [...compose.matchAll(/^ +image: (.+)$/gm)].map(([, image]) => image);
  expect(images.filter((image) => !/:[\w.]+\}?$/.test(image ?? ''))).toEqual([]);
});

test('Caddy accepts the Caddyfile', (context) => {
  const program = findProgram(['caddy']);
  skipWithout(program !== undefined, 'caddy', context);
  const env = { PATH: process.env['PATH'] ?? '', HOME: '/nonexistent', API_NAME: 'api.example.com' };
  const adapted = execFileSync(program ?? '', ['adapt', '--config', `${folder}/Caddyfile`], {
    env,
    encoding: 'utf8',
    stdio: 'pipe',
  });
  expect(adapted).toContain('http://origin:9090/tls-allowed');
});

interface Composed {
  readonly services: Record<
    string,
    {
      readonly secrets?: readonly string[];
      readonly environment?: Record<string, string>;
      readonly healthcheck?: {
        readonly test?: unknown;
        readonly interval: string;
        readonly timeout: string;
        readonly retries: number;
      };
    }
  >;
  readonly secrets: Record<string, { readonly file: string }>;
}

test('every secret is a file that secrets.sh makes, once, and that a service uses; no environment and no command has one', () => {
  const copy = mkdtempSync(join(tmpdir(), 'signpost-compose-'));
  try {
    cpSync(folder, copy, { recursive: true });
    const make = () => spawnSync('sh', [join(copy, 'secrets.sh')], { encoding: 'utf8' });
    expect(make()).toMatchObject({ status: 0, stderr: '' });
    const { services, secrets } = parse(compose, { merge: true }) as Composed;
    const files = readdirSync(join(copy, 'secrets'));
    expect(
      Object.values(secrets)
        .map(({ file }) => file.replace('secrets/', ''))
        .sort(),
    ).toEqual(files.sort());
    expect([...new Set(Object.values(services).flatMap((service) => service.secrets ?? []))].sort()).toEqual(files);
    expect(statSync(join(copy, 'secrets')).mode & 0o777).toBe(0o700);
    const read = (name: string) => readFileSync(join(copy, 'secrets', name), 'utf8');
    for (const { environment = {}, secrets: own = [] } of Object.values(services)) {
      const named = Object.entries(environment).filter(([name]) => name.endsWith('_FILE'));
      for (const [, path] of named) expect(own).toContain(path.replace('/run/secrets/', ''));
      const urls = named.flatMap(([name, path]) =>
        /^(POSTGRES|CLICKHOUSE)_PASSWORD/.test(name)
          ? []
          : [[name.replace(/_FILE$/, ''), read(path.replace('/run/secrets/', ''))]],
      );
      expect(() => loadConfig([], Object.fromEntries(urls))).not.toThrow();
    }
    expect(compose).not.toMatch(/(PASSWORD|SECRET_KEY|ADDRESS_KEY|(DATABASE|CLICKHOUSE|REDIS|NATS)_URL):/);
    const before = files.map(read);
    expect(make().stderr).toContain('are not replaced');
    expect(files.map(read)).toEqual(before);
  } finally {
    rmSync(copy, { recursive: true });
  }
});

test('secrets.sh takes over the secrets that an earlier release had in .env, and makes the others', () => {
  const copy = mkdtempSync(join(tmpdir(), 'signpost-compose-'));
  try {
    cpSync(join(folder, 'secrets.sh'), join(copy, 'secrets.sh'));
    writeFileSync(
      join(copy, '.env'),
      `API_NAME=a\nREDIS_PASSWORD=kept\nSECRET_KEY=k1:YQ==\nADDRESS_KEY="Yg=="\nNATS_PASSWORD=\n`,
    );
    execFileSync('sh', [join(copy, 'secrets.sh')]);
    const read = (name: string) => readFileSync(join(copy, 'secrets', name), 'utf8');
    expect(['secret_key', 'address_key', 'redis_url'].map(read)).toEqual([
      'k1:YQ==',
      'Yg==',
      'redis://default:kept@redis:6379',
    ]);
    expect(read('nats_url')).toMatch(/^nats:\/\/signpost:[0-9a-f]{48}@/);
  } finally {
    rmSync(copy, { recursive: true });
  }
});

test('a server that hangs is unhealthy within a minute and a half', () => {
  const { services } = parse(compose, { merge: true }) as Composed;
  const checks = Object.values(services).flatMap(({ healthcheck }) =>
    healthcheck?.test === undefined ? [] : [healthcheck],
  );
  expect(checks).toHaveLength(3);
  const seconds = checks.map(
    (check) => (Number.parseInt(check.interval, 10) + Number.parseInt(check.timeout, 10)) * check.retries,
  );
  for (const time of seconds) expect(time).toBeLessThanOrEqual(90);
});

test('docker and podman leave the same files out of the build, secrets and history among them', () => {
  const rules = readFileSync('.containerignore', 'utf8');
  expect(readFileSync('.dockerignore', 'utf8')).toBe(rules);
  expect(rules.split('\n')).toEqual(
    expect.arrayContaining(['.git', '.data', 'deploy/compose/secrets', 'deploy/compose/.env']),
  );
});

test('the health check of the image succeeds only for a process that answers that it has been ready', async (context) => {
  const bash = findProgram(['bash']);
  skipWithout(bash !== undefined, 'bash', context);
  let answer: string | undefined = 'HTTP/1.1 200 OK\r\n\r\n';
  const server = createServer((socket) => {
    socket
      .on('error', () => undefined)
      .once('data', (request) => {
        expect(request.toString()).toMatch(/^GET \/startupz /);
        if (answer !== undefined) socket.end(answer);
      });
  }).listen(0, '127.0.0.1');
  await promisify((done: () => void) => server.once('listening', done))();
  const address = server.address();
  const port = typeof address === 'object' ? String(address?.port) : '';
  const check = async (env: Record<string, string>) =>
    await promisify(execFile)(bash ?? '', ['deploy/image/health.sh'], { env }).then(
      () => 0,
      ({ code }) => code as number,
    );
  expect(await check({ METRICS_PORT: port, METRICS_HOST: '0.0.0.0' })).toBe(0);
  answer = 'HTTP/1.1 503 Service Unavailable\r\n\r\n';
  expect(await check({ METRICS_PORT: port })).toBe(1);
  // A process that hangs.
  answer = undefined;
  expect(await check({ METRICS_PORT: port })).toBe(1);
  await new Promise((done) => server.close(done));
  expect(await check({ METRICS_PORT: port })).toBe(1);
});
