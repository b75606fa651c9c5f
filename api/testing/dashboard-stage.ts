/** The dashboard in a real Chromium, with the real API and stores. */
import { type Browser, type BrowserContext, type BrowserContextOptions, chromium, type Page } from 'playwright-core';
import { hashPassword } from '#api/auth/password.ts';
import { DashboardFiles } from '#api/dashboard-files.ts';
import { findProgram } from '#deploy/local/programs.ts';
import { natsForTest } from '#testing/servers.ts';
import { LogForTest } from './live-stage.ts';
import { storeRecords } from './records.ts';
import { type ApiForTest, apiForTest, type Member } from './running-api.ts';
import { visit } from './shop-records.ts';

export const password = 'correct horse battery staple';
export const chromiumProgram = findProgram(['chromium', 'chromium-browser', 'google-chrome']);

export interface Person extends Member {
  readonly email: string;
}

export interface DashboardStage {
  readonly api: ApiForTest;
  /** The log that the live feed reads. */
  readonly log: LogForTest;
  readonly origin: string;
  readonly browser: Browser;
  /** A user who can log in, in a new organization or in the given one. */
  person(role?: 'owner' | 'member' | 'viewer', organizationId?: string): Promise<Person>;
  /** A page that treats the test's plain HTTP as if a proxy had terminated TLS. Its errors are collected. */
  page(options?: BrowserContextOptions): Promise<StagePage>;
  /** Stores one click, as ingest does. @param rule the id of the link's rule that decided it. */
  click(person: Person, appId: string, linkId: string, rule?: string): Promise<void>;
  loggedIn(person: Person, options?: BrowserContextOptions): Promise<StagePage>;
  stop(): Promise<void>;
}

export interface StagePage {
  readonly page: Page;
  readonly context: BrowserContext;
  /** Errors of scripts and violations of the policy. */
  readonly faults: string[];
}

/** Each step has a shorter time limit than a test, so that a failure names the step that hangs. */
const stepMs = 20_000;

async function within<T>(step: string, done: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const overdue = new Promise<never>((_, fail) => {
    timer = setTimeout(() => fail(new Error(`${step} took more than ${stepMs} ms`)), stepMs);
  });
  try {
    return await Promise.race([done, overdue]);
  } finally {
    clearTimeout(timer);
  }
}

export async function startDashboard(settings: Record<string, string> = {}): Promise<DashboardStage> {
  const pages = DashboardFiles.load();
  if (!pages) throw new Error('dist/dashboard was not built');
  const nats = await natsForTest();
  const log = await LogForTest.of(nats.url);
  const api = await apiForTest({ API_NATS_URL: nats.url, ...settings }, undefined, pages);
  const origin = new URL(api.url).origin;
  const browser = await chromium.launch({
    executablePath: chromiumProgram ?? '',
    args: [
      ...['--no-sandbox', '--disable-gpu', '--disable-background-networking', '--disable-component-update'],
      ...['--disable-sync', '--no-first-run', '--host-resolver-rules=MAP * 127.0.0.1:9, EXCLUDE 127.0.0.1'],
    ],
  });
  await api.db.execute('INSERT INTO ingest.progress (machine, committed_to) VALUES ($1, $2) ON CONFLICT DO NOTHING', [
    'ingest-0',
    Date.now(),
  ]);
  let people = 0;
  const page = async (options: BrowserContextOptions = {}) => {
    const context = await within(
      'a new context of the browser',
      browser.newContext({
        extraHTTPHeaders: { 'X-Forwarded-Proto': 'https' },
        timezoneId: 'Europe/Berlin',
        locale: 'en-GB',
        viewport: { width: 1440, height: 900 },
        reducedMotion: 'reduce',
        ...options,
      }),
    );
    const faults: string[] = [];
    context.setDefaultTimeout(stepMs);
    // Playwright has no time limit for these.
    const [newPage, close] = [context.newPage.bind(context), context.close.bind(context)];
    context.newPage = () => within('a new page of the browser', newPage());
    context.close = (closing) => within('closing the pages of the browser', close(closing));
    const opened = await context.newPage();
    opened.on('pageerror', (error) => faults.push(error.message));
    opened.on('console', (line) => {
      if (line.type() === 'error' && /Content Security Policy|Refused|TrustedScript/.test(line.text()))
        faults.push(line.text());
    });
    return { page: opened, context, faults };
  };
  const person = async (role: 'owner' | 'member' | 'viewer', organizationId?: string) => {
    const member = await api.member(role, organizationId);
    const email = `ada${people++}@example.com`;
    await api.db.execute(`UPDATE users SET password_hash = $2, email = $3, name = 'Ada Example' WHERE id = $1`, [
      member.user_id,
      await hashPassword(password),
      email,
    ]);
    await api.db.execute(`UPDATE organizations SET name = 'Example Ltd' WHERE id = $1`, [member.organization_id]);
    return { ...member, email };
  };
  return {
    api,
    log,
    origin,
    browser,
    page,
    person: (role = 'owner', organizationId) => within('adding a person', person(role, organizationId)),
    click: async ({ organization_id, user_id }, appId, linkId, rule = '') => {
      const [click] = visit(() => 0.99, { organization_id, app_id: appId }, [linkId], Date.now(), 0);
      await storeRecords(api.clickhouse, click ? [{ ...click, rule }] : [], `click-${user_id.slice(-12)}${rule}`);
    },
    loggedIn: async (person, options) => {
      const opened = await page(options);
      await opened.page.goto(`${origin}/`);
      await logIn(opened.page, person.email);
      return opened;
    },
    stop: async () => {
      await browser.close();
      await api.stop();
      await log.close();
      await nats.stop();
    },
  };
}

export async function logIn(page: Page, email: string, secret = password): Promise<void> {
  await page.getByLabel('Email').fill(email);
  await page.getByLabel('Password').fill(secret);
  await page.getByRole('button', { name: 'Log in' }).click();
  await page.getByRole('navigation').first().waitFor();
}
