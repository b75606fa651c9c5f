/** The queue file of a Node server has one process at a time, whatever became of the one before. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { takeLock } from './src/file-lock.ts';
import { FileStore } from './src/file-store.ts';
import { createSignpost } from './src/node.ts';

let program: string;
beforeAll(async () => {
  const { outputFiles } = await build({
    entryPoints: [fileURLToPath(new URL('testing/lock-taker.ts', import.meta.url))],
    bundle: true,
    platform: 'node',
    format: 'esm',
    write: false,
  });
  program = outputFiles[0]?.text ?? '';
});

let folder: string;
const children: ChildProcess[] = [];
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'signpost-lock-'));
  writeFileSync(join(folder, 'taker.mjs'), program);
  mkdirSync(join(folder, 'files'));
});
afterEach(async () => {
  for (const child of children.splice(0)) {
    if (child.exitCode !== null || child.signalCode !== null) continue;
    const gone = once(child, 'exit');
    child.kill('SIGKILL');
    await gone;
  }
  rmSync(folder, { recursive: true });
});

const pathOf = (name: string | number) => join(folder, 'files', String(name));

/** Starts a process that opens the files 0 to `count` - 1 and keeps them open. */
function start(count = 1, startMs = 0) {
  const child = spawn(
    process.execPath,
    [join(folder, 'taker.mjs'), join(folder, 'files'), String(count), String(startMs)],
    {
      stdio: ['pipe', 'pipe', 'inherit'],
    },
  );
  children.push(child);
  const taken = once(createInterface(child.stdout), 'line').then(([line]) => JSON.parse(String(line)) as number[]);
  return { child, taken };
}

/** The text of a lock that a process left when it was killed. */
async function lockOfKilled(): Promise<string> {
  const { child, taken } = start();
  expect(await taken).toEqual([0]);
  const gone = once(child, 'exit');
  child.kill('SIGKILL');
  await gone;
  return readFileSync(`${pathOf(0)}.lock`, 'utf8');
}

test('a file is refused while its process runs, and free once that was killed', async () => {
  const { child, taken } = start();
  expect(await taken).toEqual([0]);
  expect(() => new FileStore(pathOf(0))).toThrow(
    `is in use by process ${child.pid}. Give each process its own queueFile.`,
  );
  const gone = once(child, 'exit');
  child.kill('SIGKILL');
  await gone;
  await new FileStore(pathOf(0)).close();
});

test('of processes that race for the file of a killed one, exactly one gets it', { tags: ['slow'] }, async () => {
  const rounds = 40;
  const stale = await lockOfKilled();
  for (let n = 0; n < rounds; n++) writeFileSync(`${pathOf(n)}.lock`, stale);
  const startMs = Date.now() + 500;
  const takers = Array.from({ length: 3 }, () => start(rounds, startMs));
  const taken = (await Promise.all(takers.map((one) => one.taken))).flat();
  expect(taken.sort((a, b) => a - b)).toEqual(Array.from({ length: rounds }, (_, n) => n));
  // Nothing but the locks is left of the race.
  expect(readdirSync(join(folder, 'files')).sort()).toEqual(
    Array.from({ length: rounds }, (_, n) => `${n}.lock`).sort(),
  );
});

test.runIf(process.platform === 'linux')('a lock whose process id now belongs to another process is free', async () => {
  const stale = await lockOfKilled();
  for (const pid of [1, process.ppid, process.pid]) {
    writeFileSync(`${pathOf(0)}.lock`, stale.replace(/^\d+/, String(pid)));
    await new FileStore(pathOf(0)).close();
  }
});

test.runIf(process.platform === 'linux')('a process that has ended but was not waited for keeps no lock', async () => {
  // The shell becomes a process that never asks for the end of its child.
  const shell = spawn(
    'sh',
    ['-c', '"$0" "$@" & exec sleep 60', process.execPath, join(folder, 'taker.mjs'), join(folder, 'files'), '1'],
    {
      stdio: ['pipe', 'pipe', 'inherit'],
    },
  );
  children.push(shell);
  await once(createInterface(shell.stdout), 'line');
  const pid = Number.parseInt(readFileSync(`${pathOf(0)}.lock`, 'utf8'), 10);
  process.kill(pid, 'SIGKILL');
  await expect.poll(() => readFileSync(`/proc/${pid}/stat`, 'utf8')).toContain(') Z ');
  await new FileStore(pathOf(0)).close();
});

