/** What the vectors don't describe, because only this SDK has it. */
import { expect, test } from 'vitest';
import { Client } from '#src/client.ts';
import type { Store } from '#src/platform.ts';
import { SimulatedDevice } from './testing/simulated-device.ts';

const options = { host: 'https://api.example.com/v1/', apiKey: 'lk_test' };
const startMs = 1_772_366_400_000;

const newDevice = () => new SimulatedDevice(startMs, 'device', { platform: 'ios' }, null, [0.5]);

const matched = {
  match_id: 'mat_1',
  match_type: 'url',
  match_guaranteed: true,
  confidence: 1,
  link: { id: 'lnk_1', url: 'https://go.example.com/a', path: '/a', campaign: null },
};

async function answerAll(device: SimulatedDevice): Promise<void> {
  await device.settle();
  for (const { answer } of device.requests.splice(0)) answer({ status: 200, header: () => null, body: matched });
  await device.settle();
}

test('links can be read as a stream, and those that came before are the first of it', async () => {
  const device = newDevice();
  const client = new Client(options, device.platform());
  void client.open('https://go.example.com/sale1');
  await answerAll(device);
  const read: string[] = [];
  const reading = (async () => {
    for await (const { url } of client.links) if (read.push(url) === 3) break;
  })();
  await device.settle();
  for (const name of ['sale2', 'sale3']) {
    void client.open(`https://go.example.com/${name}`);
    await answerAll(device);
  }
  await reading;
  expect(read).toEqual([
    'https://go.example.com/sale1',
    'https://go.example.com/sale2',
    'https://go.example.com/sale3',
  ]);
});

test('a listener that fails stops neither the others nor the client, and one that has left hears nothing', async () => {
  const device = newDevice();
  const client = new Client(options, device.platform());
  const heard: string[] = [];
  const shown: unknown[] = [];
  const { error } = console;
  console.error = (one: unknown) => shown.push(one);
  client.onLink(() => {
    throw new Error('of the app');
  });
  const leave = client.onLink(() => heard.push('left'));
  client.onLink(({ url }) => heard.push(url));
  leave();
  const opened = client.open('https://go.example.com/sale1');
  await answerAll(device);
  console.error = error;
  expect(await opened).toMatchObject({ path: '/a' });
  expect([heard, shown.length]).toEqual([['https://go.example.com/sale1'], 1]);
});

test('a device without room drops its oldest events for new ones, and counts all that are lost', async () => {
  const device = newDevice();
  const platform = device.platform();
  const { store } = platform;
  let roomFor = 5;
  const full: Store = {
    ...store,
    set(key, text) {
      const stored = [...device.texts.keys()].filter((one) => one.startsWith('e')).length;
      if (key.startsWith('e') && stored >= roomFor) throw new Error('QuotaExceededError');
      return store.set(key, text);
    },
  };
  const client = new Client(options, { ...platform, store: full });
  for (let n = 1; n <= 8; n++) await client.track(`e${n}`);
  const names = () => [...device.texts].filter(([key]) => key.startsWith('e')).map(([, text]) => JSON.parse(text).name);
  expect(names()).toEqual(['e4', 'e5', 'e6', 'e7', 'e8']);
  roomFor = 0;
  await client.track('e9');
  expect(names()).toEqual([]);
  expect(JSON.parse(device.texts.get('state') ?? '').dropped.full).toBe(9);
});

test('a storage that fails stops nothing for good', async () => {
  const device = newDevice();
  const platform = device.platform();
  let isBroken = false;
  const keys = () => {
    if (isBroken) throw new Error('the disk is gone');
    return platform.store.keys();
  };
  device.texts.set('state', '{"consent":"all","opened":true,"installed":true,"device_id":"d"}');
  const client = new Client(options, { ...platform, store: { ...platform.store, keys } });
  await client.track('a');
  isBroken = true;
  await device.advance(250);
  expect(device.requests).toEqual([]);
  isBroken = false;
  await device.advance(300_000);
  expect(device.requests.map(({ url }) => url)).toEqual(['https://api.example.com/v1/sdk/events']);
});

test('events are sent once another tab has let go of the lock', async () => {
  const device = newDevice();
  const platform = device.platform();
  device.texts.set('state', '{"consent":"all","opened":true,"installed":true,"device_id":"d"}');
  let isLocked = true;
  const exclusively: typeof platform.exclusively = async (work) => {
    if (!isLocked) await work();
    return !isLocked;
  };
  const client = new Client(options, { ...platform, exclusively });
  await client.track('a');
  await device.advance(250);
  expect(device.requests).toEqual([]);
  isLocked = false;
  await device.advance(5_000);
  expect(device.requests).toHaveLength(1);
});
