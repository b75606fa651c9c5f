/** @module-tag slow */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { newApiKey } from '#common/api-key.ts';
import { findProgram } from '#deploy/local/programs.ts';
import { type BrowserPage, browserPage } from '#gateway/testing/browser-page.ts';
import { SdkEdge } from '#gateway/testing/sdk-edge.ts';
import { skipWithout } from '#testing/skip.ts';

const chromium = findProgram(['chromium', 'chromium-browser', 'google-chrome']);
const patience = { timeout: 60_000 };

let edge: SdkEdge;
beforeAll(async () => {
  edge = await SdkEdge.start();
});
afterAll(async () => {
  await edge.stop();
  expect(edge.failures).toEqual([]);
});

const namesOf = (app_id: string) => edge.events(app_id).map(({ name }) => name);
const eventually = (app_id: string, names: string[]) =>
  expect.poll(() => namesOf(app_id).sort(), { timeout: 20_000 }).toEqual(names);

async function withPage(entry: string, run: (opened: BrowserPage) => Promise<void>): Promise<void> {
  const opened = await browserPage(edge.base, entry, chromium ?? '');
  try {
    await opened.open();
    await run(opened);
    expect(opened.faults).toEqual([]);
  } finally {
    await opened.close();
  }
}

test(
  "Segment's browser SDK loads its settings and delivers its calls, one by one or in a batch as the page closes",
  patience,
  async (context) => {
    skipWithout(chromium !== undefined, 'chromium', context);
    await withPage('gateway/testing/segment-page.mjs', async ({ page, edgeHost, passed, open }) => {
      const { app_id, key } = await edge.app();
      const loading = (isBatching: boolean, writeKey = key) => {
        const cdnURL = `http://${edgeHost}/v1/sdk/segment`;
        const apiHost = `${edgeHost}/v1/sdk/segment/v1`;
        return `load(${JSON.stringify({ writeKey, isBatching, cdnURL, apiHost })})`;
      };
      await page.evaluate(loading(false));
      await page.evaluate(`analytics.identify('u1', { plan: 'pro' }).then(() => null)`);
      await page.evaluate(`analytics.page('Home').then(() => null)`);
      await page.evaluate(`analytics.group('g1').then(() => null)`);
      await page.evaluate(`analytics.alias('u2', 'u1').then(() => null)`);
      await page.evaluate(
        `analytics.track('Order Completed', { revenue: 12.5, currency: 'EUR', sku: 'Ä' }).then(() => null)`,
      );
      await eventually(app_id, ['Order Completed']);
      expect(edge.events(app_id)).toMatchObject([
        {
          ...{ user_id: 'u1', platform: 'web', revenue_amount: '12.5', revenue_currency: 'EUR', ip: '198.51.100.0' },
          ...{ utm_source: 'news', utm_campaign: 'spring' },
        },
      ]);
      await expect.poll(() => passed.filter(({ method }) => method === 'POST').length).toBeGreaterThanOrEqual(5);
      const paths = passed.filter(({ method }) => method === 'POST').map(({ path }) => path.split('/').at(-1));
      expect(new Set(paths)).toEqual(new Set(['i', 'p', 'g', 'a', 't']));
      await open();
      await page.evaluate(loading(true));
      await page.evaluate(`analytics.track('Left', {}).then(() => null)`);
      await page.goto('about:blank');
      await eventually(app_id, ['Left', 'Order Completed']);
      expect(passed.at(-1)).toMatchObject({ path: '/v1/sdk/segment/v1/b', contentType: 'text/plain' });
      expect(passed.map(({ status }) => status).filter((status) => status >= 400)).toEqual([]);
      await open();
      // With an unknown key, the SDK does not start.
      await page.evaluate(`void ${loading(false, newApiKey())}`);
      await expect.poll(() => passed.at(-1)).toMatchObject({ method: 'GET', status: 401 });
    });
  },
);

test(
  "PostHog's browser SDK loads its configuration and delivers captures as gzip, JSON and a base64 form as the page closes",
  patience,
  async (context) => {
    skipWithout(chromium !== undefined, 'chromium', context);
    await withPage('gateway/testing/posthog-page.mjs', async ({ page, edgeHost, passed, open }) => {
      const { app_id, key } = await edge.app();
      const init = (options: object) =>
        page.evaluate(
          `new Promise((loaded) => posthog.init(${JSON.stringify(key)}, {
          api_host: 'http://${edgeHost}/v1/sdk/posthog', request_queue_config: { flush_interval_ms: 250 },
          disable_external_dependency_loading: true, opt_out_useragent_filter: true, loaded: () => loaded(), ...${JSON.stringify(options)} }))`,
        );
      await init({});
      // The configuration declares support for gzip; until it has loaded, captures are sent as JSON.
      await expect.poll(() => page.evaluate('posthog.compression')).toBe('gzip-js');
      await page.evaluate(`void posthog.identify('u1', { plan: 'pro' })`);
      await page.locator('button').click();
      await page.evaluate(`void posthog.capture('Order Completed', { revenue: 12.5, currency: 'EUR', sku: 'Ä' })`);
      await eventually(app_id, ['Order Completed']);
      const [bought] = edge.events(app_id);
      expect(bought).toMatchObject({
        ...{ user_id: 'u1', platform: 'web', revenue_amount: '12.5', revenue_currency: 'EUR', ip: '198.51.100.0' },
        ...{ utm_source: 'news', utm_campaign: 'spring' },
      });
      expect(bought?.aliases).toContain(bought?.device_id);
      expect(await page.evaluate(`posthog.isFeatureEnabled('new-shop')`)).toBe(undefined);
      await page.evaluate(`void posthog.reloadFeatureFlags()`);
      await expect.poll(() => passed.some(({ path }) => path.includes('/flags/'))).toBe(true);
      await page.evaluate(`void posthog.capture('Left')`);
      await page.goto('about:blank');
      await eventually(app_id, ['Left', 'Order Completed']);
      const sent = passed.filter(({ method, path }) => method === 'POST' && path.includes('/e/'));
      expect(new Set(sent.map(({ contentType }) => contentType))).toEqual(new Set(['text/plain']));
      await open();
      await init({ disable_compression: true });
      await page.evaluate(`void posthog.capture('As JSON')`);
      await eventually(app_id, ['As JSON', 'Left', 'Order Completed']);
      await page.evaluate(`void posthog.capture('As a form')`);
      await page.goto('about:blank');
      await eventually(app_id, ['As JSON', 'As a form', 'Left', 'Order Completed']);
      expect(passed.at(-1)).toMatchObject({ contentType: 'application/x-www-form-urlencoded' });
      expect(passed.map(({ status }) => status).filter((status) => status >= 400)).toEqual([]);
    });
  },
);
