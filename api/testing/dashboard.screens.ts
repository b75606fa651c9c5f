/** Screenshots of every screen, light and dark, wide and narrow, for docs/dashboard. */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { newId } from '#common/ids.ts';
import { matchJson } from '#common/log/match-record.ts';
import { packageRoot } from '#common/process/paths.ts';
import { plainMatch } from '#common/testing/match-record.ts';
import { screensOf } from './dashboard-screens.ts';
import { openShop, type Shop } from './dashboard-shop.ts';
import { type DashboardStage, type Person, startDashboard } from './dashboard-stage.ts';
import { clickOf, eventOf } from './live-stage.ts';

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

/** Records that arrive while the debugger is open. */
async function writeLive(): Promise<void> {
  const { organization_id } = owner;
  const app_id = shop.appId;
  const link_id = shop.linkIds[0] ?? '';
  const place = { organization_id, app_id, link_id };
  const click_id = newId('clk', Date.now());
  const more = { outcome: 'matched', match_type: 'click_id', confidence: 1, click_id, link_id } as const;
  await stage.log.write(
    'click',
    clickOf(place),
    clickOf({ ...place, link_id: shop.linkIds[2] ?? '' }),
    clickOf(place, { click_id }),
  );
  await stage.log.write('match', matchJson(plainMatch(place, { ...more, device_id: 'my-phone', time: Date.now() })));
  await stage.log.write('event', eventOf({ organization_id, app_id }, 'my-phone'));
}

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
    if (screen.name === 'debugger') {
      await page.getByText('live', { exact: true }).waitFor();
      await writeLive();
      await page.getByRole('button', { name: /^opened/ }).waitFor();
    }
    await page.screenshot({
      path: join(folder, `${screen.name}-${colorScheme}-${width}.png`),
      fullPage: screen.isLong,
    });
    expect(faults).toEqual([]);
    await context.close();
  }
});
