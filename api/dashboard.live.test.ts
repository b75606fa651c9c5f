/** The dashboard in a real browser, on the real API: what people do, by role and label. */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { Secret, TOTP } from 'otpauth';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, expect, type TestContext, test } from 'vitest';
import { skipWithout } from '#testing/skip.ts';
import { screensOf } from './testing/dashboard-screens.ts';
import {
  chromiumProgram,
  type DashboardStage,
  logIn,
  openShop,
  type Person,
  password,
  type Shop,
  startDashboard,
} from './testing/dashboard-stage.ts';

let stage: DashboardStage;
let owner: Person;
let shop: Shop;

beforeAll(async () => {
  if (chromiumProgram === undefined) return;
  stage = await startDashboard();
  owner = await stage.person();
  shop = await openShop(stage.api, owner);
});
afterAll(() => stage?.stop());

const inBrowser = (context: TestContext) => skipWithout(chromiumProgram !== undefined, 'chromium', context);
const nav = (page: Page, name: string) => page.getByRole('navigation').getByRole('link', { name, exact: true });

test('a new owner logs in, creates an app and a link, and sees the first click counted', async (context) => {
  inBrowser(context);
  const person = await stage.person();
  const { page, context: browser, faults } = await stage.page();
  await page.goto(`${stage.origin}/`);
  await logIn(page, person.email);
  await page.getByRole('heading', { name: 'Welcome' }).waitFor();
  await nav(page, 'Apps').click();
  await page.getByRole('button', { name: 'New app' }).click();
  await page.getByLabel('Name', { exact: true }).fill('Bakery');
  await page.getByRole('button', { name: 'Create app' }).click();
  await page.getByRole('heading', { name: 'Bakery' }).waitFor();
  expect(await page.getByText(/^lk_\w{40}$/).count()).toBe(1);

  await nav(page, 'Links').click();
  await page.getByRole('button', { name: 'New link' }).click();
  await page.getByLabel('Destination').fill('www.example.com/bread?size=2');
  await page.getByLabel('Short code').fill('bread');
  await page.getByLabel('Campaign', { exact: true }).fill('opening');
  await page.getByRole('button', { name: 'Create link' }).click();
  await page.getByRole('img', { name: 'QR code' }).waitFor();
  const [link] = await stage.api.db.query<Record<string, string>>('SELECT * FROM links WHERE organization_id = $1', [
    person.organization_id,
  ]);
  expect(link).toMatchObject({
    short_code: 'bread',
    campaign: 'opening',
    path: '/bread?size=2',
    fallback_url: 'https://www.example.com/bread?size=2',
  });
  await page.getByText('Waiting for the first tap').waitFor();
  const isQrShown = await page
    .getByRole('img', { name: 'QR code' })
    .evaluate((image) => Reflect.get(image, 'naturalWidth') > 0);
  expect(isQrShown).toBe(true);

  await stage.click(person, link?.['app_id'] ?? '', link?.['id'] ?? '');
  await page.getByText('We saw your tap').waitFor();
  await page.getByRole('button', { name: 'Done' }).click();
  await nav(page, 'Overview').click();
  await expect.poll(() => page.getByLabel('Clicks', { exact: true }).textContent()).toBe('1');
  expect(faults).toEqual([]);
  await browser.close();
});

test('a login asks for the second factor once the password is right, and says when a code is wrong', async (context) => {
  inBrowser(context);
  const person = await stage.person('viewer', owner.organization_id);
  const { secret } = (await person.call('POST', '/me/totp', { password })).body;
  const code = (steps: number) =>
    new TOTP({ secret: Secret.fromBase32(secret) }).generate({ timestamp: Date.now() + steps * 30_000 });
  expect((await person.call('POST', '/me/totp/confirm', { totp_code: code(0) })).status).toBe(200);
  const { page, context: browser } = await stage.page();
  await page.goto(`${stage.origin}/`);
  await page.getByLabel('Email').fill(person.email);
  await page.getByLabel('Password').fill('wrong');
  await page.getByRole('button', { name: 'Log in' }).click();
  await page.getByText('The email address or the password is wrong.').waitFor();
  expect(await page.getByLabel('Authentication code').count()).toBe(0);
  await page.getByLabel('Password').fill(password);
  await page.getByRole('button', { name: 'Log in' }).click();
  await page.getByLabel('Authentication code').fill('000000');
  await page.getByRole('button', { name: 'Log in' }).click();
  await page.getByText('This code is not current').waitFor();
  await page.getByLabel('Authentication code').fill(code(1));
  await page.keyboard.press('Enter');
  await page.getByRole('navigation').waitFor();
  await browser.close();
});

