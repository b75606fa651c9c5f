/**
 * The journey through the tap page: a link, its page, the tap, an install with the copied text, and a certain match.
 */
import { afterAll, beforeAll, expect, test } from 'vitest';
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
