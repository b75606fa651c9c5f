/** Load times of the first pages, with a CPU slowed down four times and an empty cache: medians of several visits. */
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openShop } from './dashboard-shop.ts';
import { type DashboardStage, logIn, type Person, startDashboard } from './dashboard-stage.ts';

const visits = 5;
const slowdown = 4;
/** The page counts as interactive once it has been idle for this long. */
const quietMs = 2_000;

let stage: DashboardStage;
let owner: Person;

beforeAll(async () => {
  stage = await startDashboard();
  owner = await stage.person();
  await openShop(stage.api, owner);
});
afterAll(() => stage.stop());

interface Speed {
  readonly paintMs: number;
  readonly interactiveMs: number;
}

const watching = `globalThis.longTasks = [];
  new PerformanceObserver((list) => longTasks.push(...list.getEntries().map((one) => one.startTime + one.duration)))
    .observe({ type: 'longtask', buffered: true })`;

/** Since the start of the navigation, on the page's own clock. */
async function speedOf(page: Page): Promise<Speed> {
  await page.waitForTimeout(quietMs);
  return await page.evaluate(`(() => {
    const paintMs = performance.getEntriesByName('first-contentful-paint')[0].startTime;
    return { paintMs, interactiveMs: Math.max(paintMs, ...longTasks) };
  })()`);
}

async function visit(isLoggedIn: boolean): Promise<Speed> {
  const { page, context } = await stage.page();
  if (isLoggedIn) {
    await page.goto(stage.origin);
    await logIn(page, owner.email);
  }
  const session = await context.newCDPSession(page);
  await session.send('Network.enable');
  await session.send('Network.setCacheDisabled', { cacheDisabled: true });
  await session.send('Emulation.setCPUThrottlingRate', { rate: slowdown });
  await page.addInitScript(watching);
  await page.goto(stage.origin);
  if (isLoggedIn) await page.getByLabel('Clicks', { exact: true }).waitFor();
  else await page.getByRole('button', { name: 'Log in' }).waitFor();
  const speed = await speedOf(page);
  await context.close();
  return speed;
}

const median = (values: readonly number[]) => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;

test.each([
  ['login', false],
  ['overview', true],
] as const)('the first paint of the %s, and when it is interactive', async (name, isLoggedIn) => {
  const speeds: Speed[] = [];
  for (let n = 0; n < visits; n++) speeds.push(await visit(isLoggedIn));
  const [paint, interactive] = [
    median(speeds.map((one) => one.paintMs)),
    median(speeds.map((one) => one.interactiveMs)),
  ];
  console.log(`${name}: first contentful paint ${Math.round(paint)} ms, interactive ${Math.round(interactive)} ms`);
  expect(interactive).toBeGreaterThanOrEqual(paint);
});
