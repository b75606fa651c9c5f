/** The app page and the copies of ad postbacks in a real browser, with the real API and a real short-link host. */
import { afterAll, beforeAll, expect, type TestContext, test } from 'vitest';
import { type Receiver, receiverForTest } from '#testing/receiver.ts';
import { skipWithout } from '#testing/skip.ts';
import { chromiumProgram, type DashboardStage, startDashboard } from './testing/dashboard-stage.ts';
import { type DnsForTest, dnsForTest } from './testing/dns-server.ts';

let dns: DnsForTest;
let host: Receiver;
let stage: DashboardStage;

beforeAll(async () => {
  if (chromiumProgram === undefined) return;
  [dns, host] = await Promise.all([dnsForTest(), receiverForTest()]);
  stage = await startDashboard({
    DNS_SERVERS: dns.address,
    SHORT_LINK_SCHEME: 'http',
    SHORT_LINK_PORT: String(host.port),
    WEBHOOK_ALLOWED_NETWORKS: '127.0.0.1',
  });
});
afterAll(async () => {
  await stage?.stop();
  await host?.stop();
  await dns?.stop();
});

const inBrowser = (context: TestContext) => skipWithout(chromiumProgram !== undefined, 'chromium', context);

test('a button checks the association files of an app and says what is wrong and what to do', {
  tags: ['slow'],
}, async (context) => {
  inBrowser(context);
  const person = await stage.person('viewer');
  const owner = await stage.api.member('owner', person.organization_id);
  const app = (
    await owner.call('POST', '/apps', {
      name: 'Shop',
      ios: { bundle_id: 'com.example.shop', team_id: 'ABCDE12345' },
      android: { package_name: 'com.example.shop' },
    })
  ).body;
  dns.addresses.set(app.host, ['127.0.0.1']);
  host.answer = (response) => response.writeHead(301, { location: 'https://www.example.com/<b>' }).end();
  const { page, context: browser, faults } = await stage.loggedIn(person);
  await page.goto(`${stage.origin}/apps/${app.id}`);
  const check = page.getByRole('button', { name: 'Check', exact: true });
  await check.focus();
  await page.keyboard.press('Enter');
  const results = page.getByRole('list', { name: 'Result of the check' }).getByRole('listitem');
  await expect.poll(() => results.count()).toBe(3);
  const [apple, google, copy] = await results.allInnerTexts();
  expect(apple).toContain('has a problem');
  expect(apple).toContain('Exclude /.well-known/ from redirects');
  expect(apple).toContain('status 301');
  expect(apple).toContain('https://www.example.com/<b>');
  expect(google).toContain('not checked');
  expect(copy).toContain('APPLE_CDN_URL');

  const appId = 'ABCDE12345.com.example.shop';
  const file = { applinks: { apps: [], details: [{ appID: appId, paths: ['*'] }] } };
  host.answer = (response) => response.writeHead(200, { 'content-type': 'text/plain' }).end(JSON.stringify(file));
  await check.click();
  await results.first().getByText('The content type must be application/json').waitFor();
  await page.evaluate(`localStorage.setItem('signpost-language', 'de')`);
  await page.reload();
  await page.getByRole('button', { name: 'Prüfen', exact: true }).click();
  await page.getByText('Der Inhaltstyp muss application/json sein').waitFor();
  await page.evaluate(`localStorage.setItem('signpost-language', 'es')`);
  await page.reload();
  await page.getByRole('button', { name: 'Comprobar', exact: true }).click();
  await page.getByText('El tipo de contenido debe ser application/json').waitFor();
  expect(faults).toEqual([]);
  await browser.close();
});