test('a lock can be taken although another process was killed while it took it over', async () => {
  const stale = await lockOfKilled();
  const token = stale.split(' ').at(-1);
  writeFileSync(`${pathOf(0)}.lock.${token}`, stale);
  await new FileStore(pathOf(0)).close();
  expect(readdirSync(join(folder, 'files'))).toEqual([]);
});

test('a lock that cannot be read, as after a full disk, is free', async () => {
  for (const text of ['', 'none', '-1', '0 0 0', '\0\0\0']) {
    writeFileSync(`${pathOf(0)}.lock`, text);
    await new FileStore(pathOf(0)).close();
  }
});

test('a file that cannot be read is not locked', async () => {
  mkdirSync(pathOf('a'));
  expect(() => new FileStore(pathOf('a'))).toThrow('EISDIR');
  expect(existsSync(`${pathOf('a')}.lock`)).toBe(false);
});

test('a store whose last write failed is closed all the same', async () => {
  const store = new FileStore(pathOf('a'));
  // Written to the folder's place, it fails.
  mkdirSync(pathOf('a'));
  await expect(store.set('a', '1')).rejects.toThrow('EISDIR');
  await Promise.all([store.close(), store.close()]);
  rmSync(pathOf('a'), { recursive: true });
  await new FileStore(pathOf('a')).close();
});

test('a client whose state cannot be stored frees its file when it is closed', async () => {
  const queueFile = pathOf('a');
  const options = { host: 'http://127.0.0.1:9', apiKey: 'lk_test', queueFile };
  const client = createSignpost(options);
  // The client stores its consent in the next turn.
  mkdirSync(queueFile);
  await expect(client.close()).rejects.toThrow('EISDIR');
  rmSync(queueFile, { recursive: true });
  await new FileStore(queueFile).close();
});

test('a client that cannot be created locks no file', async () => {
  const queueFile = pathOf('a');
  expect(() => createSignpost({ host: undefined as unknown as string, apiKey: 'lk_test', queueFile })).toThrow();
  await new FileStore(queueFile).close();
});

test('a lock that someone deleted and another process took is left to that process', async () => {
  const store = new FileStore(pathOf(0));
  rmSync(`${pathOf(0)}.lock`);
  expect(await start().taken).toEqual([0]);
  await store.close();
  expect(() => new FileStore(pathOf(0))).toThrow('is in use by process');
});

const inUse = (pid: number) => new Error(`in use by ${pid}`);

test('on a volume without hard links, a file is locked, and taken over from a killed process', async () => {
  const stale = await lockOfKilled();
  const file = `${pathOf('a')}.lock`;
  for (const code of ['EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS', 'EISDIR']) {
    const link = () => {
      throw Object.assign(new Error(code), { code });
    };
    for (const before of [null, stale, '']) {
      if (before !== null) writeFileSync(file, before);
      const free = takeLock(file, inUse, link);
      expect(readFileSync(file, 'utf8')).toMatch(new RegExp(`^${process.pid} \\S* \\w{16}$`));
      expect(() => takeLock(file, inUse, link)).toThrow(`in use by ${process.pid}`);
      // A process that can link honours it as well.
      expect(() => new FileStore(pathOf('a'))).toThrow('is in use');
      free();
      expect(readdirSync(join(folder, 'files'))).toEqual(['0.lock']);
    }
  }
});

test('a lock that another process has created but not yet written is left to it', () => {
  const file = pathOf('a');
  const free = takeLock(pathOf('b'), inUse);
  const owned = readFileSync(pathOf('b'), 'utf8');
  writeFileSync(file, '');
  let tries = 0;
  const link = (_from: string, to: string) => {
    if (to === file && ++tries === 2) writeFileSync(file, owned);
    throw Object.assign(new Error('EPERM'), { code: 'EPERM' });
  };
  expect(() => takeLock(file, inUse, link)).toThrow(`in use by ${process.pid}`);
  expect(readFileSync(file, 'utf8')).toBe(owned);
  free();
});

test('an error that does not mean a volume without hard links is thrown', () => {
  const link = () => {
    throw Object.assign(new Error('EIO'), { code: 'EIO' });
  };
  expect(() => takeLock(pathOf('a'), inUse, link)).toThrow('EIO');
  expect(readdirSync(join(folder, 'files'))).toEqual([]);
});
