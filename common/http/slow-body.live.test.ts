/**
 * A body over a network of 1.7 kB/s, with the limits as they are: neither we nor uWebSockets.js cut it.
 *
 * @module-tag slow
 */
import { connect } from 'node:net';
import { Type } from 'typebox';
import { expect, test } from 'vitest';
import { mountRoutes } from './mount.ts';
import { routesOf } from './route.ts';
import { HttpServer } from './server.ts';

const BYTES = 59_000;
/** Once in 12 seconds, as a phone in a tunnel. */
const PIECE = 20_000;
const EVERY_MS = 12_000;

test('a body that comes in three pieces within 36 seconds is read whole', async () => {
  const route = routesOf<null, null>()({
    method: 'POST',
    path: '/things',
    operationId: 'things',
    caller: 'public',
    limit: 'general',
    summary: 'Counts',
    tag: 'test',
    answers: { 200: { description: 'ok' } },
    body: Type.Object({ text: Type.String() }),
    handle: (_, { body }) => ({ status: 200, body: { characters: body.text.length } }),
  });
  const guard = () => Promise.resolve({ caller: null, quota: null });
  const server = await HttpServer.start({
    host: '127.0.0.1',
    httpsPort: null,
    httpPort: 0,
    trustedProxies: ['127.0.0.1'],
    corsOrigins: [],
    routes: mountRoutes({ routes: [route], deps: null, guard, isOutage: () => false }),
    guardUnknown: guard,
    onFailure: (error) => {
      throw error;
    },
  });
  const body = JSON.stringify({ text: 'x'.repeat(BYTES) });
  const socket = connect(server.httpPort, '127.0.0.1');
  const head = `POST /v1/things HTTP/1.1\r\nhost: api\r\nx-forwarded-proto: https\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n`;
  socket.write(head);
  let at = 0;
  const timer = setInterval(() => {
    socket.write(body.slice(at, at + PIECE));
    at += PIECE;
    if (at >= body.length) clearInterval(timer);
  }, EVERY_MS);
  const answer = await new Promise<string>((done, fail) => {
    socket.once('data', (bytes) => done(bytes.toString()));
    socket.once('error', fail);
    socket.once('close', () => fail(new Error(`closed after ${at} bytes`)));
  });
  expect(answer).toMatch(/^HTTP\/1.1 200/);
  expect(answer).toContain(`{"characters":${BYTES}}`);
  socket.end();
  await server.stop(1000);
});
