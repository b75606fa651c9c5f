/** The list of links in a real browser, with as many links as a large organization has. */
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, expect, type TestContext, test } from 'vitest';
import { whenQuiet } from '#testing/busy-machine.ts';
import { skipWithout } from '#testing/skip.ts';
import { chromiumProgram, type DashboardStage, type Person, startDashboard } from './testing/dashboard-stage.ts';

const clickedLinks = 20_000;
const pageSize = 50;
/** From the click until the rows are shown, on a quiet machine. */
const pageMsMax = 1_000;
/** Rows that React has removed may wait for garbage collection, which the test triggers before it measures. */
const heapGrowthMax = 5_000_000;

let stage: DashboardStage;

beforeAll(async () => {
  if (chromiumProgram === undefined) return;
  stage = await startDashboard();
});
afterAll(() => stage?.stop());

test('500 links are paged by cursor, and a new link repeats none of them', { tags: ['slow'] }, async (context) => {
  await walk(context, 500);
});

test('100,000 links are searched, sorted by clicks and paged to the end, each page with fifty rows and within a second', {
  tags: ['slow'],
  timeout: 240_000,
}, async (context) => {
  await walk(context, 100_000);
});

test('the search field follows the URL: clearing the filters and going back are not undone', {
  tags: ['slow'],
}, async (context) => {
  skipWithout(chromiumProgram !== undefined, 'chromium', context);
  const person = await stage.person();
  const app = (await person.call('POST', '/apps', { name: 'Searched' })).body;
  await person.call('POST', '/links', { app_id: app.id, path: '/new', title: 'New' });
  const { page, context: browser, faults } = await stage.loggedIn(person);
  const searched = () => new URL(page.url()).searchParams.get('search');
  await page.goto(`${stage.origin}/links`);
  const field = page.getByRole('searchbox', { name: 'Search' });
  for (const leave of [() => page.getByRole('button', { name: 'Clear all filters' }).click(), () => page.goBack()]) {
    await field.fill('nothing like it');
    await expect.poll(searched).toBe('nothing like it');
    await page.getByRole('button', { name: 'Clear all filters' }).waitFor();
    await leave();
    await page.getByRole('link', { name: 'New', exact: true }).waitFor();
    // Longer than the pause after which typed text goes into the URL.
    await page.waitForTimeout(600);
    expect([searched(), await field.inputValue()]).toEqual([null, '']);
  }
  expect(faults).toEqual([]);
  await browser.close();
});

async function walk(context: TestContext, count: number): Promise<void> {
  skipWithout(chromiumProgram !== undefined, 'chromium', context);
  const person = await stage.person();
  const app = (await person.call('POST', '/apps', { name: 'Large' })).body;
  await fill(person, app.id, count);
  const { page, context: browser, faults } = await stage.loggedIn(person);
  const asked: URL[] = [];
  page.on('request', (request) => {
    const url = new URL(request.url());
    if (url.pathname === '/v1/links') asked.push(url);
  });
  const total = count.toLocaleString('en-GB');
  const times: Record<string, number[]> = { first: [], next: [], last: [], search: [], clicks: [] };
  const timed = async (kind: string, act: () => Promise<unknown>, shown: string) => {
    const startedMs = performance.now();
    await act();
    await page.getByRole('link', { name: shown, exact: true }).waitFor();
    times[kind]?.push(Math.round(performance.now() - startedMs));
    expect(await page.getByRole('row').count()).toBeLessThanOrEqual(pageSize + 1);
  };
  await timed('first', () => page.getByRole('navigation').getByRole('link', { name: 'Links' }).click(), 'Link 1');
  const heapBefore = await heapOf(page);
  for (let n = 1; n <= 5; n++) {
    // With offsets, a link that is created in between would shift all others by one.
    if (n === 2) await person.call('POST', '/links', { app_id: app.id, path: '/new', title: 'New' });
    await timed('next', () => page.getByRole('button', { name: 'Next page' }).click(), `Link ${n * pageSize + 1}`);
    expect(await page.getByRole('link', { name: `Link ${n * pageSize}`, exact: true }).count()).toBe(0);
  }
  expect(asked.map(({ searchParams }) => [searchParams.has('cursor'), searchParams.has('offset')])).toEqual(
    asked.map(() => [true, false]),
  );
  expect((await heapOf(page)) - heapBefore).toBeLessThan(heapGrowthMax);
  await page.goBack();
  await page.getByRole('link', { name: `Link ${4 * pageSize + 1}`, exact: true }).waitFor();
  await page.getByRole('button', { name: 'Previous page' }).click();
  await page.getByText(/^151–200 of/).waitFor();
  await timed('last', () => page.goto(`${stage.origin}/links?offset=${count - pageSize + 1}`), `Link ${count}`);
  const search = page.getByRole('searchbox', { name: 'Search' });
  // Not on the current page.
  await timed('search', () => search.fill(`code${count / 2}`), `Link ${count / 2}`);
  await expect.poll(() => page.getByRole('row').count()).toBe(2);
  await search.fill('');
  await page.getByText(new RegExp(`^1–50 of ${(count + 1).toLocaleString('en-GB')}`)).waitFor();
  const mostClicked = `Link ${Math.min(count, clickedLinks)}`;
  await timed('clicks', () => page.getByLabel('Sort by').selectOption({ label: 'Most clicks first' }), mostClicked);
  console.log(`${total} links, ms from the act to the rows: ${JSON.stringify(times)}`);
  for (const one of Object.values(times).flat()) expect(one).toBeLessThan(whenQuiet(pageMsMax));
  expect(faults).toEqual([]);
  await browser.close();
}

/** Link 1 is the newest; link n has n clicks, up to `clickedLinks`. */
async function fill({ organization_id }: Person, appId: string, count: number): Promise<void> {
  const batch = 10_000;
  for (let from = 1; from <= count; from += batch) {
    await stage.api.db.execute(
      `INSERT INTO links (id, organization_id, app_id, short_code, path, campaign, source, title, created_at, updated_at)
       SELECT 'lnk_0' || substr(md5($2 || n), 1, 25), $1, $2, 'code' || n, '/p', NULL, 'dashboard', 'Link ' || n,
              now() - n * interval '1 minute', now() FROM generate_series($3::int, $4::int) n`,
      [organization_id, appId, from, Math.min(count, from + batch - 1)],
    );
  }
  await stage.api.clickhouse.command(
    `INSERT INTO clicks_by_link (organization_id, app_id, link_id, is_bot, bucket, rows)
     SELECT '${organization_id}', '${appId}', concat('lnk_0', substring(lower(hex(MD5(concat('${appId}', toString(number + 1))))), 1, 25)),
            false, toStartOfDay(now()), number + 1 FROM numbers(${Math.min(count, clickedLinks)})`,
  );
}

async function heapOf(page: Page): Promise<number> {
  const session = await page.context().newCDPSession(page);
  await session.send('HeapProfiler.collectGarbage');
  const { usedSize } = await session.send('Runtime.getHeapUsage');
  await session.detach();
  return usedSize;
}