test('a taken short code is reported at its field, and what was entered stays', async (context) => {
  inBrowser(context);
  const [taken] = await stage.api.db.query<{ short_code: string }>('SELECT short_code FROM links WHERE id = $1', [
    shop.linkIds[0],
  ]);
  const { page, context: browser } = await stage.loggedIn(owner);
  await page.goto(`${stage.origin}/links?new=1`);
  await page.getByRole('dialog').getByLabel('App', { exact: true }).selectOption({ label: 'Shop' });
  await page.getByLabel('Destination').fill('https://www.example.com/again');
  await page.getByLabel('Short code').fill(taken?.short_code ?? '');
  await page.getByRole('button', { name: 'Create link' }).click();
  const field = page.getByRole('textbox', { name: 'Short code' });
  await expect.poll(() => field.getAttribute('aria-invalid')).toBe('true');
  expect(await page.getByLabel('Destination').inputValue()).toBe('https://www.example.com/again');
  await browser.close();
});

test('a click on a country filters everything, is in the address, and Escape removes it', async (context) => {
  inBrowser(context);
  const { page, context: browser } = await stage.loggedIn(owner);
  const clicks = page.getByLabel('Clicks', { exact: true });
  await page.getByRole('button', { name: /^Germany/ }).click();
  await expect.poll(() => new URL(page.url()).searchParams.get('country')).toBe('DE');
  const { body } = await owner.call('GET', '/analytics/overview?country=DE&timezone=Europe/Berlin');
  const shown = body.totals.clicks.toLocaleString('en-GB');
  await expect.poll(() => clicks.textContent()).toBe(shown);
  await page.reload();
  await expect.poll(() => clicks.textContent()).toBe(shown);
  await page.keyboard.press('w');
  await expect.poll(() => new URL(page.url()).searchParams.get('period')).toBe('7d');
  await page.getByRole('group').or(page.getByRole('img')).first().waitFor();
  await page.keyboard.press('ArrowLeft');
  await expect.poll(() => new URL(page.url()).searchParams.has('start')).toBe(true);
  await page.keyboard.press('Escape');
  await expect.poll(() => new URL(page.url()).search).toBe('');
  await page.getByLabel('Time zone').selectOption('UTC');
  await expect.poll(() => new URL(page.url()).searchParams.get('tz')).toBe('UTC');
  await browser.close();
});

test('every screen passes the rules of axe, in light and in dark, and reports no fault', {
  tags: ['slow'],
  timeout: 180_000,
}, async (context) => {
  inBrowser(context);
  const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
  const found: string[] = [];
  const { page, context: browser, faults } = await stage.loggedIn(owner);
  for (const screen of screensOf(shop)) {
    if (screen.isAnonymous || screen.isFresh) continue;
    await page.emulateMedia({ colorScheme: 'light' });
    await screen.open(page, stage.origin);
    found.push(...(await violations(page, axe, allRules)).map((one) => `${screen.name}: ${one}`));
    await page.emulateMedia({ colorScheme: 'dark' });
    found.push(...(await violations(page, axe, colorRules)).map((one) => `${screen.name}, dark: ${one}`));
  }
  expect(faults).toEqual([]);
  await browser.close();
  for (const isFresh of [true, false]) {
    const opened = isFresh ? await stage.loggedIn(await stage.person()) : await stage.page();
    if (!isFresh) await opened.page.goto(stage.origin);
    const screen = screensOf(shop).find((one) => (isFresh ? one.isFresh : one.isAnonymous));
    await screen?.open(opened.page, stage.origin);
    found.push(...(await violations(opened.page, axe, allRules)).map((one) => `${screen?.name}: ${one}`));
    await opened.context.close();
  }
  expect(found).toEqual([]);
});

const allRules = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'];
/** The only ones that depend on the colors. */
const colorRules = ['color-contrast'];

/** In an isolated world, which the page's policy does not cover. */
async function violations(page: Page, axe: string, rules: readonly string[]): Promise<string[]> {
  const session = await page.context().newCDPSession(page);
  const { frameTree } = await session.send('Page.getFrameTree');
  const { executionContextId: contextId } = await session.send('Page.createIsolatedWorld', {
    frameId: frameTree.frame.id,
  });
  const expression = `${axe};axe.run(document, { runOnly: ${JSON.stringify(rules)} })
    .then((r) => r.violations.flatMap((v) => v.nodes.map((n) => v.id + ' ' + n.target.join(' ') + ' ' + n.failureSummary)))`;
  const options = { expression, contextId, awaitPromise: true, returnByValue: true };
  const { result } = await session.send('Runtime.evaluate', options);
  await session.detach();
  return result.value;
}

test('two tabs share a session; when it ends, both ask for the login, and one login or logout is enough for both', async (context) => {
  inBrowser(context);
  const person = await stage.person('owner', owner.organization_id);
  const { page, context: browser } = await stage.loggedIn(person);
  const other = await browser.newPage();
  await other.goto(`${stage.origin}/links?search=sale`);
  await other.getByText('Spring sale').waitFor();
  await stage.api.db.execute('DELETE FROM browser_sessions WHERE user_id = $1', [person.user_id]);
  // The first tab may notice before, and tells this one.
  await other
    .getByLabel('Order')
    .selectOption({ label: 'Most used first' }, { timeout: 5_000 })
    .catch(() => undefined);
  await other.getByText('Your session has ended').waitFor();
  await logIn(other, person.email);
  await other.getByText('Spring sale').waitFor();
  expect(new URL(other.url()).searchParams.get('search')).toBe('sale');
  await nav(page, 'Apps').click();
  await page.getByRole('link', { name: 'Travel guide' }).waitFor();
  await page.getByRole('button', { name: 'Log out' }).click();
  await other.getByRole('button', { name: 'Log in' }).waitFor();
  await browser.close();
});

