/** The dashboard in a real browser with the real API. Elements are found by role and label. */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import decodeQr from 'jsqr';
import { Secret, TOTP } from 'otpauth';
import type { Locator, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, type TestContext, test } from 'vitest';
import { newId } from '#common/ids.ts';
import { namedTargets } from '#common/links/rule-id.ts';
import { matchJson } from '#common/log/match-record.ts';
import { plainMatch } from '#common/testing/match-record.ts';
import { skipWithout } from '#testing/skip.ts';
import { logo, screensOf } from './testing/dashboard-screens.ts';
import { openShop, type Shop } from './testing/dashboard-shop.ts';
import {
  chromiumProgram,
  type DashboardStage,
  logIn,
  type Person,
  password,
  startDashboard,
} from './testing/dashboard-stage.ts';
import { clickOf, eventOf } from './testing/live-stage.ts';

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
/** Inside the visible window, not just somewhere on the page. */
async function isOnScreen(page: Page, one: Locator): Promise<boolean> {
  const [box, view] = [await one.boundingBox(), page.viewportSize()];
  return box !== null && view !== null && box.y >= 0 && box.y + box.height <= view.height;
}
const nav = (page: Page, name: string) => page.getByRole('navigation').getByRole('link', { name, exact: true });

test('a new owner logs in, creates an app and a link, and sees the first click counted', {
  tags: ['slow'],
}, async (context) => {
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
  const qr = page.getByRole('img', { name: 'QR code' });
  await expect.poll(() => qr.evaluate((image) => Reflect.get(image, 'naturalWidth') > 0)).toBe(true);

  const place = {
    organization_id: person.organization_id,
    app_id: link?.['app_id'] ?? '',
    link_id: link?.['id'] ?? '',
  };
  // The live feed shows the click first; statistics include it later.
  const tap = async () => {
    await stage.log.write('click', clickOf(place));
    return await page.getByText('We saw your tap').count();
  };
  await expect.poll(tap).toBe(1);
  await stage.click(person, place.app_id, place.link_id);
  await page.getByRole('button', { name: 'Done' }).click();
  await nav(page, 'Overview').click();
  await expect.poll(() => page.getByLabel('Clicks', { exact: true }).textContent()).toBe('1');
  expect(faults).toEqual([]);
  await browser.close();
});

test('a login asks for the second factor after the right password, and says when a code is wrong', {
  tags: ['slow'],
}, async (context) => {
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
  await page.getByText('Wrong email address or password.').waitFor();
  expect(await page.getByLabel('Authentication code').count()).toBe(0);
  await page.getByLabel('Password').fill(password);
  await page.getByRole('button', { name: 'Log in' }).click();
  await page.getByLabel('Authentication code').fill('000000');
  await page.getByRole('button', { name: 'Log in' }).click();
  await page.getByText('This code has expired or was already used').waitFor();
  await page.getByLabel('Authentication code').fill(code(1));
  await page.keyboard.press('Enter');
  await page.getByRole('navigation').first().waitFor();
  await browser.close();
});

test('a short code is checked as it is typed, a taken one is reported at its field, and what was entered stays', {
  tags: ['slow'],
}, async (context) => {
  inBrowser(context);
  const [taken] = await stage.api.db.query<{ short_code: string }>('SELECT short_code FROM links WHERE id = $1', [
    shop.linkIds[0],
  ]);
  const { page, context: browser } = await stage.loggedIn(owner);
  await page.goto(`${stage.origin}/links?new=1`);
  await page.getByRole('dialog').getByLabel('App', { exact: true }).selectOption({ label: 'Shop' });
  await page.getByLabel('Destination').fill('https://www.example.com/again');
  await page.getByLabel('Short code').fill(`${taken?.short_code}-2`);
  await page.getByText('This code is free.').waitFor();
  await page.getByLabel('Short code').fill(taken?.short_code ?? '');
  await page.getByText('Another link has this code.').waitFor();
  // With all sections open, the form is longer than the screen.
  for (const section of ['UTM parameters', 'Apps and devices', 'Tags, expiry and limit'])
    await page.getByText(section).click();
  const create = page.getByRole('button', { name: 'Create link' });
  expect(await isOnScreen(page, create)).toBe(true);
  await page.getByLabel('URL after expiry').scrollIntoViewIfNeeded();
  await create.click();
  const field = page.getByRole('textbox', { name: 'Short code' });
  await expect.poll(() => field.getAttribute('aria-invalid')).toBe('true');
  await expect.poll(() => isOnScreen(page, field)).toBe(true);
  await field.fill('another-code');
  expect(await field.getAttribute('aria-invalid')).toBe(null);
  expect(await page.getByLabel('Destination').inputValue()).toBe('https://www.example.com/again');
  await browser.close();
});

