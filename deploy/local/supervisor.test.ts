import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { type Child, startChild } from './child.ts';
import { Supervisor } from './supervisor.ts';

let folder = '';
let lines: string[] = [];
let supervisor: Supervisor;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'signpost-supervisor-'));
  lines = [];
  supervisor = new Supervisor({
    say: (line) => lines.push(line),
    pauseMs: 1,
    pauseMaxMs: 4,
    reportedMax: 3,
  });
});

afterEach(async () => {
  await supervisor.stop();
  rmSync(folder, { recursive: true, force: true });
});

function shell(name: string, script: string): Promise<Child> {
  return startChild({
    name,
    command: '/bin/sh',
    args: ['-c', script],
    logFile: join(folder, `${name}.log`),
    cwd: folder,
  });
}

function isAlive(pid: number): boolean {
  try {
    return readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.startsWith('Z') === false;
  } catch {
    return false;
  }
}

test('a child that dies is started again, with a line that says so', async () => {
  const first = await supervisor.add('sleeper', () => shell('sleeper', 'exec sleep 60'));
  first.kill('SIGKILL');
  await vi.waitFor(() => expect(lines).toHaveLength(2));
  expect(lines[0]).toContain(`sleeper (pid ${first.pid}) exited unexpectedly (SIGKILL)`);
  const [again] = supervisor.list();
  expect(again?.pid).not.toBe(first.pid);
  expect(lines[1]).toBe(`sleeper was restarted (pid ${again?.pid})`);
});

test('a child that keeps dying is restarted for as long as it takes, which is reported a limited number of times', async () => {
  await supervisor.add('broken', () => shell('broken', 'echo start >> starts; exit 3'));
  const starts = () => readFileSync(join(folder, 'starts'), 'utf8').split('\n').length - 1;
  await vi.waitFor(() => expect(starts()).toBeGreaterThan(8), 10_000);
  expect(lines.filter((line) => line.includes('exited unexpectedly'))).toHaveLength(3);
  expect(lines.filter((line) => line.includes('was restarted'))).toHaveLength(3);
  expect(lines.filter((line) => line.includes('in a row'))).toEqual([
    'broken exited 3 times in a row. It will be restarted until it runs; see its log for the reason',
  ]);
});

test('a child that cannot be started, as on a full disk, is restarted as soon as it can be', async () => {
  let isFull = false;
  let tries = 0;
  const first = await supervisor.add('sleeper', () => {
    tries++;
    return isFull ? Promise.reject(new Error('ENOSPC')) : shell('sleeper', 'exec sleep 60');
  });
  isFull = true;
  first.kill('SIGKILL');
  await vi.waitFor(() => expect(tries).toBeGreaterThan(20), 10_000);
  isFull = false;
  await vi.waitFor(() => expect(supervisor.list()).toHaveLength(1), 10_000);
  const [again] = supervisor.list();
  expect(lines.at(-1)).toBe(`sleeper was restarted (pid ${again?.pid})`);
  expect(lines.length).toBeLessThan(8);
});

test('a failing onChange is reported once, does not count as an exit, and leaves the child supervised', async () => {
  let isFull = false;
  const onChange = () => {
    if (isFull) throw new Error('ENOSPC');
  };
  supervisor = new Supervisor({
    say: (line) => lines.push(line),
    onChange,
    pauseMs: 1,
    reportedMax: 3,
  });
  const children: Child[] = [];
  await supervisor.add('sleeper', async () => {
    const child = await shell('sleeper', 'exec sleep 60');
    children.push(child);
    return child;
  });
  isFull = true;
  for (const deaths of [1, 2]) {
    children.at(-1)?.kill('SIGKILL');
    await vi.waitFor(() => expect(lines.filter((line) => line.includes('was restarted'))).toHaveLength(deaths));
    expect(children).toHaveLength(deaths + 1);
  }
  await supervisor.add('second', () => shell('second', 'exec sleep 60'));
  expect(supervisor.list().map(({ name }) => name)).toEqual(['sleeper', 'second']);
  expect(lines.filter((line) => line.includes('ENOSPC'))).toEqual([
    'writing the list of running processes failed: ENOSPC',
  ]);
});

test('children stop in the reverse of their order, and none is restarted', async () => {
  const script = (name: string) =>
    `trap 'echo ${name} >> order; exit 0' TERM; echo up > ${name}.up; while :; do sleep 0.01; done`;
  const children = [];
  for (const name of ['first', 'second', 'third']) {
    children.push(await supervisor.add(name, () => shell(name, script(name))));
    await vi.waitFor(() => expect(readFileSync(join(folder, `${name}.up`), 'utf8')).toBe('up\n'));
  }
  await supervisor.stop();
  expect(readFileSync(join(folder, 'order'), 'utf8')).toBe('third\nsecond\nfirst\n');
  expect(children.map((child) => isAlive(child.pid))).toEqual([false, false, false]);
  expect(supervisor.list()).toEqual([]);
});

test('stop waits for a child that is just starting, and ends it', async () => {
  let release: () => void = () => undefined;
  const gate = new Promise<void>((resolve) => {
    release = resolve;
  });
  let pid = 0;
  const added = supervisor.add('late', async () => {
    await gate;
    const child = await shell('late', 'exec sleep 60');
    pid = child.pid;
    return child;
  });
  const stopped = supervisor.stop();
  release();
  await Promise.all([added, stopped]);
  expect(isAlive(pid)).toBe(false);
});

test('a child ends when the process that started it is killed', { tags: ['slow'] }, async () => {
  const childModule = join(import.meta.dirname, 'child.ts');
  const code = `import { startChild } from ${JSON.stringify(childModule)};
    const child = await startChild({ name: 'orphan', command: '/bin/sleep', args: ['60'], logFile: 'orphan.log' });
    process.stdout.write(child.pid + '\\n');`;
  const launcher = await startChild({
    name: 'launcher',
    command: process.execPath,
    args: ['--import', import.meta.resolve('tsx'), '--input-type=module', '-e', code],
    logFile: join(folder, 'launcher.log'),
    cwd: folder,
  });
  const pid = await vi.waitFor(() => {
    const text = readFileSync(join(folder, 'launcher.log'), 'utf8');
    expect(text).toMatch(/^\d+\n$/);
    return Number(text);
  }, 10_000);
  expect(isAlive(pid)).toBe(true);
  launcher.kill('SIGKILL');
  await vi.waitFor(() => expect(isAlive(pid)).toBe(false), 5_000);
});
