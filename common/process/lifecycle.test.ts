import { EventEmitter } from 'node:events';
import { expect, test, vi } from 'vitest';
import { Lifecycle, type Part } from './lifecycle.ts';

function lifecycleFor(drainMs = 1_000, stillStartingMs?: number) {
  const signals = new EventEmitter();
  const codes: number[] = [];
  const lines: string[] = [];
  const write = (_fields: object, message: string) => void lines.push(message);
  const log = {
    info: write,
    warn: (fields: object) => void lines.push(JSON.stringify(fields)),
    error: write,
    fatal: write,
  };
  const lifecycle = new Lifecycle({
    log,
    drainMs,
    ...(stillStartingMs ? { stillStartingMs } : {}),
    signals,
    exit: (code) => codes.push(code),
  });
  return { lifecycle, signals, codes, lines };
}

function parts(steps: string[], names: string[]): Part[] {
  return names.map((name) => ({
    name,
    start: () => void steps.push(`start ${name}`),
    stop: async () => void steps.push(`stop ${name}`),
  }));
}

test('parts start in order and stop in reverse, and a signal ends with code 0', async () => {
  const { lifecycle, signals, codes } = lifecycleFor();
  const steps: string[] = [];
  await lifecycle.run(parts(steps, ['store', 'server']));
  signals.emit('SIGTERM');
  await vi.waitFor(() => expect(codes).toEqual([0]));
  expect(steps).toEqual(['start store', 'start server', 'stop server', 'stop store']);
});

test('a part that fails to start: those already up are stopped, later ones never start, code 1', async () => {
  const { lifecycle, codes } = lifecycleFor();
  const steps: string[] = [];
  const [store, server] = parts(steps, ['store', 'server']);
  const broken: Part = { name: 'broken', start: () => Promise.reject(new Error('no')) };
  await lifecycle.run([store, broken, server].filter((part) => part !== undefined));
  expect(codes).toEqual([1]);
  expect(steps).toEqual(['start store', 'stop store']);
});

test('a part that hangs while it starts is logged, and no longer once it is up', async () => {
  vi.useFakeTimers();
  try {
    const { lifecycle, lines } = lifecycleFor(1_000, 5_000);
    let isUp = () => undefined;
    const slow: Part = { name: 'slow', start: () => new Promise<void>((done) => (isUp = () => void done())) };
    const running = lifecycle.run([slow]);
    vi.advanceTimersByTime(11_000);
    expect(lines.filter((line) => line.includes('"part":"slow"'))).toHaveLength(2);
    isUp();
    await running;
    vi.advanceTimersByTime(60_000);
    expect(lines.filter((line) => line.includes('"part":"slow"'))).toHaveLength(2);
  } finally {
    vi.useRealTimers();
  }
});

test('a part that fails to stop does not prevent the others from stopping; the code is 1', async () => {
  const { lifecycle, codes } = lifecycleFor();
  const steps: string[] = [];
  await lifecycle.run([...parts(steps, ['store']), { name: 'broken', stop: () => Promise.reject(new Error('no')) }]);
  await lifecycle.stop('test');
  expect(codes).toEqual([1]);
  expect(steps.at(-1)).toBe('stop store');
});

test('parts that have not stopped by the deadline are aborted with code 1', async () => {
  const { lifecycle, signals, codes, lines } = lifecycleFor(20);
  await lifecycle.run([{ name: 'stuck', stop: () => new Promise(() => undefined) }]);
  signals.emit('SIGINT');
  await vi.waitFor(() => expect(codes).toEqual([1]));
  expect(lines).toContain('cut off');
});

test('a second signal ends the process immediately', async () => {
  const { lifecycle, signals, codes } = lifecycleFor(60_000);
  await lifecycle.run([{ name: 'stuck', stop: () => new Promise(() => undefined) }]);
  signals.emit('SIGTERM');
  signals.emit('SIGINT');
  expect(codes).toEqual([130]);
});

test('a signal during startup stops the running parts and starts no others', async () => {
  const { lifecycle, signals, codes } = lifecycleFor();
  const steps: string[] = [];
  const [first, last] = parts(steps, ['first', 'last']);
  const signalled: Part = { name: 'signalled', start: () => void signals.emit('SIGTERM') };
  await lifecycle.run([first, signalled, last].filter((part) => part !== undefined));
  await vi.waitFor(() => expect(codes).toEqual([0]));
  expect(steps).toEqual(['start first', 'stop first']);
});

test('an uncaught rejection is logged and crashes the process', async () => {
  const { lifecycle, signals, codes, lines } = lifecycleFor();
  await lifecycle.run([]);
  signals.emit('unhandledRejection', new Error('lost'));
  expect(codes).toEqual([1]);
  expect(lines).toContain('unhandledRejection');
});
