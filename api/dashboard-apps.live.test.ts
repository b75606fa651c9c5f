/** The page of an app in a real browser, on the real API and against a real short-link host. */
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

test('the association files of an app are checked by a button that says what is wrong and what to do', async (context) => {
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
