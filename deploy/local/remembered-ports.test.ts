import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { RememberedPorts } from './remembered-ports.ts';

let folder = '';
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'signpost-ports-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

test('each start gets the ports of the previous one', async () => {
  const file = join(folder, 'ports.json');
  const first = new RememberedPorts(file);
  const ports = await Promise.all(['nats', 'redis', 'origin'].map((name) => first.choose(name)));
  expect(new Set(ports).size).toBe(3);
  const second = new RememberedPorts(file);
  expect(await Promise.all(['nats', 'redis', 'origin'].map((name) => second.choose(name)))).toEqual(ports);
});

test('a port that another program has taken is replaced, and the new one is remembered', async () => {
  const file = join(folder, 'ports.json');
  const taken = await new RememberedPorts(file).choose('nats');
  const other = createServer();
  await new Promise<void>((done) => other.listen(taken, '127.0.0.1', done));
  const replaced = await new RememberedPorts(file).choose('nats');
  await new Promise((done) => other.close(done));
  expect(replaced).not.toBe(taken);
  expect(await new RememberedPorts(file).choose('nats')).toBe(replaced);
});

test.each(['', '{', '[]', 'null', '{"nats":"x"}', '{"nats":-1}'])(
  'a damaged file (%s) only costs the ports',
  async (text) => {
    const file = join(folder, 'ports.json');
    writeFileSync(file, text);
    expect(await new RememberedPorts(file).choose('nats')).toBeGreaterThan(0);
  },
);

test('a port that is taken between its choice and the start is replaced; any other failure is passed on', async () => {
  const ports = new RememberedPorts(join(folder, 'ports.json'));
  const tried: number[] = [];
  const started = await ports.startOn('ingest', async (port) => {
    tried.push(port);
    if (tried.length < 3)
      throw new Error(`ingest exited while starting: listen EADDRINUSE: address already in use 127.0.0.1:${port}`);
    return port;
  });
  expect(new Set(tried).size).toBe(3);
  expect(started).toBe(tried[2]);
  expect(await ports.choose('ingest')).toBe(started);
  const broken = ports.startOn('nats', () => Promise.reject(new Error('no disk')));
  await expect(broken).rejects.toThrow('no disk');
});
