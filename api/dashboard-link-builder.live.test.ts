/** UTM templates and max_clicks in the link builder, in a real browser with the real API. */
import { afterAll, beforeAll, expect, type TestContext, test } from 'vitest';
import { skipWithout } from '#testing/skip.ts';
import { chromiumProgram, type DashboardStage, startDashboard } from './testing/dashboard-stage.ts';

let stage: DashboardStage;

beforeAll(async () => {
  if (chromiumProgram === undefined) return;
  stage = await startDashboard();
});
afterAll(() => stage?.stop());

const inBrowser = (context: TestContext) => skipWithout(chromiumProgram !== undefined, 'chromium', context);

test('a template is created, rejected under a taken name, changed and deleted; a viewer can only read', {
  tags: ['slow'],
}, async (context) => {
  inBrowser(context);
  const owner = await stage.person();
  const viewer = await stage.person('viewer', owner.organization_id);
  const app = (await owner.call('POST', '/apps', { name: 'Shop' })).body;
  const { page, context: browser, faults } = await stage.loggedIn(owner);
  await page.goto(`${stage.origin}/links`);
  await page.getByRole('link', { name: 'UTM templates' }).click();
  await page.getByText('No templates').waitFor();
  const drawer = page.getByRole('dialog');
  const create = async (name: string, scope: string, source: string) => {
    await page.getByRole('button', { name: 'New template' }).click();
    await drawer.getByLabel('Name', { exact: true }).fill(name);
    await drawer.getByLabel('For', { exact: true }).selectOption({ label: scope });
    expect(await drawer.getByRole('button', { name: 'Create template' }).isDisabled()).toBe(true);
    await drawer.getByLabel('utm_source').fill(source);
    await drawer.getByRole('button', { name: 'Create template' }).click();
  };
  await create('Newsletter', 'Every app', 'newsletter');
  await page.getByRole('row', { name: /Newsletter source=newsletter Every app/ }).waitFor();
  await create('Newsletter', 'Every app', 'again');
  const name = drawer.getByLabel('Name', { exact: true });
  await expect.poll(() => name.getAttribute('aria-invalid')).toBe('true');
  await drawer.getByText('is already used by another template').waitFor();
  await name.fill('Posters');
  await drawer.getByLabel('For', { exact: true }).selectOption({ label: 'Shop' });
  await drawer.getByRole('button', { name: 'Create template' }).click();
  await page.getByRole('row', { name: /Posters source=again Shop/ }).waitFor();
  await page.getByRole('button', { name: 'Edit template: Newsletter' }).click();
  await drawer.getByLabel('utm_medium').fill('email');
  await drawer.getByRole('button', { name: 'Save' }).click();
  await page.getByText('medium=email').waitFor();
  await page.getByRole('button', { name: 'Delete template: Posters' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Delete', exact: true }).click();
  await page.getByText('source=again').waitFor({ state: 'detached' });
  const { data } = (await owner.call('GET', `/utm-templates?app_id=${app.id}`)).body;
  expect(data).toMatchObject([{ name: 'Newsletter', app_id: null, utm_source: 'newsletter', utm_medium: 'email' }]);

  const { page: read, context: reading } = await stage.loggedIn(viewer);
  await read.goto(`${stage.origin}/links/utm-templates`);
  await read.getByText('medium=email').waitFor();
  expect(await read.getByRole('button', { name: /template/i }).count()).toBe(0);
  expect(faults).toEqual([]);
  await browser.close();
  await reading.close();
});

test('a selected template fills the fields of the builder, which can be edited, and is replaced by the next selection', {
  tags: ['slow'],
}, async (context) => {
  inBrowser(context);
  const owner = await stage.person();
  const shop = (await owner.call('POST', '/apps', { name: 'Shop' })).body;
  const travel = (await owner.call('POST', '/apps', { name: 'Travel' })).body;
  const mail = { name: 'Newsletter', utm_source: 'newsletter', utm_medium: 'email' };
  await owner.call('POST', '/utm-templates', mail);
  await owner.call('POST', '/utm-templates', {
    name: 'Ads',
    app_id: shop.id,
    utm_source: 'google',
    utm_campaign: 'may',
  });
  const { page, context: browser, faults } = await stage.loggedIn(owner);
  await page.goto(`${stage.origin}/links?new=1`);
  const drawer = page.getByRole('dialog');
  await drawer.getByLabel('App', { exact: true }).selectOption({ label: 'Shop' });
  await drawer.getByLabel('Destination', { exact: true }).fill('https://www.example.com/all');
  await drawer.getByText('UTM parameters').click();
  const template = drawer.getByLabel('Template');
  await expect
    .poll(() => template.getByRole('option').allInnerTexts())
    .toEqual(['None', 'Ads (google · may)', 'Newsletter (newsletter · email)']);
  const shown = () =>
    Promise.all(
      ['utm_source', 'utm_medium', 'utm_campaign', 'utm_term'].map((name) => drawer.getByLabel(name).inputValue()),
    );
  await drawer.getByLabel('utm_term').fill('shoes');
  await template.selectOption({ label: 'Newsletter (newsletter · email)' });
  expect(await shown()).toEqual(['newsletter', 'email', '', 'shoes']);
  await template.selectOption({ label: 'Ads (google · may)' });
  expect(await shown()).toEqual(['google', '', 'may', 'shoes']);
  await drawer.getByLabel('utm_campaign').fill('june');
  expect(await template.inputValue()).toBe('');
  // Another app's templates cannot be selected; filled values stay.
  await drawer.getByLabel('App', { exact: true }).selectOption({ label: 'Travel' });
  await expect.poll(() => template.getByRole('option').count()).toBe(2);
  expect(await shown()).toEqual(['google', '', 'june', 'shoes']);
  await drawer.getByRole('button', { name: 'Create link' }).click();
  await drawer.getByRole('link', { name: 'Open link page' }).waitFor();
  const [link] = (await owner.call('GET', `/links?app_id=${travel.id}`)).body.data;
  expect(link).toMatchObject({ utm_source: 'google', utm_medium: null, utm_campaign: 'june', utm_term: 'shoes' });
  expect(faults).toEqual([]);
  await browser.close();
});

test('a link is created with max_clicks, its page shows how many are used, and the limit can be removed', {
  tags: ['slow'],
}, async (context) => {
  inBrowser(context);
  const owner = await stage.person();
  const app = (await owner.call('POST', '/apps', { name: 'Shop' })).body;
  const { page, context: browser, faults } = await stage.loggedIn(owner);
  await page.goto(`${stage.origin}/links?new=1`);
  const drawer = page.getByRole('dialog');
  await drawer.getByLabel('Destination', { exact: true }).fill('https://www.example.com/coupon');
  await drawer.getByText('Tags, expiry and limit').click();
  const limit = drawer.getByLabel('Maximum clicks');
  await limit.fill('ten');
  await drawer.getByRole('button', { name: 'Create link' }).click();
  await expect.poll(() => limit.getAttribute('aria-invalid')).toBe('true');
  await limit.fill('1000');
  await drawer.getByRole('button', { name: 'Create link' }).click();
  await drawer.getByRole('link', { name: 'Open link page' }).click();
  await page.getByText('0 of 1,000 used, 1,000 left.').waitFor();
  const [link] = (await owner.call('GET', `/links?app_id=${app.id}`)).body.data;
  expect(link.max_clicks).toBe(1000);
  const report = (used: number) =>
    stage.api.db.execute(
      `INSERT INTO click_shares (organization_id, app_id, link_id, holder, granted, returned, used) VALUES ($1, $2, $3, 'r1', 1000, 0, $4)
       ON CONFLICT (link_id, holder) DO UPDATE SET used = EXCLUDED.used`,
      [owner.organization_id, app.id, link.id, used],
    );
  await report(990);
  await page.reload();
  await page.getByText('990 of 1,000 used, 10 left.').waitFor();
  await report(1000);
  await page.reload();
  await page.getByText('All 1,000 used.').waitFor();
  await page.getByText('limit reached').waitFor();
  await page.getByRole('button', { name: 'Edit' }).click();
  await drawer.getByText('Tags, expiry and limit').click();
  expect(await limit.inputValue()).toBe('1000');
  await limit.fill('');
  await drawer.getByRole('button', { name: 'Save' }).click();
  await page.getByText('limit reached').waitFor({ state: 'detached' });
  expect((await owner.call('GET', `/links/${link.id}`)).body.max_clicks).toBe(null);
  expect(faults).toEqual([]);
  await browser.close();
});