test('learning from an old service is turned on after a wrong URL is rejected at its field, and codes that could not be learned are shown', {
  tags: ['slow'],
}, async (context) => {
  inBrowser(context);
  const owner = await stage.person();
  const viewer = await stage.person('viewer', owner.organization_id);
  const app = (await owner.call('POST', '/apps', { name: 'Moving' })).body;
  const { page, context: browser, faults } = await stage.loggedIn(viewer);
  await page.goto(`${stage.origin}/apps/${app.id}`);
  await page.getByRole('heading', { name: 'Moving', exact: true }).waitFor();
  expect(await page.getByText('Moving from another service').count()).toBe(0);

  const { page: own, context: ownBrowser, faults: ownFaults } = await stage.loggedIn(owner);
  await own.goto(`${stage.origin}/apps/${app.id}`);
  const card = own.locator('section.card', { has: own.getByRole('heading', { name: 'Moving from another service' }) });
  const url = card.getByLabel('URL at the old service');
  await url.fill('https://old.example.com/');
  await card.getByLabel('Destination hosts').fill('www.example.com, shop.example.com');
  await card.getByRole('button', { name: 'Turn on' }).click();
  await expect.poll(() => url.getAttribute('aria-invalid')).toBe('true');
  await url.fill('https://old.example.com/{code}');
  await card.getByRole('button', { name: 'Turn on' }).click();
  await card.getByText('No taps in the last 7 days yet.').waitFor();
  expect((await owner.call('GET', `/apps/${app.id}`)).body.settings.migration).toMatchObject({
    url: 'https://old.example.com/{code}',
    destination_hosts: ['www.example.com', 'shop.example.com'],
  });
  await stage.api.db.execute(
    `INSERT INTO unlearned_codes (organization_id, app_id, short_code, reason, detail, asks, last_at)
     SELECT $1, $2, 'code-' || n, CASE n WHEN 1 THEN 'foreign_host' ELSE 'unknown' END, CASE n WHEN 1 THEN 'evil.example' ELSE '404' END,
            1, now() - n * interval '1 minute' FROM generate_series(1, 12) AS n`,
    [owner.organization_id, app.id],
  );
  await page.reload();
  await page.getByRole('cell', { name: 'code-1 it leads to another host (evil.example)' }).waitFor();
  await page.getByText('and 2 more in the API').waitFor();
  expect(await page.getByLabel('URL at the old service').count()).toBe(0);
  await card.getByRole('button', { name: 'Turn off' }).click();
  await card.getByRole('button', { name: 'Turn on' }).waitFor();
  expect((await owner.call('GET', `/apps/${app.id}`)).body.settings.migration).toBe(null);
  expect([...faults, ...ownFaults]).toEqual([]);
  await browser.close();
  await ownBrowser.close();
});

test('copies of Apple’s postbacks are counted by source and value, and listed with why one is not verified', {
  tags: ['slow'],
}, async (context) => {
  inBrowser(context);
  const owner = await stage.person();
  const { page, context: browser, faults } = await stage.loggedIn(owner);
  const ofApp = async (name: string, app_store_id: string) =>
    (
      await owner.call('POST', '/apps', {
        name,
        ios: { bundle_id: `com.example.${app_store_id}`, team_id: 'ABCDE12345', app_store_id },
      })
    ).body.id;
  const copies = page.getByRole('heading', { name: 'Copies of Apple’s postbacks' });
  await page.goto(`${stage.origin}/integrations/postbacks`);
  await page.getByText('No postbacks yet').waitFor();
  // No app is in the App Store.
  expect(await copies.count()).toBe(0);
  const [first, second] = [await ofApp('First', '111'), await ofApp('Second', '222')];
  await stage.api.db.execute(
    `INSERT INTO ad_postbacks (organization_id, app_id, framework, transaction_id, sequence_index, unverified_reason, version,
       ad_network_id, source_identifier, did_win, conversion_value, coarse_conversion_value)
     SELECT $1, $2, 'skadnetwork', 't' || n, 0, reason, '4.0', network, '5239', true, fine, coarse
       FROM (VALUES (1, NULL, 'one.skadnetwork', 63, NULL), (2, NULL, 'one.skadnetwork', 63, NULL),
                    (3, NULL, 'two.skadnetwork', NULL, 'high'), (4, 'bad_signature', 'two.skadnetwork', 1, NULL)) AS v (n, reason, network, fine, coarse)`,
    [owner.organization_id, second],
  );
  await page.goto(`${stage.origin}/integrations/postbacks?app_id=${first}`);
  await copies.waitFor();
  await page.getByText('No copies yet').waitFor();
  await page.getByLabel('App', { exact: true }).selectOption({ label: 'Second' });
  const counts = page.getByRole('table', { name: 'Verified copies, by source' });
  await expect.poll(() => counts.getByRole('row').allInnerTexts()).toHaveLength(3);
  const [, most, coarse] = (await counts.getByRole('row').allInnerTexts()).map((row) => row.split(/\s+/));
  expect([most, coarse]).toEqual([
    ['one.skadnetwork', '5239', '63', '1', '2'],
    ['two.skadnetwork', '5239', 'high', '1', '1'],
  ]);
  const newest = page.getByRole('table', { name: 'Newest copies' });
  expect(await newest.getByRole('row').count()).toBe(5);
  expect(await newest.getByText('Not signed by Apple').count()).toBe(1);
  expect(faults).toEqual([]);
  await browser.close();
});
