/** Regions and cities in the dashboard, in a real browser: an app whose records have them, and one whose records do not. */
import { afterAll, beforeAll, expect, type TestContext, test } from 'vitest';
import { MINUTE_MS } from '#common/durations.ts';
import { skipWithout } from '#testing/skip.ts';
import { chromiumProgram, type DashboardStage, type Person, startDashboard } from './testing/dashboard-stage.ts';
import { storeRecords } from './testing/records.ts';
import { visit } from './testing/shop-records.ts';

let stage: DashboardStage;
let owner: Person;
/** Without places. */
let plainAppId: string;

beforeAll(async () => {
  if (chromiumProgram === undefined) return;
  stage = await startDashboard();
  owner = await stage.person();
  for (const name of ['Placed', 'Plain']) {
    const app = await owner.call('POST', '/apps', { name, fallback_url: 'https://example.com/' });
    const app_id: string = app.body.id;
    const link = await owner.call('POST', '/links', { app_id, path: '/p' });
    const place = { organization_id: owner.organization_id, app_id };
    const clicks = Array.from({ length: 115 }, (_, idx) =>
      visit(() => 0.99, place, [link.body.id], Date.now() - MINUTE_MS, idx),
    ).flat();
    const none = name === 'Plain' ? { region: '', city: '' } : {};
    await storeRecords(
      stage.api.clickhouse,
      clicks.map((click) => ({ ...click, ...none })),
      `places-${name}`,
    );
    plainAppId = app_id;
  }
});
afterAll(() => stage?.stop());

const inBrowser = (context: TestContext) => skipWithout(chromiumProgram !== undefined, 'chromium', context);

test('regions and cities are lists beside the countries; a row filters everything, and its filter chip can be removed', {
  tags: ['slow'],
}, async (context) => {
  inBrowser(context);
  const { page, context: browser, faults } = await stage.loggedIn(owner);
  const clicks = page.getByLabel('Clicks', { exact: true });
  const param = (name: string) => new URL(page.url()).searchParams.get(name);
  await page.getByRole('tab', { name: 'Countries' }).focus();
  await page.keyboard.press('ArrowRight');
  await expect.poll(() => param('where')).toBe('region');
  await page.getByRole('button', { name: /^DE-BY \(Germany\)/ }).click();
  await expect.poll(() => param('region')).toBe('DE-BY');
  await page.getByText('Region DE-BY (Germany)').waitFor();
  const { body } = await owner.call('GET', '/analytics/overview?region=DE-BY&timezone=Europe/Berlin');
  expect(body.totals.clicks).toBeGreaterThan(0);
  await expect.poll(() => clicks.textContent()).toBe(String(body.totals.clicks));
  await page.getByRole('button', { name: 'Remove the filter Region' }).click();
  await expect.poll(() => param('region')).toBe(null);
  await page.getByRole('tab', { name: 'Cities' }).click();
  await page.getByRole('button', { name: /^Saint-Denis, Réunion/ }).click();
  await expect.poll(() => param('city')).toBe('Saint-Denis\\, Réunion');
  await page.getByText('City Saint-Denis, Réunion').waitFor();
  const ofCity = await owner.call(
    'GET',
    `/analytics/overview?city=${encodeURIComponent('Saint-Denis\\, Réunion')}&timezone=Europe/Berlin`,
  );
  expect(ofCity.body.totals.clicks).toBeGreaterThan(0);
  await expect.poll(() => clicks.textContent()).toBe(String(ofCity.body.totals.clicks));
  expect(faults).toEqual([]);
  await browser.close();
});

test('on a phone, the arrow keys bring the tab of the cities into view', { tags: ['slow'] }, async (context) => {
  inBrowser(context);
  const { page, context: browser } = await stage.loggedIn(owner, { viewport: { width: 390, height: 844 } });
  await page.getByRole('tab', { name: 'Countries' }).focus();
  for (const name of ['Regions', 'Cities']) {
    await page.keyboard.press('ArrowRight');
    await expect.poll(() => page.getByRole('tab', { name, exact: true }).getAttribute('aria-selected')).toBe('true');
    const box = await page.getByRole('tab', { name, exact: true }).boundingBox();
    expect(box?.x).toBeGreaterThanOrEqual(0);
    expect((box?.x ?? 0) + (box?.width ?? 0)).toBeLessThanOrEqual(390);
  }
  await page.getByRole('button', { name: /^Munich/ }).waitFor();
  expect(await page.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(390);
  await browser.close();
});

test('if no record has a region or a city, the list says what is required, and countries are shown as before', {
  tags: ['slow'],
}, async (context) => {
  inBrowser(context);
  const { page, context: browser } = await stage.loggedIn(owner);
  for (const field of ['region', 'city']) {
    await page.goto(`${stage.origin}/?app_id=${plainAppId}&where=${field}`);
    await page.getByText(/They require a GeoIP database with cities \(the GEOIP_DB setting of ingest\)/).waitFor();
  }
  await page.getByRole('tab', { name: 'Countries' }).click();
  await page.getByRole('button', { name: /^Poland/ }).waitFor();
  await browser.close();
});
