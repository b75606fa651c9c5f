/**
 * From a link to an install: through the tap page with the copied text, and with the SDK on a device that is killed; and
 * the SDK's examples, as they stand.
 *
 * @module-tag slow
 */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { findProgram } from '#deploy/local/programs.ts';
import { skipWithout } from '#testing/skip.ts';
import { Device, ExampleServer, examplePage, Relay } from './sdk-programs.ts';
import { Stack } from './stack.ts';

const userAgent =
  'Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.5 Mobile/15E148 Safari/604.1';

let stack: Stack;
beforeAll(async () => {
  stack = await Stack.start();
});
afterAll(() => stack.stop());

test('an install that sends what the tap page copied is matched to the link with certainty, and counted once as a click', async () => {
  const call = await stack.loggedIn();
  const made = await call('/apps', {
    method: 'POST',
    body: {
      name: 'Tapped',
      ios: { bundle_id: 'com.example.tapped', app_store_id: '123456789' },
      settings: { tap_page: 'ios' },
    },
  });
  expect(made.status, made.text).toBe(201);
  const app = made.json<{ id: string; host: string; api_key: string }>();
  const body = { app_id: app.id, path: '/beach', og_title: 'Summer sale' };
  const link = (await call('/links', { method: 'POST', body })).json<{ id: string; short_code: string; url: string }>();
  const headers = { host: app.host, 'user-agent': userAgent, accept: 'text/html', 'accept-language': 'de' };
  const page = await stack.redirector(`/${link.short_code}`, { headers });
  expect(page.status).toBe(200);
  expect(page.text).toContain('App laden');
  const clipboard_url = /data-c="([^"]*)"/.exec(page.text)?.[1] ?? '';
  expect(clipboard_url.startsWith(`${link.url}?click_id=clk_`)).toBe(true);

  const install = () =>
    stack.api('/sdk/install', {
      method: 'POST',
      headers: { 'x-api-key': app.api_key },
      body: { platform: 'ios', device_id: 'a phone', clipboard_url },
    });
  // The click reaches the SDK edge within a second or so.
  await expect
    .poll(
      async () =>
        (
          await stack.api('/sdk/match', {
            method: 'POST',
            headers: { 'x-api-key': app.api_key },
            body: { platform: 'ios', device_id: 'a phone', clipboard_url },
          })
        ).json<{ match_type: string }>().match_type,
      { timeout: 20_000 },
    )
    .toBe('clipboard');
  const answer = await install();
  expect(answer.status, answer.text).toBe(201);
  expect(answer.json()).toMatchObject({
    attributed: true,
    match_type: 'clipboard',
    match_guaranteed: true,
    confidence: 1,
    link: { id: link.id, path: '/beach' },
  });
  const overview = async () =>
    (await call(`/analytics/overview?link_id=${link.id}`)).json<{ totals: { clicks: number; installs: number } }>()
      .totals;
  await expect
    .poll(async () => [(await overview()).clicks, (await overview()).installs], { timeout: 20_000 })
    .toEqual([1, 1]);
});

interface OwnApp {
  readonly id: string;
  readonly host: string;
  readonly api_key: string;
}

async function newApp(name: string): Promise<OwnApp> {
  const call = await stack.loggedIn();
  const made = await call('/apps', { method: 'POST', body: { name, fallback_url: 'https://example.com/' } });
  expect(made.status, made.text).toBe(201);
  return made.json<OwnApp>();
}

async function totals(app: OwnApp): Promise<Record<string, number>> {
  const call = await stack.loggedIn();
  const answer = await call(`/analytics/overview?app_id=${app.id}`);
  return answer.json<{ totals: Record<string, number> }>().totals;
}

test('a device that is killed between sending events and their answer installs once and has each event counted once', async () => {
  const app = await newApp('Killed');
  const call = await stack.loggedIn();
  const body = { app_id: app.id, path: '/beach', data: { sku: 7 } };
  const link = (await call('/links', { method: 'POST', body })).json<{ short_code: string }>();
  const headers = { host: app.host, 'user-agent': userAgent, 'accept-language': 'de' };
  expect((await stack.redirector(`/${link.short_code}`, { headers })).status).toBe(302);
  await expect.poll(async () => (await totals(app))['clicks'], { timeout: 20_000 }).toBe(1);

  const relay = await Relay.start(stack);
  const device = await Device.create(relay.url, app.api_key);
  try {
    relay.holdAnswerOf('/sdk/events');
    const life = device.start(['opened', 'signed_up', 'bought']);
    await relay.held;
    await life.kill();
    relay.release();
    expect(await device.start(['opened_again']).ended).toContain('"path":"/beach"');
    const counted = async () => {
      const { installs, events } = await totals(app);
      return { installs, events };
    };
    await expect.poll(counted, { timeout: 20_000 }).toEqual({ installs: 1, events: 4 });
    expect(relay.paths.filter((path) => path === '/sdk/events').length).toBeGreaterThan(1);
  } finally {
    device.remove();
    await relay.stop();
  }
});

test('the example of a Node server tracks orders once each and creates links, and sends the rest when it ends', async () => {
  const app = await newApp('Server');
  const server = await ExampleServer.start(stack, app.api_key);
  try {
    const order = { id: 'order-1', user: 'user-1', device: 'device-1', total: '19.99' };
    for (const one of [order, order, { ...order, id: 'order-2' }])
      expect((await server.post('/orders', one)).status).toBe(200);
    const invite = await server.post('/invites', { from: 'ada' });
    expect(await invite.json()).toMatchObject({ url: expect.stringContaining(app.host), isLong: false });
  } finally {
    await server.stop();
  }
  await expect.poll(async () => (await totals(app))['events'], { timeout: 20_000 }).toBe(2);
});

const browser = findProgram(['chromium', 'chromium-browser', 'google-chrome']);

test('the example of a web page tracks in a real browser, sends later what it could not send, and keeps nothing in any tab once it is refused', {
  tags: ['slow'],
}, async (context) => {
  skipWithout(browser !== undefined, 'chromium', context);
  const app = await newApp('Page');
  const example = await examplePage(stack, app.api_key, browser ?? '');
  try {
    const [tab, other] = [await example.newTab(), await example.newTab()];
    await tab.open();
    await tab.buy('Thank you');
    example.goOffline();
    await tab.buy('Thank you (sent later)');
    expect(await tab.stored()).toBeGreaterThan(0);
    example.goOnline();
    await tab.open();
    await expect.poll(() => tab.stored(), { timeout: 20_000 }).toBe(0);
    // Two views and two purchases.
    await expect.poll(async () => (await totals(app))['events'], { timeout: 20_000 }).toBe(4);

    await other.open();
    await expect.poll(async () => (await totals(app))['events'], { timeout: 20_000 }).toBe(5);
    await tab.refuse();
    await expect.poll(() => other.kept()).toEqual(['{"consent":"none"}']);
    await tab.buy('Thank you');
    await other.buy('Thank you');
    expect(await other.kept()).toEqual(['{"consent":"none"}']);
  } finally {
    await example.close();
  }
  expect((await totals(app))['events']).toBe(5);
});
