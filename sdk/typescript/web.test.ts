/** Pages whose browser keeps something from them: storage or locks. */
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { Signpost } from '#src/types.ts';
import { createSignpost } from '#src/web.ts';

const options = { host: 'https://api.example.com/v1/', apiKey: 'lk_test' };
const prefix = 'signpost:k_test:';

/** Names of the events of each request. */
let sent: string[][] = [];

beforeEach(() => {
  sent = [];
  vi.useFakeTimers({ toFake: ['setTimeout'] });
  vi.stubGlobal('document', { addEventListener: () => undefined });
  vi.stubGlobal('addEventListener', () => undefined);
  vi.stubGlobal('location', { search: '' });
  vi.stubGlobal('navigator', { onLine: true });
  vi.stubGlobal('localStorage', {});
  vi.stubGlobal('fetch', async (_url: string, { body }: { body: string }) => {
    const { events } = JSON.parse(body) as { events: { name: string }[] };
    sent.push(events.map(({ name }) => name));
    return Response.json({ accepted: events.length, duplicates: 0, rejected: 0 });
  });
});

afterEach(() => {
  vi.unstubAllGlobals();
  vi.useRealTimers();
});

/** A localStorage with room for so many characters, keys included. */
function storageFor(chars: () => number, texts: Record<string, string> = {}): Record<string, string> {
  return new Proxy(texts, {
    set(target, key: string, text: string) {
      const used = Object.entries({ ...target, [key]: text }).reduce(
        (sum, [one, { length }]) => sum + one.length + length,
        0,
      );
      const grows = text.length > (target[key] ?? '').length || !(key in target);
      if (grows && used > chars()) throw new DOMException('full', 'QuotaExceededError');
      target[key] = text;
      return true;
    },
  });
}

async function expectToWork(client: Signpost): Promise<void> {
  await client.identify('u1');
  expect(await client.firstLink()).toBe(null);
  await client.track('a');
  await client.track('b');
  expect(await client.flush()).toEqual({ queued: 0, dropped: { full: 0, expired: 0, rejected: 0, consent: 0 } });
  expect(sent).toEqual([['a', 'b']]);
}

test('a sandboxed frame, which gets neither storage nor locks, sends its events', async () => {
  const denied = () => {
    throw new DOMException('sandboxed', 'SecurityError');
  };
  vi.stubGlobal('navigator', { onLine: true, locks: { request: async () => denied() } });
  Object.defineProperty(globalThis, 'localStorage', { configurable: true, get: denied });
  await expectToWork(createSignpost(options));
});

test('a page without locks sends its events', async () => {
  await expectToWork(createSignpost(options));
});

test('work that fails under the lock is not done again without it', async () => {
  let requests = 0;
  const request = async (_name: string, _how: object, run: (lock: object) => Promise<boolean>) => {
    requests++;
    return await run({});
  };
  vi.stubGlobal('navigator', { onLine: true, locks: { request } });
  let reads = 0;
  const flight = `${prefix}flight`;
  const texts = Object.defineProperty({}, flight, {
    get: () => {
      reads++;
      return 'no JSON';
    },
  });
  vi.stubGlobal('localStorage', texts);
  const client = createSignpost(options);
  await client.flush();
  expect([requests, reads, sent]).toEqual([1, 1, []]);
});

test('while another tab has the lock, events stay', async () => {
  const request = async (_name: string, _how: object, run: (lock: null) => Promise<boolean>) => run(null);
  vi.stubGlobal('navigator', { onLine: true, locks: { request } });
  const client = createSignpost(options);
  await client.track('a');
  expect(await client.flush()).toMatchObject({ queued: 1 });
  expect(sent).toEqual([]);
});

test('a page whose localStorage is null keeps its texts in memory', async () => {
  vi.stubGlobal('localStorage', null);
  await expectToWork(createSignpost(options));
});

test('a page that cannot write to localStorage keeps its texts in memory', async () => {
  const texts = {};
  vi.stubGlobal(
    'localStorage',
    storageFor(() => 0, texts),
  );
  await expectToWork(createSignpost(options));
  expect(texts).toEqual({});
});

test('a consent that is withdrawn erases what is in memory', async () => {
  vi.stubGlobal(
    'localStorage',
    storageFor(() => 0),
  );
  const client = createSignpost(options);
  await client.track('a');
  await client.setConsent('none');
  expect(await client.flush()).toMatchObject({ queued: 0, dropped: { consent: 1 } });
  expect(sent).toEqual([]);
});

test('what was in memory is stored with the next change once there is room', async () => {
  const texts: Record<string, string> = {};
  let room = 0;
  vi.stubGlobal(
    'localStorage',
    storageFor(() => room, texts),
  );
  const client = createSignpost(options);
  await client.identify('u1');
  room = 10_000;
  await client.identify('u2');
  expect(JSON.parse(texts[`${prefix}state`] ?? '')).toMatchObject({ consent: 'all', user_id: 'u2' });
  expect(texts[`${prefix}state`]).toContain('dev-');
  // A later page reads what was stored, not what was in memory before.
  await client.identify('u3');
  expect(JSON.parse(texts[`${prefix}state`] ?? '')).toMatchObject({ user_id: 'u3' });
});

test('events that fill localStorage give way to new ones, and none of them is in memory only', async () => {
  const all = ['n1', 'n2', 'n3', 'n4', 'n5', 'n6', 'n7', 'n8', 'n9'];
  // In some of these rooms, the state that counts what was dropped does not fit either.
  for (let room = 700; room < 1_200; room += 10) {
    const texts: Record<string, string> = {};
    vi.stubGlobal(
      'localStorage',
      storageFor(() => room, texts),
    );
    sent = [];
    const client = createSignpost(options);
    for (const name of all) await client.track(name);
    const stored = Object.entries(texts).filter(([key]) => key.startsWith(`${prefix}e`));
    const names = stored.map(([, text]) => (JSON.parse(text) as { name: string }).name);
    expect(names.length).toBeGreaterThan(0);
    expect(names).toEqual(all.slice(-names.length));
    const { queued, dropped } = await client.flush();
    expect([queued, dropped.full]).toEqual([0, all.length - names.length]);
    expect(sent).toEqual([names]);
  }
});

test('a page of an earlier visitor whose site has filled localStorage since then goes on in memory', async () => {
  const state = JSON.stringify({ consent: 'all', device_id: 'd' });
  const texts = { [`${prefix}state`]: state };
  vi.stubGlobal(
    'localStorage',
    storageFor(() => 0, texts),
  );
  await expectToWork(createSignpost(options));
  expect(texts).toEqual({ [`${prefix}state`]: state });
});
