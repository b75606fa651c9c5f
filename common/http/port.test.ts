import { expect, test } from 'vitest';
import { waitingVisitors } from '#common/testing/waiting-visitors.ts';
import { Port } from './port.ts';

test('connections that wait to be accepted when a listener closes are answered', async () => {
  const port = Port.open({
    ...{ host: '127.0.0.1', port: 0, isShared: true },
    mount: (app) => app.any('/*', (res) => void res.end('ok', true)),
  });
  const replies = waitingVisitors(port.number);
  await port.closeListener();
  expect(new Set(await replies)).toEqual(new Set(['HTTP/1.1 200 OK']));
  expect(port.connections).toBe(0);
});
