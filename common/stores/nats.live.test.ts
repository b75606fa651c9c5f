import { once } from 'node:events';
import { copyFileSync, cpSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { TLSSocket } from 'node:tls';
import { expect, test } from 'vitest';
import { defaultInstallation } from '#common/log/log-names.ts';
import { pinnedCertificate } from '#deploy/local/made-once.ts';
import { natsForTest } from '#testing/servers.ts';
import { Nats } from './nats.ts';

const options = { name: 'test', installation: defaultInstallation };

test('with several servers, the connection fails over when one is down', async () => {
  const [one, two] = await Promise.all([natsForTest(), natsForTest()]);
  // Like servers of a cluster, they have the same users and an authority for their certificates.
  cpSync(join(one.dataDir, 'tls'), join(two.dataDir, 'tls'), { recursive: true });
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

test.each(['without TLS', 'with a certificate of its own'])(
  'a program that takes the port of a server that died, %s, is sent no password, and the connection returns to the server',
  async (kind) => {
    const server = await natsForTest();
    const nats = await Nats.connect({ ...options, url: server.url });
    const folder = mkdtempSync(join(tmpdir(), 'signpost-impostor-'));
    const { certFile, keyFile } = await pinnedCertificate(folder);
    const [cert, key] = [readFileSync(certFile), readFileSync(keyFile)];
    const received: string[] = [];
    const impostor = createServer((socket) => {
      received.push('connected');
      const listen = (stream: Socket) => stream.on('data', (bytes) => received.push(bytes.toString('latin1')));
      socket.on('error', () => undefined);
      const info = {
        server_id: 'x',
        version: '2.10.0',
        proto: 1,
        max_payload: 1_000_000,
        tls_required: kind !== 'without TLS',
      };
      socket.write(`INFO ${JSON.stringify(info)}\r\n`);
      if (kind === 'without TLS') listen(socket);
      else listen(new TLSSocket(socket, { isServer: true, cert, key }).on('error', () => undefined));
    });
    try {
      await server.kill('SIGKILL');
      await once(impostor.listen(server.port, '127.0.0.1'), 'listening');
      await expect
        .poll(() => received.filter((one) => one === 'connected').length, { timeout: 15_000 })
        .toBeGreaterThan(2);
      expect(received.join('')).not.toMatch(/CONNECT \{|pass/);
      await new Promise((done) => impostor.close(done));
      await server.restart();
      await expect.poll(() => nats.isConnected, { timeout: 15_000 }).toBe(true);
    } finally {
      impostor.close();
      await nats.close();
      await server.stop();
      rmSync(folder, { recursive: true });
    }
  },
);
