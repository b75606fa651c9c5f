/** Every screen of the dashboard, and how it is opened: for pictures and for checks of accessibility. */
import type { Page } from 'playwright-core';
import type { Shop } from './dashboard-stage.ts';

export interface Screen {
  readonly name: string;
  readonly isAnonymous?: boolean;
  /** As a new user, whose organization is empty. */
  readonly isFresh?: boolean;
  readonly isLong: boolean;
  /** Goes there and waits until it has its content. */
  readonly open: (page: Page, origin: string) => Promise<void>;
}

export function screensOf(shop: Shop): readonly Screen[] {
  return [
    {
      name: 'login',
      isAnonymous: true,
      isLong: false,
      open: async (page) => {
        await page.getByRole('button', { name: 'Log in' }).waitFor();
      },
    },
    {
      name: 'first-run',
      isFresh: true,
      isLong: true,
      open: async (page) => {
        await page.getByRole('heading', { name: 'Welcome' }).waitFor();
      },
    },
    {
      name: 'overview',
      isLong: true,
      open: async (page) => {
        await page.locator('.ranks button').nth(8).waitFor();
        await page.getByRole('img').first().waitFor();
      },
    },
    {
      name: 'links',
      isLong: true,
      open: async (page) => {
        await page.getByRole('link', { name: 'Links', exact: true }).click();
        await page.getByRole('row').nth(8).waitFor();
        await page.locator('td .loading').first().waitFor({ state: 'detached' });
      },
    },
    {
      name: 'new-link',
      isLong: false,
      open: async (page, origin) => {
        await page.goto(`${origin}/links?new=1`);
        await page.getByLabel('Destination').fill('https://www.example.com/sale');
        await page.getByLabel('Campaign', { exact: true }).fill('spring-sale');
      },
    },
    {
      name: 'link',
      isLong: true,
      open: async (page, origin) => {
        await page.goto(`${origin}/links/${shop.linkIds[0]}`);
        await page.getByRole('tab', { name: 'Browsers' }).waitFor();
        await page.locator('.ranks li').nth(3).waitFor();
      },
    },
    {
      name: 'apps',
      isLong: true,
      open: async (page, origin) => {
        await page.goto(`${origin}/apps`);
        await page.getByText('not verified').waitFor();
      },
    },
    {
      name: 'app',
      isLong: true,
      open: async (page, origin) => {
        await page.goto(`${origin}/apps`);
        await page.getByRole('link', { name: 'Travel guide' }).click();
        await page.getByText('TXT').waitFor();
      },
    },
    {
      name: 'debugger',
      isLong: true,
      open: async (page, origin) => {
        await page.goto(`${origin}/debugger`);
        await page.getByRole('row').nth(3).waitFor();
      },
    },
    {
      name: 'match',
      isLong: true,
      open: async (page, origin) => {
        await page.goto(`${origin}/debugger`);
        await page.locator('tbody a').first().click();
        await page.locator('.factors').first().waitFor();
      },
    },
    {
      name: 'members',
      isLong: true,
      open: async (page, origin) => {
        await page.goto(`${origin}/members`);
        await page.getByRole('row').nth(1).waitFor();
      },
    },
    {
      name: 'quality',
      isLong: true,
      open: async (page, origin) => {
        await page.goto(`${origin}/quality`);
        await page.getByText('Nothing to compare yet').waitFor();
      },
    },
  ];
}