test('a link is created with reordered rules and a password, and its page says which rule applies to which visitor', {
  tags: ['slow'],
}, async (context) => {
  inBrowser(context);
  const person = await stage.person();
  const app = (await person.call('POST', '/apps', { name: 'Ruled' })).body;
  const { page, context: browser, faults } = await stage.loggedIn(person);
  await page.goto(`${stage.origin}/links?new=1`);
  const drawer = page.getByRole('dialog');
  await drawer.getByLabel('Destination', { exact: true }).fill('https://www.example.com/all');
  await drawer.getByText('Redirect rules').click();
  await drawer.getByRole('button', { name: 'Add a rule' }).click();
  const first = drawer.getByRole('group', { name: 'Rule 1', exact: true });
  await first.getByLabel('Destination of the rule').fill('http://plain.example/');
  await first.getByRole('button', { name: 'Language' }).click();
  await first.getByRole('combobox', { name: 'Language' }).fill('German');
  await page.keyboard.press('Enter');
  await drawer.getByRole('button', { name: 'Add a rule' }).click();
  const second = drawer.getByRole('group', { name: 'Rule 2', exact: true });
  await second.getByLabel('Goes to').selectOption('variants');
  for (const [name, share] of [
    ['A', '60'],
    ['B', '40'],
  ] as const) {
    await second.getByLabel(`Variant ${name}`, { exact: true }).fill(`www.example.com/${name}`);
    await second.getByLabel(`Percent ${name}`).fill(share);
  }
  await second.getByRole('button', { name: 'Country' }).click();
  await second.getByRole('combobox', { name: 'Country' }).fill('Austria');
  await page.keyboard.press('Enter');
  await second.getByRole('combobox', { name: 'Country' }).fill('Atlantis');
  await page.keyboard.press('Enter');
  await second.getByText('Choose a name from the list.').waitFor();
  await second.getByRole('combobox', { name: 'Country' }).fill('');
  await second.getByRole('button', { name: 'Device' }).click();
  await second.getByRole('checkbox', { name: 'iOS' }).check();
  await second.getByLabel('Oldest OS version').fill('17.4');
  await second.getByRole('button', { name: 'Weekdays and hours' }).click();
  await second.getByRole('checkbox', { name: 'Sun' }).check();
  await drawer.getByText('Password', { exact: true }).click();
  await drawer.getByLabel('Password for visitors').fill('open sesame');
  await drawer.getByRole('button', { name: 'Create link' }).click();
  const refused = first.getByLabel('Destination of the rule');
  await expect.poll(() => refused.getAttribute('aria-invalid')).toBe('true');
  await first.getByText('must be an https URL').waitFor();
  await refused.fill('https://www.example.com/de');
  await drawer.getByRole('button', { name: 'Move rule 2 up' }).click();
  await drawer.getByRole('button', { name: 'Create link' }).click();
  await drawer.getByRole('link', { name: 'Open link page' }).click();
  const [link] = (await person.call('GET', `/links?app_id=${app.id}`)).body.data;
  expect(link).toMatchObject({
    has_password: true,
    rules: [
      {
        country: ['AT'],
        platform: ['ios'],
        os_version_min: '17.4',
        weekdays: ['sun'],
        timezone: 'Europe/Berlin',
        variants: [
          { url: 'https://www.example.com/A', percent: 60 },
          { url: 'https://www.example.com/B', percent: 40 },
        ],
      },
      { language: ['de'], url: 'https://www.example.com/de' },
    ],
  });
  const seen = page.getByRole('region', { name: 'Who sees what' });
  await seen
    .getByRole('row', { name: /^Desktop/ })
    .getByText('Asks for the password', { exact: true })
    .waitFor();
  await page.getByRole('button', { name: 'Edit' }).click();
  await drawer.getByText('Password (set)').click();
  await drawer.getByRole('checkbox', { name: 'Remove the password' }).check();
  await drawer.getByRole('button', { name: 'Save' }).click();
  await seen
    .getByRole('row', { name: /^Desktop/ })
    .getByText('https://www.example.com/all')
    .first()
    .waitFor();
  await seen.getByLabel('Language').selectOption('de-AT');
  await seen
    .getByRole('row', { name: /^Desktop/ })
    .getByText('Rule 2', { exact: true })
    .waitFor();
  await seen.getByLabel('Country').selectOption('AT');
  await seen.getByLabel('Time of the visit').fill('2026-11-22T12:00');
  await seen
    .getByRole('row', { name: /^iPhone/ })
    .getByText(/^Rule 1, variant [AB]$/)
    .waitFor();
  await seen
    .getByRole('row', { name: /^Desktop/ })
    .getByText('Rule 2', { exact: true })
    .waitFor();
  const ids = namedTargets(link.id, link.rules).map(({ id }) => id);
  for (const rule of ['', ids[1], ids[2], '0123456789abcdef']) await stage.click(person, app.id, link.id, rule);
  await page.reload();
  const figures = page.locator('section').filter({ has: page.getByText('By rule', { exact: true }) });
  for (const label of [
    /^Rule 1, variant B: Austria · .* → www\.example\.com\/B1$/,
    /^Rule 2: German → www\.example\.com\/de1$/,
    /^Former rule \(0123456789abcdef\)1$/,
    /^No rule1$/,
  ])
    await figures.getByRole('listitem').filter({ hasText: label }).waitFor();
  await figures.getByRole('tab', { name: 'Installs' }).click();
  await figures
    .getByRole('listitem')
    .filter({ hasText: /^No rule0$/ })
    .waitFor();
  expect(faults).toEqual([]);
  await browser.close();
  const viewer = await stage.loggedIn(await stage.person('viewer', person.organization_id));
  await viewer.page.goto(`${stage.origin}/links/${link.id}`);
  await viewer.page.getByRole('list', { name: 'Redirect rules' }).getByText('German', { exact: true }).waitFor();
  expect(await viewer.page.getByRole('button', { name: 'Edit' }).count()).toBe(0);
  await viewer.context.close();
});

test('the pages of an app are written in its settings, and one that is too long is reported at its field', {
  tags: ['slow'],
}, async (context) => {
  inBrowser(context);
  const { page, context: browser, faults } = await stage.loggedIn(owner);
  await page.goto(`${stage.origin}/apps/${shop.appId}`);
  const gone = page.getByLabel('Page for expired links (HTML)');
  await page.getByLabel('Page for unknown links (HTML)').fill('<h1>Not here</h1>');
  await gone.fill('x'.repeat(16_385));
  const settings = page.locator('form', { has: page.getByRole('heading', { name: 'Settings' }) });
  const save = settings.getByRole('button', { name: 'Save' });
  await save.click();
  await expect.poll(() => gone.getAttribute('aria-invalid')).toBe('true');
  await expect.poll(() => isOnScreen(page, gone)).toBe(true);
  await gone.fill('');
  await save.click();
  const pages = async () => (await owner.call('GET', `/apps/${shop.appId}`)).body.pages;
  await expect.poll(pages).toEqual({ not_found: '<h1>Not here</h1>', expired: null });
  expect(faults).toEqual([]);
  await browser.close();
});

