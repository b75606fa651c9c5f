import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { afterEach, expect, test } from 'vitest';
import type { Connections } from './connections.ts';
import { Port } from './port.ts';

const sockets: Socket[] = [];
let port: Port | null = null;
afterEach(async () => {
  for (const socket of sockets.splice(0)) socket.destroy();
  await port?.closeListener();
  port?.closeConnections();
});

/** A server that answers with the address it sees, and how often it asked the system for one. */
function open(): { asked: number; connections: Connections | null } {
  const seen = { asked: 0, connections: null as Connections | null };
  port = Port.open({
    host: '127.0.0.1',
    port: 0,
    isShared: false,
    mount: (app, connections) => {
      seen.connections = connections;
      app.get('/*', (res) => {
        const asking = Object.assign(Object.create(res), {
          getRemoteAddress: () => {
            seen.asked++;
            return res.getRemoteAddress();
          },
        });
        res.end(connections.addressOf(asking));
      });
    },
  });
  return seen;
}

async function visitorFrom(localAddress: string): Promise<() => Promise<string>> {
  const socket = connect({ host: '127.0.0.1', port: port?.number ?? 0, localAddress });
  sockets.push(socket);
  await once(socket, 'connect');
  return async () => {
    socket.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n');
    const [answer] = await once(socket, 'data');
    return String(answer).split('\r\n\r\n')[1] ?? '';
  };
}

test('connections from one address are asked once each, and every request has that address', async () => {
  const seen = open();
  const visitors = [await visitorFrom('127.0.0.1'), await visitorFrom('127.0.0.1')];
  for (const visit of [...visitors, ...visitors]) expect(await visit()).toBe('127.0.0.1');
  expect(seen.asked).toBe(0);
});

test.runIf(process.platform === 'linux')(
  'every request has the address of its own connection, whichever others open and close',
  async () => {
    const seen = open();
    const first = await visitorFrom('127.0.0.1');
    expect(await first()).toBe('127.0.0.1');
    const other = await visitorFrom('127.0.0.2');
    expect([await other(), await first(), await other()]).toEqual(['127.0.0.2', '127.0.0.1', '127.0.0.2']);
    sockets[0]?.destroy();
    await expect.poll(() => seen.connections?.count).toBe(1);
    const third = await visitorFrom('127.0.0.3');
    expect([await third(), await other()]).toEqual(['127.0.0.3', '127.0.0.2']);
    for (const socket of sockets.splice(0)) socket.destroy();
    await expect.poll(() => seen.connections?.count).toBe(0);
    const last = await visitorFrom('127.0.0.2');
    expect(await last()).toBe('127.0.0.2');
  },
);
