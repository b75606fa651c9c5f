/**
 * Forms of the dashboard in a real browser, while other people change the same things.
 *
 * @module-tag slow
 */
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, expect, type TestContext, test } from 'vitest';
import { skipWithout } from '#testing/skip.ts';
import { chromiumProgram, type DashboardStage, password, startDashboard } from './testing/dashboard-stage.ts';

let stage: DashboardStage;

beforeAll(async () => {
  if (chromiumProgram !== undefined) stage = await startDashboard();
});
afterAll(() => stage?.stop());

const inBrowser = (context: TestContext) => skipWithout(chromiumProgram !== undefined, 'chromium', context);
const cardOf = (page: Page, title: string) =>
  page.locator('.card', { has: page.getByRole('heading', { name: title, exact: true }) });

test('two people who change different settings of one app keep each other’s changes', async (context) => {
  inBrowser(context);
  const person = await stage.person();
  const colleague = await stage.person('member', person.organization_id);
  const android = { package_name: 'com.example.shop', uri_scheme: 'shop' };
  const app = (await person.call('POST', '/apps', { name: 'Shop', android })).body;
  const tabs = [await stage.loggedIn(person), await stage.loggedIn(colleague)] as const;
  const [first, second] = tabs.map(({ page }) => cardOf(page, 'Settings')) as [Card, Card];
  for (const { page } of tabs) {
    await page.goto(`${stage.origin}/apps/${app.id}`);
    await cardOf(page, 'Settings').waitFor();
  }
  await first.getByLabel('Name', { exact: true }).fill('Shop of the first');
  await first.getByLabel('Android package').fill('com.example.shop.first');
  await first.getByLabel('Minimum confidence').fill('0.7');
  await first.getByRole('button', { name: 'Save' }).click();
  await tabs[0].page.getByText('Saved').waitFor();
  await second.getByLabel('Website').fill('https://www.example.com/second');
  await second.getByLabel('Android URI scheme').fill('second');
  await second.getByLabel('Page for expired links').fill('<p>Gone</p>');
  await second.getByRole('button', { name: 'Save' }).click();
  await tabs[1].page.getByText('Saved').waitFor();
  expect((await person.call('GET', `/apps/${app.id}`)).body).toMatchObject({
    name: 'Shop of the first',
    fallback_url: 'https://www.example.com/second',
    android: { package_name: 'com.example.shop.first', uri_scheme: 'second' },
    pages: { not_found: null, expired: '<p>Gone</p>' },
    settings: { min_confidence: 0.7 },
  });
  for (const { context: browser, faults } of tabs) {
    expect(faults).toEqual([]);
    await browser.close();
  }
});

type Card = ReturnType<typeof cardOf>;

test('a card of an app that is saved leaves what was typed into the others, and untouched fields show what is stored', async (context) => {
  inBrowser(context);
  const person = await stage.person();
  const app = (await person.call('POST', '/apps', { name: 'Shop' })).body;
  const { page, context: browser, faults } = await stage.loggedIn(person);
  await page.goto(`${stage.origin}/apps/${app.id}`);
  const settings = cardOf(page, 'Settings');
  const moving = cardOf(page, 'Moving from another service');
  await settings.getByLabel('Website').fill('https://www.example.com/typed');
  await moving.getByLabel('URL at the old service').fill('https://old.example.com/{code}');
  await moving.getByLabel('Destination hosts').fill('www.example.com');
  await person.call('PATCH', `/apps/${app.id}`, {
    name: 'Shop of another',
    fallback_url: 'https://www.example.com/other',
  });
  await moving.getByRole('button', { name: 'Turn on' }).click();
  await moving.getByRole('button', { name: 'Turn off' }).waitFor();
  await expect.poll(() => settings.getByLabel('Name', { exact: true }).inputValue()).toBe('Shop of another');
  expect(await settings.getByLabel('Website').inputValue()).toBe('https://www.example.com/typed');
  await moving.getByLabel('Connect to').fill('cname.old.example.com');
  await settings.getByRole('button', { name: 'Save' }).click();
  await expect
    .poll(async () => (await person.call('GET', `/apps/${app.id}`)).body)
    .toMatchObject({
      name: 'Shop of another',
      fallback_url: 'https://www.example.com/typed',
      settings: { migration: { url: 'https://old.example.com/{code}', via: null } },
    });
  await expect.poll(() => settings.getByRole('button', { name: 'Save' }).isDisabled()).toBe(true);
  expect(await moving.getByLabel('Connect to').inputValue()).toBe('cname.old.example.com');
  expect(faults).toEqual([]);
  await browser.close();
});

