import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { json } from 'node:stream/consumers';
import { expect, test } from 'vitest';
import { createSignpost } from '#src/react-native.ts';

/** The real package, with the native parts as plain objects and a server that answers everything. */
test('an app that a link starts matches and installs, and what it tracks is sent when it goes to the background', async () => {
  const requests: { path: string; body: Record<string, unknown> }[] = [];
  const link = { id: 'lnk_1', url: 'https://go.example.com/sale', path: '/sale', campaign: null };
  const reply = { match_id: 'mat_1', match_type: 'url', match_guaranteed: true, confidence: 1, link };
  const server = createServer((request, response) => {
    void json(request).then((body) => {
      requests.push({ path: request.url ?? '', body: body as Record<string, unknown> });
      response.writeHead(200, { 'content-type': 'application/json' });
      response.end(JSON.stringify({ ...reply, install_id: 'i', accepted: 1, rejected: 0 }));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const texts = new Map<string, string>([['another app’s', 'text']]);
  let goTo: (state: string) => void = () => undefined;
  const signpost = createSignpost({
    host: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    apiKey: 'lk_test',
    platform: 'ios',
    device: { os_version: '18.5' },
    storage: {
      getItem: async (key) => texts.get(key) ?? null,
      setItem: async (key, value) => void texts.set(key, value),
      multiRemove: async (keys) => {
        for (const key of keys) texts.delete(key);
      },
      getAllKeys: async () => [...texts.keys()],
    },
    linking: { getInitialURL: async () => 'https://go.example.com/sale', addEventListener: () => undefined },
    appState: {
      addEventListener(_type, listener) {
        goTo = listener;
      },
    },
  });
  const opened = new Promise((resolve) => signpost.onLink(resolve));
  expect(await opened).toMatchObject({ path: '/sale', isDeferred: false, isFirst: true });
  await expect.poll(() => requests.length).toBe(2);
  await signpost.track('bought');
  goTo('background');
  await expect
    .poll(() => requests.map(({ path }) => path))
    .toEqual(['/v1/sdk/match', '/v1/sdk/install', '/v1/sdk/events']);
  const [match, install] = requests.map(({ body }) => body);
  expect(match).toMatchObject({ platform: 'ios', os_version: '18.5', url: 'https://go.example.com/sale' });
  expect(install).toMatchObject({
    match_id: 'mat_1',
    device_id: match?.['device_id'],
    install_id: match?.['install_id'],
  });
  await expect.poll(() => texts.size).toBe(2);
  server.closeAllConnections();
  server.close();
});
