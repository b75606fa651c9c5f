import { copyFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { defaultInstallation } from '#common/log/log-names.ts';
import { natsForTest } from '#testing/servers.ts';
import { Nats } from './nats.ts';

const options = { name: 'test', installation: defaultInstallation };

test('with several servers, the connection fails over when one is down', async () => {
  const [one, two] = await Promise.all([natsForTest(), natsForTest()]);
  // Like servers of a cluster, they have the same users.
  for (const file of readdirSync(one.dataDir).filter((name) => name.startsWith('password'))) {
    copyFileSync(join(one.dataDir, file), join(two.dataDir, file));
  }
  await two.restart();
  const url = `${one.url},${one.url.replace(String(one.port), String(two.port))}`;
  const nats = await Nats.connect({ ...options, url });
  try {
    const end = nats.subscribe('ping', ({ reply }) => nats.publish(reply, Buffer.from('pong')));
    const ask = async () => (await nats.request('ping', Buffer.from('x'), 500))?.bytes.toString();
    expect(await ask()).toBe('pong');
    for (const server of [one, two]) {
      await server.kill('SIGKILL');
      await expect.poll(ask, { timeout: 15_000, interval: 100 }).toBe('pong');
      await server.restart();
    }
    end();
  } finally {
    await nats.close();
    await Promise.all([one.stop(), two.stop()]);
  }
});

test('servers with different users are refused', async () => {
  const url = 'nats://a:1@127.0.0.1:1,nats://b:1@127.0.0.1:2';
  await expect(Nats.connect({ ...options, url, waitsForServer: false })).rejects.toThrow(/the same user and password/);
});

test('of the subscribers of a group one gets each message', async () => {
  const server = await natsForTest();
  const connections = await Promise.all(Array.from({ length: 3 }, () => Nats.connect({ ...options, url: server.url })));
  const [asker, ...others] = connections;
  if (asker === undefined) throw new Error('there is none');
  const counts = others.map(() => 0);
  for (const [at, nats] of others.entries()) {
    nats.subscribe(
      'question',
      ({ reply }) => {
        counts[at] = (counts[at] ?? 0) + 1;
        nats.publish(reply, Buffer.from('answer'));
      },
      { group: 'all' },
    );
    await nats.flush();
  }
  for (let n = 0; n < 60; n++) expect((await asker.request('question', Buffer.from('x')))?.status).toBe(0);
  expect(counts.reduce((sum, count) => sum + count, 0)).toBe(60);
  expect(Math.min(...counts)).toBeGreaterThan(5);
  await Promise.all(connections.map((nats) => nats.close()));
  await server.stop();
});
