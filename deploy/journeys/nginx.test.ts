/** deploy/single/nginx.conf with the real nginx, in front of servers that answer as Signpost's do. */

import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect } from 'node:tls';
import { gunzipSync } from 'node:zlib';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { certificate } from '#deploy/local/made-once.ts';
import { skipWithout } from '#testing/skip.ts';
import { Nginx, nginxProgram } from './nginx.ts';

const large = JSON.stringify({ items: Array.from({ length: 200 }, (_, n) => ({ id: `lnk_${n}` })) });
const folder = mkdtempSync(join(tmpdir(), 'signpost-nginx-test-'));
const servers: Server[] = [];
let nginx: Nginx | undefined;
let lastOther: IncomingMessage | undefined;

async function listen(answer: (request: IncomingMessage, response: ServerResponse) => void): Promise<number> {
  const server = createServer({ maxHeaderSize: 65_536 }, answer).listen(0, '127.0.0.1');
  servers.push(server);
  await new Promise((listening) => server.once('listening', listening));
  return (server.address() as AddressInfo).port;
}

beforeAll(async () => {
  if (nginxProgram === undefined) return;
  nginx = await Nginx.start({
    apiPort: await listen((_, response) => {
      response.writeHead(200, { 'content-type': 'application/json' }).end(large);
    }),
    linkPort: await listen((request, response) => {
      response.writeHead(302, { location: `https://shop.example${request.url}` }).end();
    }),
    otherPort: await listen((request, response) => {
      lastOther = request;
      response.end('other');
    }),
    ...(await certificate(folder, 'go.example.com')),
  });
});
afterAll(async () => {
  await nginx?.stop();
  for (const server of servers) server.close().closeAllConnections();
  rmSync(folder, { recursive: true, force: true });
});
beforeEach((context) => skipWithout(nginxProgram !== undefined, 'nginx', context));

test.each([3_900, 4_100, 15_000])(
  'a visit whose query has %i characters is redirected with all of it',
  async (length) => {
    const path = `/abc?q=${'x'.repeat(length)}`;
    expect(await nginx?.get('shop.go.example.com', path)).toMatchObject({
      status: 302,
      location: `https://shop.example${path}`,
    });
  },
);

test('a host that has no block gets no certificate, and no other one’s answer over the connection of one that has', async () => {
  await expect(nginx?.get('stranger.example', '/')).rejects.toThrow(/unrecognized name|alert|ECONNRESET/i);
  expect((await nginx?.get('stranger.example', '/v1/version', {}, 'api.example.com'))?.status).toBe(421);
});

test('links and the API speak HTTP/2', async () => {
  for (const servername of ['api.example.com', 'shop.go.example.com']) {
    const protocol = await new Promise((done, fail) => {
      const options = { host: '127.0.0.1', port: nginx?.port ?? 0, servername, rejectUnauthorized: false };
      const socket = connect({ ...options, ALPNProtocols: ['h2', 'http/1.1'] }, () => {
        done(socket.alpnProtocol);
        socket.destroy();
      });
      socket.on('error', fail);
    });
    expect(protocol).toBe('h2');
  }
});

test('other sites of the same nginx are as they were', async () => {
  expect(await nginx?.getPlain('other.example', '/x')).toEqual([418, '']);
  expect(await nginx?.getPlain('shop.go.example.com', '/x?y')).toEqual([308, 'https://shop.go.example.com/x?y']);
  const reply = await nginx?.get('other.example', '/', { 'x-forwarded-for': '203.0.113.9' });
  expect(reply?.headers['server']).toMatch(/^nginx\/\d/);
  expect(lastOther?.headers['host']).toMatch(/^127\.0\.0\.1:/);
  expect(lastOther?.headers).toMatchObject({ 'x-forwarded-for': '203.0.113.9', connection: 'close' });
  expect(lastOther?.headers).not.toHaveProperty('x-forwarded-proto');
});

test('JSON is compressed, except answers with tokens', async () => {
  const gzip = { 'accept-encoding': 'gzip' };
  const links = await nginx?.get('api.example.com', '/v1/links', gzip);
  expect(links?.headers).toMatchObject({ 'content-encoding': 'gzip', vary: 'Accept-Encoding' });
  expect(gunzipSync(links?.bytes ?? '').toString()).toBe(large);
  const login = await nginx?.get('api.example.com', '/v1/auth/login', gzip);
  expect([login?.headers['content-encoding'], login?.bytes.toString()]).toEqual([undefined, large]);
});