test('a webhook and a postback that are edited keep the changes that others made meanwhile', async (context) => {
  inBrowser(context);
  const person = await stage.person();
  const hook = (
    await person.call('POST', '/webhooks', {
      url: 'https://hooks.example.com/a',
      events: ['link.created', 'event.recorded'],
      event_names: ['purchase, first', 'sign_up'],
    })
  ).body;
  const post = (
    await person.call('POST', '/postbacks', {
      url: 'https://network.example/p?c={click_id}',
      events: ['install.attributed'],
      description: 'Ads',
    })
  ).body;
  const { page, context: browser, faults } = await stage.loggedIn(person);
  await page.goto(`${stage.origin}/integrations/webhooks/${hook.id}`);
  await page.getByRole('button', { name: 'Edit' }).click();
  await person.call('PATCH', `/webhooks/${hook.id}`, { url: 'https://hooks.example.com/b' });
  await page.getByRole('dialog').getByLabel('Description').fill('Warehouse');
  await page.getByRole('dialog').getByRole('button', { name: 'Save' }).click();
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  expect((await person.call('GET', `/webhooks/${hook.id}`)).body).toMatchObject({
    url: 'https://hooks.example.com/b',
    description: 'Warehouse',
    event_names: ['purchase, first', 'sign_up'],
  });

  await page.goto(`${stage.origin}/integrations/postbacks/${post.id}`);
  await page.getByRole('button', { name: 'Edit' }).click();
  await person.call('PATCH', `/postbacks/${post.id}`, { campaigns: ['spring'] });
  await page.getByRole('dialog').getByLabel('Description').fill('Example Ads');
  await page.getByRole('dialog').getByRole('button', { name: 'Save' }).click();
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  expect((await person.call('GET', `/postbacks/${post.id}`)).body).toMatchObject({
    description: 'Example Ads',
    campaigns: ['spring'],
  });
  expect(faults).toEqual([]);
  await browser.close();
});

test('values of a list that contain commas stay whole when the list is edited', async (context) => {
  inBrowser(context);
  const person = await stage.person();
  const conversion_events = ['purchase, first', 'sign_up'];
  const app = (await person.call('POST', '/apps', { name: 'Shop', settings: { conversion_events } })).body;
  const tags = ['a, b', 'say "c"'];
  const link = (await person.call('POST', '/links', { app_id: app.id, path: '/', tags })).body;
  const { page, context: browser, faults } = await stage.loggedIn(person);
  await page.goto(`${stage.origin}/apps/${app.id}`);
  const events = page.getByLabel('Conversion events');
  expect(await events.inputValue()).toBe('"purchase, first", sign_up');
  await events.fill('"purchase, first", sign_up, trial');
  await page.getByRole('button', { name: 'Save' }).first().click();
  await page.getByText('Saved').waitFor();
  expect((await person.call('GET', `/apps/${app.id}`)).body.settings.conversion_events).toEqual([
    'purchase, first',
    'sign_up',
    'trial',
  ]);
  await page.goto(`${stage.origin}/links/${link.id}`);
  await page.getByRole('button', { name: 'Edit' }).click();
  const drawer = page.getByRole('dialog');
  await drawer.getByText('Tags, expiry and limit').click();
  const value = await drawer.getByLabel('Tags').inputValue();
  await drawer.getByLabel('Tags').fill(`${value}, d`);
  await drawer.getByRole('button', { name: 'Save' }).click();
  await drawer.waitFor({ state: 'detached' });
  expect((await person.call('GET', `/links/${link.id}`)).body.tags).toEqual([...tags, 'd']);
  await page.goto(`${stage.origin}/retention/funnel?steps=sign_up,${encodeURIComponent('purchase\\, first')}`);
  const steps = page.getByLabel('Then these events');
  expect(await steps.inputValue()).toBe('sign_up, "purchase, first"');
  await steps.fill('"purchase, first", trial');
  await steps.press('Enter');
  await expect.poll(() => new URL(page.url()).searchParams.get('steps')).toBe('purchase\\, first,trial');
  expect(faults).toEqual([]);
  await browser.close();
});