test('a browser in German gets German texts, numbers and dates', { tags: ['slow'] }, async (context) => {
  inBrowser(context);
  const { page, context: browser } = await stage.page({ locale: 'de-DE' });
  await page.goto(`${stage.origin}/`);
  await page.getByLabel('E-Mail').fill(owner.email);
  await page.getByLabel('Passwort').fill(password);
  await page.getByRole('button', { name: 'Anmelden' }).click();
  await nav(page, 'Übersicht').waitFor();
  await expect.poll(() => page.getByLabel('Klicks', { exact: true }).textContent()).toMatch(/^\d\.\d{3}$/);
  await page.getByRole('button', { name: /^Deutschland/ }).waitFor();
  expect(await page.locator('html').getAttribute('lang')).toBe('de');
  await browser.close();
});

test('a viewer sees everything and no control that writes', { tags: ['slow'] }, async (context) => {
  inBrowser(context);
  const viewer = await stage.person('viewer', owner.organization_id);
  const { page, context: browser } = await stage.loggedIn(viewer);
  await nav(page, 'Links').click();
  await page.getByText('Spring sale').waitFor();
  expect(await page.getByRole('button', { name: 'New link' }).count()).toBe(0);
  await page.getByRole('link', { name: 'Spring sale' }).click();
  await page.getByRole('tab', { name: 'Browsers' }).waitFor();
  for (const name of ['Edit', 'Archive', 'Delete']) expect(await page.getByRole('button', { name }).count()).toBe(0);
  await nav(page, 'Apps').click();
  await page.getByRole('link', { name: 'Shop' }).click();
  await page.getByText('Viewers see only the beginning of the key.').waitFor();
  expect(await page.getByRole('button', { name: 'Rotate' }).count()).toBe(0);
  expect(await page.getByRole('textbox', { name: 'Name' }).isDisabled()).toBe(true);
  await browser.close();
});

test('while the API is slow the page says so, and when it fails it shows the request and offers to try again', async (context) => {
  inBrowser(context);
  const { page, context: browser } = await stage.loggedIn(owner);
  await page.getByRole('button', { name: /^Germany/ }).waitFor();
  let release: (() => void) | undefined;
  await page.route('**/v1/links?*', async (route) => {
    await new Promise<void>((go) => {
      release = go;
    });
    await route.continue();
  });
  await nav(page, 'Links').click();
  await page.getByRole('status', { name: 'Loading' }).first().waitFor();
  await expect.poll(() => release).toBeDefined();
  release?.();
  await page.getByText('Spring sale').waitFor();
  await page.unroute('**/v1/links?*');
  await page.route('**/v1/apps?*', (route) =>
    route.fulfill({ status: 500, headers: { 'x-request-id': 'req_test' }, json: {} }),
  );
  await page.goto(`${stage.origin}/apps`);
  await page.getByText('Request req_test').waitFor();
  await page.unroute('**/v1/apps?*');
  await page.getByRole('button', { name: 'Try again' }).click();
  await page.getByRole('link', { name: 'Travel guide' }).waitFor();
  await browser.close();
});

async function findAmong(count: number): Promise<void> {
  const person = await stage.person();
  const app = (await person.call('POST', '/apps', { name: 'Large' })).body;
  const batch = Math.min(count, 10_000);
  for (let from = 1; from <= count; from += batch) {
    await stage.api.db.execute(
      `INSERT INTO links (id, organization_id, app_id, short_code, path, campaign, source, title, created_at, updated_at)
       SELECT 'lnk_' || substr(md5($2 || n), 1, 26), $1, $2, 'code' || n, '/p', NULL, 'dashboard', 'Link number ' || n,
              now() - n * interval '1 minute', now() FROM generate_series($3::int, $3::int + $4::int - 1) n`,
      [person.organization_id, app.id, from, batch],
    );
  }
  const { page, context: browser } = await stage.loggedIn(person);
  await nav(page, 'Links').click();
  await page.getByText(`1–50 of ${count.toLocaleString('en-GB')}`).waitFor();
  await page.keyboard.press('/');
  await page.keyboard.type(`number ${count - 77}`);
  await page.getByRole('link', { name: `Link number ${count - 77}` }).waitFor();
  await expect.poll(() => page.getByRole('row').count()).toBe(2);
  await page.goto(`${stage.origin}/links?offset=${count - 50}`);
  await page.getByRole('link', { name: `Link number ${count}` }).waitFor();
  expect(await page.getByRole('button', { name: 'Next page' }).isDisabled()).toBe(true);
  await browser.close();
}

test('among 2,000 links one is found by typing, and the last page is reachable', {
  tags: ['slow'],
}, async (context) => {
  inBrowser(context);
  await findAmong(2_000);
});

test('among 100,000 links too', { tags: ['slow'], timeout: 120_000 }, async (context) => {
  inBrowser(context);
  await findAmong(100_000);
});
