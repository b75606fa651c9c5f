/** Every screen of the dashboard and how to open it, for screenshots and accessibility checks. */
import type { Page } from 'playwright-core';
import type { Shop } from './dashboard-shop.ts';

export interface Screen {
  readonly name: string;
  readonly isAnonymous?: boolean;
  /** Opened as a new user, whose organization is empty. */
  readonly isFresh?: boolean;
  readonly isLong: boolean;
  /** Opens the screen and waits until its content is shown. */
  readonly open: (page: Page, origin: string) => Promise<void>;
}

/** A mark on a colored circle, like a brand's logo. */
export const logo =
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><circle cx="16" cy="16" r="16" fill="#e2552d"/><path d="M9 10h11l4 4-4 4H9zM15 18v7" fill="none" stroke="white" stroke-width="2.6"/></svg>';

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
      name: 'invitation',
      isAnonymous: true,
      isLong: false,
      open: async (page, origin) => {
        await page.goto(`${origin}/invitation#${shop.invitation}`);
        await page.getByRole('button', { name: 'Create account and join' }).waitFor();
      },
    },
    {
      name: 'password-reset',
      isAnonymous: true,
      isLong: false,
      open: async (page, origin) => {
        await page.goto(`${origin}/password-reset#${shop.invitation}`);
        await page.getByLabel('New password').waitFor();
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
        await page.getByText('Android phone').waitFor();
      },
    },
    {
      name: 'link-rules',
      isLong: true,
      open: async (page, origin) => {
        await page.goto(`${origin}/links/${shop.linkIds[2]}`);
        const seen = page.getByRole('region', { name: 'Who sees what' });
        await seen.getByLabel('Language').selectOption('es');
        await seen
          .getByText(/Rule 2, variant/)
          .first()
          .waitFor();
        await seen.locator('summary').first().click();
        await page.getByText('No rule', { exact: true }).waitFor();
        await page.getByRole('tab', { name: 'Browsers' }).waitFor();
        await page.evaluate('scrollTo(0, 0)');
      },
    },
    {
      name: 'rules',
      isLong: false,
      open: async (page, origin) => {
        await page.goto(`${origin}/links/${shop.linkIds[2]}`);
        await page.getByRole('button', { name: 'Edit' }).click();
        await page.getByText('Redirect rules (3)').click();
        await page.getByRole('button', { name: /Spanish/ }).click();
        await page.getByRole('button', { name: 'Country' }).click();
        await page.getByLabel('Goes to').scrollIntoViewIfNeeded();
      },
    },
    {
      name: 'unknown-codes',
      isLong: true,
      open: async (page, origin) => {
        await page.goto(`${origin}/links/unknown`);
        await page.getByText('/newsleter').waitFor();
      },
    },
    {
      name: 'utm-templates',
      isLong: true,
      open: async (page, origin) => {
        await page.goto(`${origin}/links/utm-templates`);
        await page.getByText('medium=print').waitFor();
      },
    },
    {
      name: 'new-utm-template',
      isLong: false,
      open: async (page, origin) => {
        await page.goto(`${origin}/links/utm-templates?new=1`);
        await page.getByLabel('Name', { exact: true }).fill('Instagram, stories');
        await page.getByLabel('utm_source').fill('instagram');
      },
    },
    {
      name: 'utm-template-choice',
      isLong: false,
      open: async (page, origin) => {
        await page.goto(`${origin}/links?new=1`);
        await page.getByLabel('Destination').fill('https://www.example.com/sale');
        await page.getByText('UTM parameters').click();
        await page.getByLabel('Template').selectOption({ label: 'Newsletter (newsletter · email)' });
        await page.getByLabel('utm_content').scrollIntoViewIfNeeded();
      },
    },
    {
      name: 'max-clicks',
      isLong: false,
      open: async (page, origin) => {
        await page.goto(`${origin}/links/${shop.linkIds[4]}`);
        await page.getByText('212 of 500 used').waitFor();
        await page.getByRole('button', { name: 'Edit' }).click();
        await page.getByText('Tags, expiry and limit').click();
        await page.getByLabel('URL after expiry').scrollIntoViewIfNeeded();
      },
    },
    {
      name: 'bulk',
      isLong: false,
      open: async (page, origin) => {
        await page.goto(`${origin}/links`);
        await page.getByRole('checkbox', { name: 'Select Gift finder' }).check();
        await page.getByRole('checkbox', { name: 'Select Spring sale' }).check();
        await page.getByText('2 selected').waitFor();
        await page.locator('td .loading').first().waitFor({ state: 'detached' });
      },
    },
    {
      name: 'preview',
      isLong: false,
      open: async (page, origin) => {
        await page.goto(`${origin}/links?new=1`);
        await page.getByLabel('Destination').fill('https://www.example.com/sale');
        await page.getByLabel('Short code').fill('summer');
        await page.getByText('This code is free.').waitFor();
        await page.getByText('Social preview').click();
        await page.getByLabel('Preview title').fill('The summer sale has begun');
        await page.getByLabel('Preview text').fill('Up to half off, in the app and on the web, until Sunday.');
        await page.getByLabel('Preview image').fill('https://cdn.example.com/summer.png');
        await page.getByRole('button', { name: 'Facebook' }).click();
        await page.getByText('Image from cdn.example.com').scrollIntoViewIfNeeded();
      },
    },
    {
      name: 'qr',
      isLong: false,
      open: async (page, origin) => {
        await page.goto(`${origin}/links/${shop.linkIds[0]}`);
        await page.getByRole('button', { name: 'Design' }).click();
        await page.getByLabel('Code color').fill('#3b2a8c');
        await page.getByLabel('Logo').setInputFiles({
          name: 'logo.svg',
          mimeType: 'image/svg+xml',
          buffer: Buffer.from(logo),
        });
        await page.locator('svg.qrpreview image').waitFor();
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
        await page.getByRole('button', { name: 'Check', exact: true }).click();
        await page.getByRole('list', { name: 'Result of the check' }).waitFor();
      },
    },
    {
      name: 'app-migration',
      isLong: true,
      open: async (page, origin) => {
        await page.goto(`${origin}/apps/${shop.appId}`);
        await page.getByText('partners.example.net').waitFor();
        await page.getByText(/of the taps in the last 7 days|No taps in the last 7 days/).waitFor();
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
      name: 'retention',
      isLong: true,
      open: async (page, origin) => {
        await page.goto(`${origin}/retention`);
        await page.getByRole('table').or(page.getByText('No data in this period')).waitFor();
      },
    },
    {
      name: 'funnel',
      isLong: true,
      open: async (page, origin) => {
        await page.goto(`${origin}/retention/funnel`);
        await page.locator('.funnel li').nth(1).waitFor();
      },
    },
    {
      name: 'revenue',
      isLong: true,
      open: async (page, origin) => {
        await page.goto(`${origin}/retention/revenue`);
        await page.getByRole('table').or(page.getByText('No data in this period')).waitFor();
      },
    },
    {
      name: 'trust',
      isLong: true,
      open: async (page, origin) => {
        await page.goto(`${origin}/trust`);
        await page.getByLabel('Lost', { exact: true }).waitFor();
      },
    },
    {
      name: 'share',
      isLong: false,
      open: async (page, origin) => {
        await page.goto(`${origin}/links/${shop.linkIds[0]}`);
        await page.getByRole('button', { name: 'Share' }).click();
        await page.getByText('For Mina').waitFor();
      },
    },
    {
      name: 'shared',
      isLong: true,
      open: async (page, origin) => {
        await page.goto(`${origin}/shared#${shop.sharedToken}`);
        await page.locator('.ranks li').nth(3).waitFor();
      },
    },
    {
      name: 'shared-locked',
      isLong: false,
      open: async (page, origin) => {
        // Changing only the fragment would not load the page.
        await page.goto('about:blank');
        await page.goto(`${origin}/shared#${shop.lockedToken}`);
        await page.getByLabel('Password').waitFor();
      },
    },
    {
      name: 'imports',
      isLong: true,
      open: async (page, origin) => {
        await page.goto(`${origin}/integrations/imports`);
        await page.getByRole('link', { name: 'Bitly' }).waitFor();
      },
    },
    {
      name: 'import',
      isLong: true,
      open: async (page, origin) => {
        await page.goto(`${origin}/integrations/imports/${shop.importId}`);
        await page.getByRole('row').nth(8).waitFor();
      },
    },
    {
      name: 'new-import',
      isLong: false,
      open: async (page, origin) => {
        await page.goto(`${origin}/integrations/imports?new=1`);
        const buffer = Buffer.from('Slug;Target;Created on\na;https://www.example.com/a;2025-01-02\n');
        await page
          .getByLabel('File', { exact: true })
          .setInputFiles({ name: 'links.csv', mimeType: 'text/csv', buffer });
        await page.getByText('Columns of the file').click();
        await page.getByLabel('Code', { exact: true }).selectOption('Slug');
      },
    },
    {
      name: 'costs',
      isLong: true,
      open: async (page, origin) => {
        await page.goto(`${origin}/integrations/costs`);
        await page.getByRole('cell', { name: 'newsletter', exact: true }).waitFor();
      },
    },
    {
      name: 'views',
      isLong: false,
      open: async (page, origin) => {
        await page.goto(`${origin}/?country=DE`);
        await page.getByRole('button', { name: 'Views' }).click();
        await page.getByText('Newsletter in Germany').waitFor();
      },
    },
    {
      name: 'postbacks',
      isLong: true,
      open: async (page, origin) => {
        await page.goto(`${origin}/integrations/postbacks`);
        await page.getByRole('link', { name: 'Example Ads' }).waitFor();
      },
    },
    {
      name: 'postback',
      isLong: true,
      open: async (page, origin) => {
        await page.goto(`${origin}/integrations/postbacks/${shop.postbackId}`);
        await page.getByText('400 · not accepted').click();
      },
    },
    {
      name: 'new-postback',
      isLong: false,
      open: async (page, origin) => {
        await page.goto(`${origin}/integrations/postbacks?new=1`);
        await page.getByLabel('URL template').fill('https://network.example.com/postback?click={query.gclid}&value=');
        await page.getByRole('button', { name: '{revenue}' }).click();
        await page.getByText('value=12.5').waitFor();
      },
    },
    {
      name: 'webhooks',
      isLong: true,
      open: async (page, origin) => {
        await page.goto(`${origin}/integrations`);
        await page.getByText('Before the move').waitFor();
      },
    },
    {
      name: 'webhook',
      isLong: true,
      open: async (page, origin) => {
        await page.goto(`${origin}/integrations/webhooks/${shop.webhookId}`);
        await page.getByText('503 · not accepted').waitFor();
      },
    },
    {
      name: 'webhook-messages',
      isLong: true,
      open: async (page, origin) => {
        await page.goto(`${origin}/integrations/webhooks/${shop.webhookId}?show=messages`);
        await page.getByRole('row').nth(5).waitFor();
      },
    },
    {
      name: 'new-webhook',
      isLong: false,
      open: async (page, origin) => {
        await page.goto(`${origin}/integrations?new=1`);
        await page.getByLabel('URL').fill('https://hooks.example.com/signpost');
        await page.getByRole('checkbox', { name: 'Selected events are recorded' }).check();
        await page.getByLabel('Event names').waitFor();
      },
    },
    {
      name: 'keys',
      isLong: true,
      open: async (page, origin) => {
        await page.goto(`${origin}/members/keys`);
        await page.getByText('Shop backend').waitFor();
      },
    },
    {
      name: 'new-key',
      isLong: false,
      open: async (page, origin) => {
        await page.goto(`${origin}/members/keys?new=1`);
        await page.getByRole('dialog').waitFor();
      },
    },
    {
      name: 'account',
      isFresh: true,
      isLong: true,
      open: async (page, origin) => {
        await page.goto(`${origin}/account`);
        await page.getByRole('row').nth(1).waitFor();
        await page.getByRole('button', { name: 'Turn on' }).waitFor();
      },
    },
    {
      name: 'members',
      isLong: true,
      open: async (page, origin) => {
        await page.goto(`${origin}/members`);
        await page.getByRole('row').nth(4).waitFor();
      },
    },
    {
      name: 'audit-log',
      isLong: true,
      open: async (page, origin) => {
        await page.goto(`${origin}/members/audit`);
        await page.getByRole('row').nth(5).waitFor();
      },
    },
    {
      name: 'invite',
      isLong: false,
      open: async (page, origin) => {
        await page.goto(`${origin}/members?new=1`);
        await page.getByRole('dialog').getByLabel('Email').fill('noor@example.com');
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
