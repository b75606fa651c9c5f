/** A restart of the API behind Caddy with the Caddyfile of production.md. */
import { Type } from 'typebox';
import { expect, test } from 'vitest';
import { mountRoutes } from '#common/http/mount.ts';
import { routesOf } from '#common/http/route.ts';
import { HttpServer } from '#common/http/server.ts';
import { freePort } from '#deploy/local/ports.ts';
import { skipWithout } from '#testing/skip.ts';
import { Caddy, caddyProgram } from './caddy.ts';

const host = 'api.example.com';
const route = routesOf<null, null>();
const described = { caller: 'public', limit: 'general', tag: 'test', answers: { 200: { description: 'ok' } } } as const;
const guard = () => Promise.resolve({ caller: null, quota: null });
const routes = mountRoutes({
  routes: [
    route({
      ...{ ...described, method: 'GET', path: '/version', operationId: 'version', summary: 'Is there' },
      handle: () => ({ status: 200, body: {} }),
    }),
    route({
      ...{ ...described, method: 'POST', path: '/things', operationId: 'write', summary: 'Echoes' },
      body: Type.Object({ number: Type.Integer() }),
      handle: (_, { body }) => ({ status: 200, body }),
    }),
  ],
  deps: null,
  guard,
});

const startApi = (httpPort: number) =>
  HttpServer.start({
    ...{ host: '127.0.0.1', httpsPort: null, httpPort, trustedProxies: ['127.0.0.1'], corsOrigins: [], routes },
    ...{ onFailure: () => undefined, guardUnknown: guard },
  });
const patience = { timeout: 30_000, interval: 20 };

test('while the API restarts behind Caddy, every write waits and is answered', async (context) => {
  skipWithout(caddyProgram !== undefined, 'caddy', context);
  const apiPort = await freePort();
  let api = await startApi(apiPort);
  const caddy = await Caddy.start({ apiHost: host, apiPort, linkPort: apiPort, tlsQuestion: 'http://127.0.0.1:1/' });
  const answers: Promise<string>[] = [];
  const write = async (number: number) => {
    const { status, text } = await caddy.post(host, '/v1/things', { number });
    return `${status} ${text}`;
  };
  const timer = setInterval(() => answers.push(write(answers.length)), 20);
  const sendMore = (count: number) => {
    const wanted = answers.length + count;
    return expect.poll(() => answers.length, patience).toBeGreaterThan(wanted);
  };
  try {
    await sendMore(50);
    await api.stop(5_000);
    await sendMore(50);
    api = await startApi(apiPort);
    await sendMore(20);
    clearInterval(timer);
    const wanted = answers.map((_, number) => `200 ${JSON.stringify({ number })}`);
    expect(await Promise.all(answers)).toEqual(wanted);
  } finally {
    clearInterval(timer);
    await Promise.allSettled(answers);
    await caddy.stop();
    await api.stop(0);
  }
});