test('links are selected with the keyboard, tagged, archived and deleted together, and other links do not change', {
  tags: ['slow'],
}, async (context) => {
  inBrowser(context);
  const person = await stage.person();
  const app = (await person.call('POST', '/apps', { name: 'Bulk' })).body;
  const links = Array.from({ length: 130 }, (_, n) => ({ app_id: app.id, path: '/b', title: `Bulk ${n + 1}` }));
  await person.call('POST', '/links/bulk', { links: links.slice(0, 127) });
  await person.call('POST', '/links/bulk', { links: links.slice(127).map((link) => ({ ...link, campaign: 'last' })) });
  const totalOf = async (query: string) => (await person.call('GET', `/links?limit=1&${query}`)).body.pagination.total;
  const { page, context: browser, faults } = await stage.loggedIn(person);
  await nav(page, 'Links').click();
  await page.getByRole('checkbox', { name: 'Select Bulk 130', exact: true }).focus();
  await page.keyboard.press('Space');
  await page.getByText('1 selected').waitFor();
  await page.getByRole('button', { name: 'Next page' }).click();
  await page.getByRole('checkbox', { name: 'Select all links on this page' }).check();
  await page.getByText('51 selected').waitFor();
  await page.getByRole('button', { name: 'Add tags' }).focus();
  await page.keyboard.press('Enter');
  await page.keyboard.type('spring, paid');
  await page.keyboard.press('Enter');
  await page.getByText('51 links changed.').waitFor();
  expect(await totalOf('tag=paid')).toBe(51);
  await page.goto(`${stage.origin}/links?campaign=last`);
  await page.getByRole('checkbox', { name: 'Select all links on this page' }).check();
  await page.getByRole('button', { name: 'Archive' }).click();
  const question = page.getByRole('dialog', { name: 'Archive and turn off 3 links?' });
  await question.getByRole('button', { name: 'Cancel' }).click();
  expect(await totalOf('archived=true')).toBe(0);
  await page.getByRole('button', { name: 'Archive' }).click();
  await question.getByRole('button', { name: 'Archive' }).click();
  await page.getByText('3 links changed.').waitFor();
  expect([await totalOf('archived=true'), await totalOf('archived=false')]).toEqual([3, 127]);
  await page.getByRole('button', { name: 'Remove the filter Campaign' }).click();
  await page.getByRole('checkbox', { name: 'Select all links on this page' }).check();
  await page.getByRole('button', { name: 'Select all 127' }).click();
  await page.getByText('127 selected').waitFor();
  await page.getByRole('button', { name: 'Delete' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
  await page.getByText('127 links changed.').waitFor();
  expect(await totalOf('')).toBe(3);
  expect(faults).toEqual([]);
  await browser.close();
});

test('a bulk change waits at the rate limit, shows its progress, and keeps failed links selected', {
  tags: ['slow'],
}, async (context) => {
  inBrowser(context);
  const person = await stage.person();
  const app = (await person.call('POST', '/apps', { name: 'Limited' })).body;
  const links = Array.from({ length: 101 }, () => ({ app_id: app.id, path: '/b' }));
  await person.call('POST', '/links/bulk', { links });
  const { page, context: browser } = await stage.loggedIn(person);
  let sent = 0;
  let release = () => {};
  const isSeen = new Promise<void>((resolve) => {
    release = resolve;
  });
  await page.route('**/v1/links/bulk', async (route) => {
    sent++;
    // The progress is visible only until the response.
    if (sent > 2) await isSeen;
    if (sent === 2) return route.fulfill({ status: 429, headers: { 'retry-after': '1' }, json: {} });
    return sent > 2
      ? route.fulfill({ status: 400, json: { error: { message: 'refused by a test' } } })
      : route.continue();
  });
  await nav(page, 'Links').click();
  for (const rows of ['1–50', '51–100', '101–101']) {
    await page.getByText(`${rows} of 101`).waitFor();
    const all = page.getByRole('checkbox', { name: 'Select all links on this page' });
    // Until the rows arrive, the box belongs to the previous page, where it is checked.
    await expect.poll(() => all.isChecked()).toBe(false);
    await all.check();
    if (rows !== '101–101') await page.getByRole('button', { name: 'Next page' }).click();
  }
  await page.getByText('101 selected').waitFor();
  await page.getByRole('button', { name: 'Archive' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Archive' }).click();
  await page.getByText('100 of 101 done').waitFor();
  release();
  await page.getByText('refused by a test').waitFor();
  await page.getByText('100 links changed.').waitFor();
  await page.getByText('1 selected').waitFor();
  await browser.close();
});

test('a designed QR code in each format leads to the link, with a logo in its middle', {
  tags: ['slow'],
}, async (context) => {
  inBrowser(context);
  const { page, context: browser, faults } = await stage.loggedIn(owner);
  const link = (await owner.call('GET', `/links/${shop.linkIds[0]}`)).body;
  await page.goto(`${stage.origin}/links/${link.id}`);
  await page.getByRole('button', { name: 'Design' }).click();
  await page.getByLabel('Code color').fill('#123456');
  await page.getByLabel('Background').fill('#ffeedd');
  await page.getByLabel('Logo').setInputFiles({ name: 'l.svg', mimeType: 'image/svg+xml', buffer: Buffer.from(logo) });
  await page.locator('svg.qrpreview image').waitFor();
  await page.getByLabel('PNG size').selectOption('512');
  const saved = async (name: string) => {
    const waits = page.waitForEvent('download');
    await page.getByRole('button', { name, exact: true }).click();
    const file = await waits;
    expect(file.suggestedFilename()).toBe(`${link.short_code}.${name.toLowerCase()}`);
    return readFileSync(await file.path());
  };
  const [png, svg, pdf] = [await saved('PNG'), await saved('SVG'), await saved('PDF')];
  expect(await decodedQr(page, png, 'image/png')).toBe(link.url);
  expect(await decodedQr(page, svg, 'image/svg+xml')).toBe(link.url);
  const text = pdf.toString('latin1');
  const [, at] = /startxref\n(\d+)\n%%EOF/.exec(text) ?? [];
  expect(text.slice(Number(at), Number(at) + 4)).toBe('xref');
  expect(text).toContain('/Filter /DCTDecode');
  await page.getByLabel('Code color').fill('#ffdd99');
  await page.getByText('too similar for many cameras').waitFor();
  expect(faults).toEqual([]);
  await browser.close();
});

const qrSide = 280;

/** What a camera reads from an image as the browser renders it, including SVG. */
async function decodedQr(page: Page, bytes: Buffer, type: string): Promise<string | undefined> {
  const grays: number[] = await page.evaluate(`(async () => {
    const image = new Image();
    image.src = 'data:${type};base64,${bytes.toString('base64')}';
    await image.decode();
    const canvas = document.createElement('canvas');
    canvas.width = canvas.height = ${qrSide};
    const pen = canvas.getContext('2d');
    pen.drawImage(image, 0, 0, ${qrSide}, ${qrSide});
    return [...pen.getImageData(0, 0, ${qrSide}, ${qrSide}).data].filter((_, at) => at % 4 === 1);
  })()`);
  const pixels = Uint8ClampedArray.from(grays.flatMap((gray) => [gray, gray, gray, 255]));
  return decodeQr.default(pixels, qrSide, qrSide, { inversionAttempts: 'dontInvert' })?.data;
}

test('a second factor is turned on with the code of an authenticator app, another login is ended, and a wrong password ends nothing', {
  tags: ['slow'],
}, async (context) => {
  inBrowser(context);
  const person = await stage.person();
  const other = await stage.loggedIn(person);
  const { page, context: browser } = await stage.loggedIn(person);
  await page.goto(`${stage.origin}/account`);
  await page.getByRole('main').getByRole('button', { name: 'Log out', exact: true }).click();
  await page.getByText('That login has ended.').waitFor();
  await nav(other.page, 'Links').click();
  await other.page.getByText('Your session has ended').waitFor();
  await other.context.close();
  await page.getByRole('button', { name: 'Turn on' }).click();
  await page.getByLabel('Password').fill('wrong');
  await page.getByRole('button', { name: 'Continue' }).click();
  await page.getByText('The password is wrong.').waitFor();
  await page.getByLabel('Password').fill(password);
  await page.getByRole('button', { name: 'Continue' }).click();
  const secret = (await page.getByText(/^[A-Z2-7]{32}$/).textContent()) ?? '';
  await page.getByLabel('Authentication code').fill('000000');
  await page.keyboard.press('Enter');
  await page.getByText('This code has expired or was already used').waitFor();
  await page.getByLabel('Authentication code').fill(new TOTP({ secret: Secret.fromBase32(secret) }).generate());
  await page.keyboard.press('Enter');
  await page.getByText('Two-factor login is on.').waitFor();
  expect(await page.locator('.codes li').count()).toBeGreaterThan(5);
  await page.getByRole('button', { name: 'Turn off' }).waitFor();
  await browser.close();
});

test('a server key is created with selected scopes, shown once, used and deleted, and a member sees no keys', {
  tags: ['slow'],
}, async (context) => {
  inBrowser(context);
  const person = await stage.person();
  const { page, context: browser } = await stage.loggedIn(person);
  await nav(page, 'Members').click();
  await page.getByRole('link', { name: 'Server keys' }).click();
  await page.getByRole('button', { name: 'New key' }).click();
  await page.keyboard.type('Nightly export');
  await page.getByRole('checkbox', { name: 'Read statistics and export records' }).check();
  await page.getByRole('button', { name: 'Create key' }).click();
  const key = (await page.getByText(/^sk_\w{40}$/).textContent()) ?? '';
  expect((await stage.api.call(key, 'GET', '/links')).status).toBe(200);
  expect((await stage.api.call(key, 'GET', '/apps')).status).toBe(403);
  await page.getByRole('button', { name: 'Done' }).click();
  await page.getByRole('button', { name: 'Delete Nightly export' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Delete', exact: true }).click();
  await page.getByText('No server keys').waitFor();
  expect((await stage.api.call(key, 'GET', '/links')).status).toBe(401);
  await browser.close();
  const member = await stage.loggedIn(await stage.person('member', owner.organization_id));
  await member.page.goto(`${stage.origin}/members/keys`);
  await member.page.getByText('Only owners').waitFor();
  expect(await member.page.getByRole('button', { name: 'New key' }).count()).toBe(0);
  await member.context.close();
});

test('a webhook is created for selected event types, shows its secret once, and its messages are sent again', {
  tags: ['slow'],
}, async (context) => {
  inBrowser(context);
  const person = await stage.person();
  const { page, context: browser, faults } = await stage.loggedIn(person);
  await nav(page, 'Integrations').click();
  await page.getByText('No webhooks yet').waitFor();
  await page.getByRole('button', { name: 'New webhook' }).click();
  await page.keyboard.type('hooks.example.com/signpost');
  await page.getByRole('checkbox', { name: 'A link is created' }).check();
  await page.getByRole('checkbox', { name: 'Selected events are recorded' }).check();
  await page.getByLabel('Event names').fill('purchase, sign_up');
  await page.getByRole('button', { name: 'Create webhook' }).click();
  await page.getByText(/^whsec_/).waitFor();
  await page.getByRole('button', { name: 'Done' }).click();
  await page.getByRole('link', { name: 'hooks.example.com/signpost' }).click();
  await page.getByText('Nothing was sent').waitFor();
  const [webhook] = (await person.call('GET', '/webhooks')).body.data;
  expect(webhook).toMatchObject({
    url: 'https://hooks.example.com/signpost',
    events: ['link.created', 'event.recorded'],
    event_names: ['purchase', 'sign_up'],
  });
  await page.getByRole('button', { name: 'Send test' }).click();
  await page.getByRole('tab', { name: 'Messages' }).click();
  await page.getByRole('cell', { name: 'waiting' }).waitFor();
  const [message] = (await person.call('GET', `/webhooks/${webhook.id}/messages`)).body.data;
  await failMessages(webhook.id);
  await page.getByRole('tab', { name: 'Attempts' }).click();
  await page.getByText('503 · not accepted').click();
  await page.getByText('try <later>').waitFor();
  await page.getByRole('button', { name: `Send ${message.id} again` }).click();
  const statusOf = async () => (await person.call('GET', `/webhooks/${webhook.id}/messages`)).body.data[0].status;
  await expect.poll(statusOf).toBe('pending');
  await failMessages(webhook.id);
  await page.getByRole('button', { name: 'Send a time range again' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Send again' }).click();
  await page.getByText('1 message will be sent again.').waitFor();
  expect(await statusOf()).toBe('pending');
  expect(faults).toEqual([]);
  await browser.close();
});

test('a postback is created from a template with macros, shown with sample values, tested, and sent again', {
  tags: ['slow'],
}, async (context) => {
  inBrowser(context);
  const person = await stage.person();
  const { page, context: browser, faults } = await stage.loggedIn(person);
  await nav(page, 'Integrations').click();
  await page.getByRole('link', { name: 'Postbacks' }).click();
  await page.getByText('No postbacks yet').waitFor();
  await page.getByRole('button', { name: 'New postback' }).click();
  const template = page.getByLabel('URL template');
  await page.keyboard.type('network.example/p?click={query.gclid}&v=');
  await page.getByRole('button', { name: '{revenue}' }).click();
  await page.getByText('GET network.example/p?click=value&v=12.5').waitFor();
  await page.keyboard.type('&x={nothing}');
  await page.getByText('Not a macro: {nothing}').waitFor();
  await page.getByRole('checkbox', { name: 'Selected events' }).check();
  await page.getByLabel('Event names').fill('purchase');
  await page.getByLabel('Only these campaigns').fill('spring, early');
  await page.keyboard.press('Enter');
  await page.getByRole('button', { name: 'Create postback' }).click();
  await expect.poll(() => template.getAttribute('aria-invalid')).toBe('true');
  await template.fill('https://network.example/p?click={query.gclid}&v={revenue}');
  await page.getByRole('button', { name: 'Create postback' }).click();
  await page.getByRole('link', { name: /network\.example/ }).click();
  const [postback] = (await person.call('GET', '/postbacks')).body.data;
  expect(postback).toMatchObject({
    url: 'https://network.example/p?click={query.gclid}&v={revenue}',
    events: ['event.recorded'],
    event_names: ['purchase'],
    campaigns: ['spring, early'],
  });
  await page.getByRole('button', { name: 'Send test' }).click();
  await page.getByText('A test will be sent within seconds').waitFor();
  const statusOf = async () =>
    (
      await stage.api.db.query<{ id: string; status: string }>(
        'SELECT id, status FROM webhook_messages WHERE endpoint_id = $1',
        [postback.id],
      )
    )[0];
  await failMessages(postback.id);
  await page.getByText('503 · not accepted').click();
  await page.getByText('try <later>').waitFor();
  await page.getByRole('button', { name: `Send ${(await statusOf())?.id} again` }).click();
  await expect.poll(async () => (await statusOf())?.status).toBe('pending');
  const waits = page.waitForEvent('download');
  await page.getByRole('button', { name: 'Save Attempts as CSV' }).click();
  const lines = readFileSync(await (await waits).path(), 'utf8').split('\r\n');
  expect(lines[0]).toBe('\ufeffattempted_at,type,message_id,url,outcome,http_status,duration_ms,answer');
  expect(lines[1]).toMatch(/,http_error,503,12,try <later>$/);
  await page.getByRole('button', { name: 'Disable' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Disable' }).click();
  await page.getByText('Someone disabled this postback.').waitFor();
  const viewer = await stage.loggedIn(await stage.person('viewer', person.organization_id));
  await viewer.page.goto(`${stage.origin}/integrations/postbacks/${postback.id}`);
  await viewer.page.getByText('503 · not accepted').waitFor();
  for (const name of ['Send test', 'Edit', 'Enable', 'Delete', 'Send a time range again', /^Send msg_/])
    expect(await viewer.page.getByRole('button', { name }).count()).toBe(0);
  await viewer.context.close();
  await page.getByRole('button', { name: 'Delete' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
  await page.getByText('No postbacks yet').waitFor();
  expect(faults).toEqual([]);
  await browser.close();
});

test('copies of Apple’s postbacks are counted and listed beside postbacks, if an app is in the App Store', {
  tags: ['slow'],
}, async (context) => {
  inBrowser(context);
  const person = await stage.person();
  const ios = { bundle_id: 'com.example.app', team_id: null, app_store_id: '525463029', uri_scheme: null };
  const app = (await person.call('POST', '/apps', { name: 'Advertised', ios })).body;
  const { page, context: browser, faults } = await stage.loggedIn(person);
  await page.goto(`${stage.origin}/integrations/postbacks`);
  await page.getByText('No copies yet').waitFor();
  await stage.api.db.execute(
    `INSERT INTO ad_postbacks (organization_id, app_id, framework, transaction_id, sequence_index, unverified_reason,
       ad_network_id, source_identifier, did_win, coarse_conversion_value)
     SELECT $1, $2, 'adattributionkit', id, 0, reason, 'com.example.ads', source, true, 'high'
       FROM (VALUES ('a', NULL, '5239'), ('b', NULL, '5239'), ('c', 'bad_signature', '<b>')) AS v (id, reason, source)`,
    [person.organization_id, app.id],
  );
  await page.reload();
  const counts = page.getByRole('table', { name: 'Verified copies, by source' });
  await counts.getByText('5239').waitFor();
  expect(await counts.getByRole('row').allInnerTexts()).toEqual([
    expect.stringContaining('Ad network'),
    expect.stringMatching(/com\.example\.ads\s+5239\s+high\s+1\s+2/),
  ]);
  await page.getByText('Not signed by Apple').waitFor();
  expect(await page.getByText('<b>').count()).toBe(1);
  expect(faults).toEqual([]);
  await browser.close();
  const other = await stage.person();
  await other.call('POST', '/apps', { name: 'Only on the web' });
  const without = await stage.loggedIn(other);
  await without.page.goto(`${stage.origin}/integrations/postbacks`);
  await without.page.getByText('No postbacks yet').waitFor();
  expect(await without.page.getByText('Copies of Apple').count()).toBe(0);
  await without.context.close();
});

/** As the webhooks process would record it. */
async function failMessages(webhookId: string): Promise<void> {
  await stage.api.db.execute(
    `WITH failed AS (UPDATE webhook_messages SET status = 'failed', tries = 10 WHERE endpoint_id = $1 RETURNING *)
     INSERT INTO webhook_attempts (endpoint_id, organization_id, message_id, type, url, attempted_at, duration_ms, outcome, http_status, answer)
     SELECT endpoint_id, organization_id, id, type, 'https://hooks.example.com/signpost', now(), 12, 'http_error', 503, 'try <later>' FROM failed`,
    [webhookId],
  );
}

test('a disabled webhook says why, its secret is rotated, and it is edited, enabled and deleted', {
  tags: ['slow'],
}, async (context) => {
  inBrowser(context);
  const person = await stage.person();
  const created = await person.call('POST', '/webhooks', {
    url: 'https://hooks.example.com/a',
    events: ['click.batch'],
  });
  const { id, secret } = created.body;
  await stage.api.db.execute(
    `UPDATE webhook_endpoints SET disabled_at = now() - interval '2 hours', disabled_reason = 'gone' WHERE id = $1`,
    [id],
  );
  const { page, context: browser, faults } = await stage.loggedIn(person);
  await nav(page, 'Integrations').click();
  await page.getByRole('cell', { name: 'disabled' }).waitFor();
  await page.getByRole('link', { name: 'hooks.example.com/a' }).click();
  await page.getByText('Disabled because the URL answered 410 (gone). Disabled 2 hours ago.').waitFor();
  expect(await page.getByRole('button', { name: 'Send test' }).count()).toBe(0);
  await page.getByRole('button', { name: 'Enable' }).click();
  await page.getByText('enabled', { exact: true }).waitFor();
  await page.getByRole('button', { name: 'Edit' }).click();
  await page.getByLabel('URL').fill('http://hooks.example.com/a');
  await page.getByRole('button', { name: 'Save' }).click();
  await expect.poll(() => page.getByLabel('URL').getAttribute('aria-invalid')).toBe('true');
  await page.getByLabel('URL').fill('https://hooks.example.com/b');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByRole('heading', { name: 'hooks.example.com/b' }).waitFor();
  await page.getByRole('button', { name: 'Rotate secret' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Rotate secret' }).click();
  const shown = await page.getByText(/^whsec_/).textContent();
  expect(shown).not.toBe(secret);
  await page.getByRole('button', { name: 'Done' }).click();
  await page.getByText(/^valid until/).waitFor();
  await page.getByRole('button', { name: 'Disable' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Disable' }).click();
  await page.getByText('Someone disabled this webhook.').waitFor();
  await page.getByRole('button', { name: 'Delete' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
  await page.getByText('No webhooks yet').waitFor();
  expect((await person.call('GET', `/webhooks/${id}`)).status).toBe(404);
  expect(faults).toEqual([]);
  await browser.close();
});

test('a file with custom columns is checked row by row, imported and undone', {
  tags: ['slow'],
}, async (context) => {
  inBrowser(context);
  const person = await stage.person();
  const app = (await person.call('POST', '/apps', { name: 'Import' })).body;
  await person.call('POST', '/links', { app_id: app.id, path: '/x', short_code: 'taken' });
  const { page, context: browser, faults } = await stage.loggedIn(person);
  await nav(page, 'Integrations').click();
  await page.getByRole('link', { name: 'Imports' }).click();
  await page.getByText('No imports yet').waitFor();
  await page.getByRole('button', { name: 'New import' }).click();
  const text =
    'Kürzel;Wohin\nspring;https://www.example.com/a\nsummer;https://www.example.com/b\ntaken;https://www.example.com/c\nbad;nowhere\n';
  await page
    .getByLabel('File', { exact: true })
    .setInputFiles({ name: 'l.csv', mimeType: 'text/csv', buffer: Buffer.from(text) });
  await page.getByLabel('From').selectOption({ label: 'Bitly' });
  expect(await page.getByLabel('Hosts to take over').inputValue()).toBe('bit.ly');
  await page.getByLabel('From').selectOption({ label: 'Branch' });
  const key = page.getByLabel('Branch key (optional)');
  await key.fill('nonsense');
  await page.getByRole('button', { name: 'Check file' }).click();
  await expect.poll(() => key.getAttribute('aria-invalid')).toBe('true');
  await page.getByLabel('From').selectOption({ label: 'Plain CSV' });
  expect(await key.count()).toBe(0);
  expect(await page.getByLabel('Hosts to take over').inputValue()).toBe('');
  await page.getByText('Columns of the file').click();
  await page.getByLabel('Code', { exact: true }).selectOption('Kürzel');
  await page.getByLabel('Destination', { exact: true }).selectOption('Wohin');
  await page.getByRole('button', { name: 'Check file' }).click();
  await page.getByRole('heading', { name: 'Plain CSV' }).waitFor();
  const state = (text: string) =>
    expect
      .poll(async () => {
        await stage.api.imports.work();
        return await page.getByText(text, { exact: true }).count();
      })
      .toBeGreaterThan(0);
  await state('ready to import');
  const shown = (name: string) => page.getByLabel(name, { exact: true }).textContent();
  expect([await shown('New'), await shown('Conflict'), await shown('Not supported')]).toEqual(['2', '1', '1']);
  await page.getByLabel('Outcome').selectOption({ label: 'Not supported' });
  await page.getByRole('cell', { name: /Not supported (url|destination): / }).waitFor();
  await expect.poll(() => page.getByRole('row').count()).toBe(2);
  await page.getByRole('button', { name: 'Import 2 links' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Import 2 links' }).click();
  await state('imported');
  await page.getByText('Links created: 2').waitFor();
  const codes = async () =>
    (await person.call('GET', '/links')).body.data.map((link: { short_code: string }) => link.short_code);
  expect((await codes()).sort()).toEqual(['spring', 'summer', 'taken']);
  await page.getByRole('button', { name: 'Undo import' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Undo import' }).click();
  await state('undone');
  expect(await codes()).toEqual(['taken']);
  await page.getByRole('button', { name: 'Delete' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
  await page.getByText('No imports yet').waitFor();
  expect(faults).toEqual([]);
  await browser.close();
});

test('a link’s page shows owners its changes, and lists of links, apps, members and matches are exported as files', {
  tags: ['slow'],
}, async (context) => {
  inBrowser(context);
  const { page, context: browser, faults } = await stage.loggedIn(owner);
  const id = shop.linkIds[6] ?? '';
  await owner.call('PATCH', `/links/${id}`, { title: 'Loyalty programme', campaign: 'newsletter' });
  await owner.call('PATCH', '/links/bulk', { ids: [id, shop.linkIds[7]], changes: { add_tags: ['seen'] } });
  await page.goto(`${stage.origin}/links/${id}`);
  const history = page.getByRole('region', { name: 'History' });
  await expect.poll(() => history.getByRole('row').count()).toBe(4);
  expect(await history.getByRole('row').nth(1).textContent()).toMatch(/changed in bulkidsadd_tags$/);
  expect(await history.getByRole('row').nth(2).textContent()).toMatch(/changedTitleCampaign$/);
  expect(await history.getByRole('row').nth(3).textContent()).toMatch(/created/);
  await page.getByRole('button', { name: 'Archive' }).click();
  await page.getByText('including anyone who scans a printed code').waitFor();
  expect((await owner.call('GET', `/links/${id}`)).body.archived).toBe(false);
  await page.getByRole('dialog').getByRole('button', { name: 'Archive' }).click();
  await page.getByRole('button', { name: 'Restore' }).click();
  await page.getByRole('button', { name: 'Archive' }).waitFor();
  const saved = async (path: string, name: string) => {
    await page.goto(`${stage.origin}${path}`);
    const waits = page.waitForEvent('download');
    await page.getByRole('button', { name: `Save ${name} as CSV` }).click();
    return readFileSync(await (await waits).path(), 'utf8')
      .trimEnd()
      .split('\r\n');
  };
  const links = await saved('/links?search=loyalty', 'Links');
  expect(links.map((line) => line.split(',')[1])).toEqual(['title', 'Loyalty programme']);
  expect((await saved('/apps', 'Apps')).map((line) => line.split(',')[0]).sort()).toContain('Travel guide');
  expect((await saved('/members', 'Members')).some((line) => line.includes(owner.email))).toBe(true);
  expect((await saved('/debugger?outcome=low_confidence', 'Matches'))[1]).toMatch(/,low_confidence,/);
  const costs = await saved('/integrations/costs', 'Costs');
  expect(costs[0]).toBe('\ufeffday,campaign,amount,currency,organization_id');
  expect(costs.some((line) => line.includes(',influencers,412.5'))).toBe(true);
  const report = await saved(`/integrations/imports/${shop.importId}`, 'Row by row');
  expect(report.map((line) => line.split(',')[2])).toEqual(
    expect.arrayContaining(['outcome', 'new', 'unsupported', 'conflict']),
  );
  expect(report).toHaveLength(10);
  expect(faults).toEqual([]);
  await browser.close();
  const member = await stage.loggedIn(await stage.person('member', owner.organization_id));
  await member.page.goto(`${stage.origin}/links/${id}`);
  await member.page.getByText('Android phone').waitFor();
  expect(await member.page.getByRole('region', { name: 'History' }).count()).toBe(0);
  await member.context.close();
});

test('codes that no link has are listed with their visits, and the missing link is made from one', {
  tags: ['slow'],
}, async (context) => {
  inBrowser(context);
  const person = await stage.person();
  const app = (await person.call('POST', '/apps', { name: 'Misprinted' })).body;
  await stage.api.db.execute(
    `INSERT INTO orphan_visits (organization_id, app_id, day, short_code, visits, last_at)
     SELECT $1, $2, CURRENT_DATE, code, visits, now() FROM (VALUES ('sumer', 120), ('=cmd', 3), ('?foreign_host evil.example', 2), ('', 40)) AS v (code, visits)`,
    [person.organization_id, app.id],
  );
  const { page, context: browser, faults } = await stage.loggedIn(person);
  await nav(page, 'Links').click();
  await page.getByRole('link', { name: 'Unknown codes' }).click();
  await page.getByText('Visits to other codes that are not listed: 40').waitFor();
  const waits = page.waitForEvent('download');
  await page.getByRole('button', { name: 'Save Unknown codes as CSV' }).click();
  const lines = readFileSync(await (await waits).path(), 'utf8').split('\r\n');
  expect(lines[1]).toMatch(/,sumer,120,/);
  expect(lines[2]).toMatch(/,'=cmd,3,/);
  expect(lines[3]).toMatch(/,,2,.*,foreign_host,evil\.example$/);
  await page.getByText('Firebase link to evil.example, which the app does not allow').waitFor();
  expect(await page.getByRole('button', { name: /^Create link: / }).count()).toBe(2);
  await page.getByRole('button', { name: `Create link: ${app.host}/sumer` }).click();
  const drawer = page.getByRole('dialog');
  expect(await drawer.getByLabel('Short code').inputValue()).toBe('sumer');
  await drawer.getByLabel('Destination').fill('https://www.example.com/summer');
  await drawer.getByRole('button', { name: 'Create link' }).click();
  await drawer.getByRole('img', { name: 'QR code' }).waitFor();
  const [link] = (await person.call('GET', '/links')).body.data;
  expect(link).toMatchObject({ short_code: 'sumer', app_id: app.id });
  expect(faults).toEqual([]);
  await browser.close();
  const viewer = await stage.loggedIn(await stage.person('viewer', person.organization_id));
  await viewer.page.goto(`${stage.origin}/links/unknown`);
  await viewer.page.getByText('/sumer').waitFor();
  expect(await viewer.page.getByRole('button', { name: /^Create/ }).count()).toBe(0);
  await viewer.context.close();
});

test('a view is saved with its filters and opened again, and the cost of a campaign is entered and removed', {
  tags: ['slow'],
}, async (context) => {
  inBrowser(context);
  const { page, context: browser, faults } = await stage.loggedIn(owner);
  await page.goto(`${stage.origin}/?country=DE&period=7d&tz=UTC`);
  await page.getByRole('button', { name: 'Views' }).click();
  await page.getByLabel('Name of this view').fill('Germany this week');
  await page.getByRole('button', { name: 'Save this view' }).click();
  await page.getByRole('button', { name: 'Germany this week', exact: true }).waitFor();
  const saved = (await owner.call('GET', '/views')).body.data;
  expect(saved.find(({ name }: { name: string }) => name === 'Germany this week')).toMatchObject({
    name: 'Germany this week',
    query: { country: 'DE', interval: '7d', timezone: 'UTC' },
  });
  await page.goto(`${stage.origin}/`);
  await page.getByRole('button', { name: 'Views' }).click();
  await page.getByRole('button', { name: 'Germany this week', exact: true }).click();
  const opened = () => Object.fromEntries(new URL(page.url()).searchParams);
  await expect.poll(opened).toEqual({ country: 'DE', period: '7d', tz: 'UTC' });
  await page.getByRole('button', { name: 'Views' }).click();
  await page.getByRole('button', { name: 'Delete Germany this week' }).click();
  await expect.poll(() => page.getByText('Germany this week').count()).toBe(0);

  await page.goto(`${stage.origin}/integrations/costs`);
  await page.getByRole('button', { name: 'New cost' }).click();
  await page.keyboard.type('spring-sale');
  await page.getByLabel('Day').fill('2026-11-20');
  await page.getByLabel('Amount').fill('nothing');
  await page.getByRole('button', { name: 'Save', exact: true }).click();
  await expect.poll(() => page.getByLabel('Amount').getAttribute('aria-invalid')).toBe('true');
  await page.getByLabel('Amount').fill('120.50');
  await page.getByRole('button', { name: 'Save', exact: true }).click();
  await page.getByRole('cell', { name: '€120.50' }).waitFor();
  await page.getByRole('button', { name: 'Remove the cost of spring-sale on 2026-11-20' }).click();
  await expect.poll(() => page.getByRole('cell', { name: '€120.50' }).count()).toBe(0);
  expect(faults).toEqual([]);
  await browser.close();
});

test('figures of a link are shared by a secret address with a password, and a revoked page shows nothing', {
  tags: ['slow'],
}, async (context) => {
  inBrowser(context);
  const { page, context: browser, faults } = await stage.loggedIn(owner);
  await page.goto(`${stage.origin}/links/${shop.linkIds[0]}`);
  await page.getByRole('button', { name: 'Share' }).click();
  const drawer = page.getByRole('dialog', { name: 'Share statistics' });
  await drawer.getByLabel('Name').fill('For Paul');
  await drawer.getByLabel('Password').fill('open sesame');
  await drawer.getByRole('button', { name: 'Create page' }).click();
  const address = new URL((await drawer.getByText(/\/shared#/).textContent()) ?? '');
  await drawer.getByText(/until .* with a password/).waitFor();
  const visitor = await stage.page();
  await visitor.page.goto(`${stage.origin}/shared${address.hash}`);
  await visitor.page.getByRole('heading', { name: 'This page needs a password' }).waitFor();
  await visitor.page.getByLabel('Password').fill('guess');
  await visitor.page.keyboard.press('Enter');
  await visitor.page.getByText('The password is wrong.').waitFor();
  await visitor.page.getByLabel('Password').fill('open sesame');
  await visitor.page.keyboard.press('Enter');
  await visitor.page.getByRole('heading', { name: 'For Paul' }).waitFor();
  const { body } = await owner.call('GET', `/links/${shop.linkIds[0]}/stats?interval=7d&timezone=Europe/Berlin`);
  await visitor.page.getByLabel('Period', { exact: true }).selectOption({ label: 'Last 7 days' });
  const shown = body.totals.clicks.toLocaleString('en-GB');
  await expect.poll(() => visitor.page.getByLabel('Clicks', { exact: true }).textContent()).toBe(shown);
  expect(await visitor.page.getByText('Revenue').count()).toBe(0);
  expect(await visitor.context.cookies()).toEqual([]);
  await drawer.getByRole('button', { name: 'Revoke For Paul' }).click();
  await page.getByText('The page was revoked.').waitFor();
  await visitor.page.reload();
  await visitor.page.getByRole('heading', { name: 'Page not found' }).waitFor();
  expect([...faults, ...visitor.faults]).toEqual([]);
  await browser.close();
  await visitor.context.close();
});

test('the trust page shows the audits and the organization’s own rejected records', {
  tags: ['slow'],
}, async (context) => {
  inBrowser(context);
  await stage.api.clickhouse.command(
    `INSERT INTO dead_letters (kind, reason, time, record) VALUES ('event', 'bad_field', now64(3), '{"v":1,"organization_id":"${owner.organization_id}"}')`,
  );
  const { page, context: browser } = await stage.loggedIn(owner);
  await nav(page, 'Trust').click();
  await expect.poll(() => page.getByLabel('Lost', { exact: true }).textContent()).toBe('0');
  await expect.poll(() => page.getByLabel('Rejected', { exact: true }).textContent()).toBe('1');
  await page.getByText('bad_field').waitFor();
  await page.getByRole('row', { name: /^Log before the database OK .*% full/ }).waitFor();
  await page.getByRole('row', { name: /^Storing in the database unknown/ }).waitFor();
  expect(await page.locator('.days li.bad').count()).toBe(1);
  await browser.close();
});

test('the overview sends three API requests and one more for each further list, and exports a list as a file', async (context) => {
  inBrowser(context);
  const { page, context: browser, faults } = await stage.loggedIn(owner);
  const asked: string[] = [];
  page.on('request', (request) => {
    const { pathname } = new URL(request.url());
    if (pathname.startsWith('/v1/')) asked.push(pathname);
  });
  await page.reload();
  await page.getByRole('button', { name: /^Germany/ }).waitFor();
  await page.getByRole('button', { name: /^Spring sale/ }).waitFor();
  expect(asked.sort()).toEqual(['/v1/analytics/page', '/v1/apps', '/v1/me']);
  await page.getByRole('tab', { name: 'Browsers' }).click();
  await page.getByRole('button', { name: /^Instagram/ }).click();
  await expect.poll(() => new URL(page.url()).searchParams.get('browser')).toBe('Instagram');
  const { body } = await owner.call('GET', '/analytics/overview?browser=Instagram&timezone=Europe/Berlin');
  const shown = body.totals.clicks.toLocaleString('en-GB');
  await expect.poll(() => page.getByLabel('Clicks', { exact: true }).textContent()).toBe(shown);
  await page.keyboard.press('Escape');
  const waits = page.waitForEvent('download');
  await page.getByRole('button', { name: 'Save Countries as CSV' }).click();
  const lines = readFileSync(await (await waits).path(), 'utf8').split('\r\n');
  expect(lines[0]).toBe('\ufeffcountry,clicks,unique_clicks,installs,events,conversion_rate,revenue EUR');
  expect(lines.some((line) => /^DE,\d+,/.test(line))).toBe(true);
  expect(faults).toEqual([]);
  await browser.close();
});

test('records are shown as they arrive, and a row opens its related records', { tags: ['slow'] }, async (context) => {
  inBrowser(context);
  const { page, context: browser, faults } = await stage.loggedIn(owner);
  await page.goto(`${stage.origin}/debugger`);
  await page.getByText('Waiting for records').waitFor();
  const tail = page.getByRole('region', { name: 'Records as they arrive' });
  await page.getByText('live', { exact: true }).waitFor();
  const place = { organization_id: owner.organization_id, app_id: shop.appId, link_id: shop.linkIds[0] ?? '' };
  const click_id = newId('clk', Date.now());
  const { organization_id, app_id } = place;
  const matched = {
    outcome: 'matched',
    match_type: 'click_id',
    confidence: 1,
    click_id,
    link_id: place.link_id,
  } as const;
  await stage.log.write('click', clickOf(place, { click_id }), clickOf(place));
  await stage.log.write('match', matchJson(plainMatch(place, { ...matched, device_id: 'my-phone', time: Date.now() })));
  await stage.log.write('event', eventOf({ organization_id, app_id }, 'my-phone'));
  await tail.getByRole('button', { name: /^opened/ }).click();
  const story = page.getByRole('dialog', { name: 'This record and related records' });
  await story.waitFor();
  expect(await story.locator('.tag').allTextContents()).toEqual(['Click', 'Match', 'Event']);
  await page.keyboard.press('Escape');
  expect(await tail.getByRole('row').count()).toBe(5);
  await page.getByRole('button', { name: 'Click', exact: true }).click();
  await expect.poll(() => tail.getByRole('row').count()).toBe(3);
  await page.getByLabel('Short code, link ID or device').fill('my-phone');
  await page.keyboard.press('Enter');
  await page.getByText('Waiting for records').waitFor();
  await page.getByText('live', { exact: true }).waitFor();
  await stage.log.write(
    'event',
    eventOf({ organization_id, app_id }, 'other'),
    eventOf({ organization_id, app_id }, 'my-phone'),
  );
  await tail.getByRole('button', { name: /my-phone/ }).waitFor();
  expect(await tail.getByRole('row').count()).toBe(2);
  const { short_code, id } = (await owner.call('GET', `/links/${shop.linkIds[0]}`)).body;
  await page.getByLabel('Short code, link ID or device').fill(short_code);
  await page.keyboard.press('Enter');
  await expect.poll(() => page.url()).toContain(`device=${id}`);
  expect(faults).toEqual([]);
  await browser.close();
});

test('a link’s page says where five kinds of devices are sent, and the funnel starts with the clicks of the overview', {
  tags: ['slow'],
}, async (context) => {
  inBrowser(context);
  const { page, context: browser, faults } = await stage.loggedIn(owner);
  await page.goto(`${stage.origin}/links/${shop.linkIds[0]}`);
  const seen = page.getByRole('region', { name: 'Who sees what' });
  await expect.poll(() => seen.getByRole('row').count()).toBe(5);
  await seen
    .getByRole('row', { name: /iPhone/ })
    .getByText(/apps\.apple\.com/)
    .first()
    .waitFor();
  await seen
    .getByRole('row', { name: /^Desktop/ })
    .getByText('https://www.example.com/sale')
    .first()
    .waitFor();
  await nav(page, 'Retention').click();
  await page.getByRole('link', { name: 'Funnel' }).click();
  const { body } = await owner.call('GET', '/analytics/overview?timezone=Europe/Berlin');
  const first = page.locator('.funnel li').first();
  await expect.poll(() => first.textContent()).toContain(body.totals.clicks.toLocaleString('en-GB'));
  await page.getByLabel('Then these events').fill('purchase, refund');
  await page.keyboard.press('Enter');
  await expect.poll(() => new URL(page.url()).searchParams.get('steps')).toBe('purchase,refund');
  await expect.poll(() => page.locator('.funnel li').count()).toBe(4);
  await page.getByRole('link', { name: 'Revenue per install' }).click();
  await page.getByRole('heading', { name: 'Revenue per install' }).waitFor();
  expect(faults).toEqual([]);
  await browser.close();
});

test('a click on a country filters everything and is stored in the URL, and Escape removes it', {
  tags: ['slow'],
}, async (context) => {
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

test('every screen passes the axe rules in light and dark mode, and logs no error', {
  tags: ['slow'],
  timeout: 300_000,
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
  for (const screen of screensOf(shop).filter(({ isFresh, isAnonymous }) => isFresh || isAnonymous)) {
    const opened = screen.isFresh ? await stage.loggedIn(await stage.person()) : await stage.page();
    if (screen.isAnonymous) await opened.page.goto(stage.origin);
    await screen.open(opened.page, stage.origin);
    found.push(...(await violations(opened.page, axe, allRules)).map((one) => `${screen.name}: ${one}`));
    await opened.context.close();
  }
  expect(found).toEqual([]);
});

const allRules = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'];
/** The only ones that depend on the colors. */
const colorRules = ['color-contrast'];

/** In an isolated world, to which the page's policy does not apply. */
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

test('two tabs share a session; when it ends, both ask for the login, and one login or logout is enough for both', {
  tags: ['slow'],
}, async (context) => {
  inBrowser(context);
  const person = await stage.person('owner', owner.organization_id);
  const { page, context: browser } = await stage.loggedIn(person);
  const other = await browser.newPage();
  await other.goto(`${stage.origin}/links?search=sale`);
  await other.getByText('Spring sale').waitFor();
  await stage.api.db.execute('DELETE FROM browser_sessions WHERE user_id = $1', [person.user_id]);
  // The first tab may notice earlier, and notifies this one.
  await other
    .getByLabel('Sort by')
    .selectOption({ label: 'Most clicks first' }, { timeout: 5_000 })
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
  expect(
    await page
      .locator('figcaption')
      .getByText(/Höchstwert/)
      .textContent(),
  ).toMatch(/\)\.$/);
  const right = async (one: Locator) => {
    const box = await one.boundingBox();
    return (box?.x ?? 0) + (box?.width ?? 0);
  };
  // The German texts fit next to the screen.
  const side = await right(page.getByRole('banner'));
  for (const one of [page.getByLabel('Sprache'), page.getByRole('button', { name: 'Abmelden' })])
    expect(await right(one)).toBeLessThan(side);
  expect(await page.locator('html').getAttribute('lang')).toBe('de');
  await browser.close();
});

test('a viewer sees everything except controls that write', { tags: ['slow'] }, async (context) => {
  inBrowser(context);
  const viewer = await stage.person('viewer', owner.organization_id);
  const { page, context: browser } = await stage.loggedIn(viewer);
  await nav(page, 'Links').click();
  await page.getByText('Spring sale').waitFor();
  expect(await page.getByRole('button', { name: 'New link' }).count()).toBe(0);
  await page.getByRole('link', { name: 'Spring sale' }).click();
  await page.getByRole('tab', { name: 'Browsers' }).waitFor();
  for (const name of ['Edit', 'Archive', 'Share', 'Delete'])
    expect(await page.getByRole('button', { name }).count()).toBe(0);
  await nav(page, 'Apps').click();
  await page.getByRole('link', { name: 'Shop' }).click();
  await page.getByText('Viewers see only the beginning of the key.').waitFor();
  expect(await page.getByRole('button', { name: 'Rotate' }).count()).toBe(0);
  expect(await page.getByRole('textbox', { name: 'Name' }).isDisabled()).toBe(true);
  await nav(page, 'Integrations').click();
  await page.getByRole('link', { name: 'hooks.example.com/…' }).first().click();
  await page.getByText('503 · not accepted').waitFor();
  for (const name of [
    'Send test',
    'Edit',
    'Disable',
    'Rotate secret',
    'Delete',
    'Send a time range again',
    /^Send msg_/,
  ])
    expect(await page.getByRole('button', { name }).count()).toBe(0);
  await browser.close();
});

test('while the API is slow the page says so, and when it fails the page shows the request id and offers a retry', {
  tags: ['slow'],
}, async (context) => {
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
