/** Pictures of every screen, in light and dark, wide and narrow, for docs/dashboard. */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { packageRoot } from '#common/process/paths.ts';
import { screensOf } from './dashboard-screens.ts';
import { type DashboardStage, openShop, type Person, type Shop, startDashboard } from './dashboard-stage.ts';

const folder = join(packageRoot(), 'docs', 'dashboard');
let stage: DashboardStage;
let owner: Person;
let shop: Shop;

beforeAll(async () => {
  mkdirSync(folder, { recursive: true });
  stage = await startDashboard();
  owner = await stage.person();
  shop = await openShop(stage.api, owner);
});
afterAll(() => stage.stop());

const sizes = {
  '1440': { width: 1440, height: 900 },
  '1024': { width: 1024, height: 768 },
  '390': { width: 390, height: 844 },
} as const;

test.each([
  ['light', '1440'],
  ['light', '1024'],
  ['light', '390'],
  ['dark', '1440'],
  ['dark', '1024'],
  ['dark', '390'],
] as const)('pictures in %s at %s pixels', async (colorScheme, width) => {
  const options = { colorScheme, viewport: sizes[width] };
  for (const screen of screensOf(shop)) {
    const by = screen.isFresh ? await stage.person() : owner;
    const { page, context, faults } = screen.isAnonymous
      ? await stage.page(options)
      : await stage.loggedIn(by, options);
    if (screen.isAnonymous) await page.goto(stage.origin);
    await screen.open(page, stage.origin);
    await page.screenshot({
      path: join(folder, `${screen.name}-${colorScheme}-${width}.png`),
      fullPage: screen.isLong,
    });
    expect(faults).toEqual([]);
    await context.close();
  }
});