test('without mail, an owner sees the link of an invitation once, and an account joins with it after a login', async (context) => {
  inBrowser(context);
  const [person, other] = [await stage.person(), await stage.person()];
  const { page, context: browser, faults } = await stage.loggedIn(person);
  await page.getByRole('navigation').getByRole('link', { name: 'Members', exact: true }).click();
  await page.getByRole('button', { name: 'Invite' }).click();
  await page.keyboard.type(other.email);
  await page.getByRole('button', { name: 'Create invitation' }).click();
  const url = await page.getByText(/\/invitation#[\w-]{43}$/).textContent();
  await page.getByRole('button', { name: 'Copy link' }).waitFor();
  await page.getByRole('button', { name: 'Done' }).click();
  expect(await page.getByText(/\/invitation#/).count()).toBe(0);
  const stranger = await stage.page();
  await stranger.page.goto(`${stage.origin}/invitation#${url?.split('#')[1]}`);
  // The page does not reveal whether the address has an account.
  await stranger.page.getByRole('button', { name: 'Create account and join' }).waitFor();
  await stranger.page.getByRole('button', { name: 'I already have an account' }).click();
  await stranger.page.getByLabel('Password').fill(password);
  await stranger.page.getByRole('button', { name: 'Log in and join' }).click();
  await stranger.page.getByRole('heading', { name: 'You are now a member of Example Ltd' }).waitFor();
  expect([...faults, ...stranger.faults]).toEqual([]);
  await stranger.context.close();
  await browser.close();
});

test('a new link can be in any of 101 apps, and in none of which the user is only a viewer', async (context) => {
  inBrowser(context);
  const person = await stage.person();
  const other = await stage.person();
  await stage.api.db.execute(`UPDATE organizations SET name = 'Other Ltd' WHERE id = $1`, [other.organization_id]);
  await stage.api.db.execute(`INSERT INTO memberships (user_id, organization_id, role) VALUES ($1, $2, 'viewer')`, [
    person.user_id,
    other.organization_id,
  ]);
  const { organization_id } = person;
  // An organization has at most 100 apps.
  const second = await stage.person();
  await stage.api.db.execute(`INSERT INTO memberships (user_id, organization_id, role) VALUES ($1, $2, 'member')`, [
    person.user_id,
    second.organization_id,
  ]);
  const oldest = (await person.call('POST', '/apps', { name: 'Oldest', organization_id })).body;
  for (let n = 1; n <= 100; n++) {
    const app = { name: `App ${n}`, organization_id: n === 1 ? second.organization_id : organization_id };
    expect((await person.call('POST', '/apps', app)).status).toBe(201);
  }
  const foreign = (await other.call('POST', '/apps', { name: 'Foreign' })).body;
  const { page, context: browser, faults } = await stage.loggedIn(person);
  await page.goto(`${stage.origin}/links?new=1`);
  const drawer = page.getByRole('dialog');
  const app = drawer.getByLabel('App', { exact: true });
  await expect.poll(() => app.locator('option').count()).toBe(101);
  expect(await app.locator('option', { hasText: 'Foreign' }).count()).toBe(0);
  await app.selectOption({ label: 'Oldest' });
  await drawer.getByLabel('Destination').first().fill('www.example.com/sale');
  await drawer.getByRole('button', { name: 'Create link' }).click();
  await expect.poll(async () => (await person.call('GET', `/links?app_id=${oldest.id}`)).body.data.length).toBe(1);

  // The list is filtered by an app of the other organization.
  await page.goto(`${stage.origin}/links?app_id=${foreign.id}&new=1`);
  await drawer.getByText('You are a viewer of Other Ltd').waitFor();
  expect(await app.inputValue()).not.toBe(foreign.id);
  const theirs = (await other.call('POST', '/links', { app_id: foreign.id, path: '/' })).body;
  await page.goto(`${stage.origin}/links/${theirs.id}`);
  await page.getByRole('heading', { name: 'Details' }).waitFor();
  await expect.poll(() => page.getByRole('button', { name: 'Archive' }).count()).toBe(0);
  expect(faults).toEqual([]);
  await browser.close();
});

test('without an app in which the user may create links, the form of a new link says so', async (context) => {
  inBrowser(context);
  const person = await stage.person();
  const other = await stage.person();
  await stage.api.db.execute(`INSERT INTO memberships (user_id, organization_id, role) VALUES ($1, $2, 'viewer')`, [
    person.user_id,
    other.organization_id,
  ]);
  await other.call('POST', '/apps', { name: 'Foreign' });
  const { page, context: browser, faults } = await stage.loggedIn(person);
  await page.goto(`${stage.origin}/links?new=1`);
  const drawer = page.getByRole('dialog');
  await drawer.getByText('no app in which you may create links').waitFor();
  expect(await drawer.getByRole('button', { name: 'Create link' }).isDisabled()).toBe(true);
  expect(faults).toEqual([]);
  await browser.close();
});

test('a link that cannot be archived or deleted says why', async (context) => {
  inBrowser(context);
  const person = await stage.person();
  const app = (await person.call('POST', '/apps', { name: 'Shop' })).body;
  const link = (await person.call('POST', '/links', { app_id: app.id, path: '/' })).body;
  const { page, context: browser, faults } = await stage.loggedIn(person);
  await page.goto(`${stage.origin}/links/${link.id}`);
  await page.getByRole('button', { name: 'Archive' }).waitFor();
  // The page would otherwise notice at its next refresh that the link is gone.
  await page.route(new RegExp(`/v1/links/${link.id}$`), (route) =>
    route.request().method() === 'GET' ? route.fulfill({ json: link }) : route.continue(),
  );
  await person.call('DELETE', `/links/${link.id}`);
  const { message } = (await person.call('DELETE', `/links/${link.id}`)).body.error;
  for (const name of ['Archive', 'Delete']) {
    await page.getByRole('button', { name }).click();
    await page.getByRole('dialog').getByRole('button', { name }).click();
    await page.getByRole('status').getByText(message).waitFor();
    await page.getByRole('button', { name: 'Cancel' }).click();
    await page.getByRole('status').getByText(message).waitFor({ state: 'detached' });
  }
  expect(faults).toEqual([]);
  await browser.close();
});
