/** The dashboard in a real Chromium, on the real API and stores, with the figures of a small shop. */
import { type Browser, type BrowserContext, type BrowserContextOptions, chromium, type Page } from 'playwright-core';
import { hashPassword } from '#api/auth/password.ts';
import { DashboardFiles } from '#api/dashboard-files.ts';
import { RowWriter } from '#clickhouse/row-binary.ts';
import { matchColumns, writeMatchRow } from '#clickhouse/rows-matches.ts';
import { DAY_MS, HOUR_MS, MINUTE_MS } from '#common/durations.ts';
import { newId } from '#common/ids.ts';
import type { MatchCandidate } from '#common/log/match-record.ts';
import { plainMatch } from '#common/testing/match-record.ts';
import { findProgram } from '#deploy/local/programs.ts';
import { SeededRandom } from '#testing/seeded-random.ts';
import { natsForTest } from '#testing/servers.ts';
import { LogForTest } from './live-stage.ts';
import { fieldsOfPlace, pick, type Random, storeRecords, type TestRecord } from './records.ts';
import { type ApiForTest, apiForTest, type Member } from './running-api.ts';

export const password = 'correct horse battery staple';
export const chromiumProgram = findProgram(['chromium', 'chromium-browser', 'google-chrome']);

export interface Person extends Member {
  readonly email: string;
}

export interface DashboardStage {
  readonly api: ApiForTest;
  /** What the live feed reads. */
  readonly log: LogForTest;
  readonly origin: string;
  readonly browser: Browser;
  /** Someone who can log in, of a new organization or of the given one. */
  person(role?: 'owner' | 'member' | 'viewer', organizationId?: string): Promise<Person>;
  /** A page that trusts the test's plain HTTP as if a proxy had ended TLS. Its faults are collected. */
  page(options?: BrowserContextOptions): Promise<StagePage>;
  /** Stores one click, as ingest does. */
  click(person: Person, appId: string, linkId: string): Promise<void>;
  loggedIn(person: Person, options?: BrowserContextOptions): Promise<StagePage>;
  stop(): Promise<void>;
}

export interface StagePage {
  readonly page: Page;
  readonly context: BrowserContext;
  /** Errors of scripts and violations of the policy. */
  readonly faults: string[];
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
    const context = await browser.newContext({
      extraHTTPHeaders: { 'X-Forwarded-Proto': 'https' },
      timezoneId: 'Europe/Berlin',
      locale: 'en-GB',
      viewport: { width: 1440, height: 900 },
      reducedMotion: 'reduce',
      ...options,
    });
    const faults: string[] = [];
    context.setDefaultTimeout(20_000);
    const opened = await context.newPage();
    opened.on('pageerror', (error) => faults.push(error.message));
    opened.on('console', (line) => {
      if (line.type() === 'error' && /Content Security Policy|Refused|TrustedScript/.test(line.text()))
        faults.push(line.text());
    });
    return { page: opened, context, faults };
  };
  return {
    api,
    log,
    origin,
    browser,
    page,
    person: async (role = 'owner', organizationId) => {
      const member = await api.member(role, organizationId);
      const email = `ada${people++}@example.com`;
      await api.db.execute(`UPDATE users SET password_hash = $2, email = $3, name = 'Ada Example' WHERE id = $1`, [
        member.user_id,
        await hashPassword(password),
        email,
      ]);
      await api.db.execute(`UPDATE organizations SET name = 'Example Ltd' WHERE id = $1`, [member.organization_id]);
      return { ...member, email };
    },
    click: async ({ organization_id, user_id }, appId, linkId) => {
      const [click] = visit(() => 0.99, { organization_id, app_id: appId }, [linkId], Date.now(), 0);
      await storeRecords(api.clickhouse, click ? [click] : [], `click-${user_id.slice(-12)}`);
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

const campaigns = ['spring-sale', 'newsletter', 'app-launch', 'influencers', 'qr-posters'] as const;
const titles = [
  ['Spring sale', 'https://www.example.com/sale'],
  ['Newsletter 42: new arrivals', 'https://www.example.com/new'],
  ['App launch, Instagram', 'https://www.example.com/app'],
  ['Creator: Mina', 'https://www.example.com/mina?ref=creator'],
  ['Poster, central station', 'https://www.example.com/station'],
  ['Gift finder', 'https://www.example.com/gifts'],
  ['Loyalty programme', 'https://www.example.com/loyalty'],
  ['Refer a friend', 'https://www.example.com/friends'],
] as const;

export interface Shop {
  readonly appId: string;
  readonly webhookId: string;
  readonly postbackId: string;
  /** The part behind # of the address of a shared page, and of one with a password. */
  readonly sharedToken: string;
  readonly lockedToken: string;
  /** Of a file that waits to be confirmed. */
  readonly importId: string;
  readonly linkIds: readonly string[];
  /** The secret of an open invitation. */
  readonly invitation: string;
}

/** Two apps (one with a host that waits for its proof), links, and a month of figures. */
export async function openShop(api: ApiForTest, owner: Member): Promise<Shop> {
  const app = await owner.call('POST', '/apps', {
    name: 'Shop',
    fallback_url: 'https://www.example.com/',
    ios: { bundle_id: 'com.example.shop', team_id: 'ABCDE12345', app_store_id: '123456789' },
    android: { package_name: 'com.example.shop' },
    settings: { conversion_events: ['purchase'] },
  });
  await owner.call('POST', '/apps', { name: 'Travel guide', host: `go-${owner.user_id.slice(-6)}.travel.example` });
  const linkIds: string[] = [];
  for (const [at, [title, destination]] of titles.entries()) {
    const link = await owner.call('POST', '/links', {
      app_id: app.body.id,
      title,
      path: new URL(destination).pathname,
      fallback_url: destination,
      campaign: campaigns[at % campaigns.length],
      tags: at % 3 === 0 ? ['social', 'paid'] : at % 3 === 1 ? ['email'] : [],
      ...(at === 5 ? { expires_at: new Date(Date.now() + 9 * DAY_MS).toISOString() } : {}),
    });
    linkIds.push(link.body.id);
  }
  await owner.call('PATCH', `/links/${linkIds[2]}`, { rules });
  for (const [name, scopes] of [
    ['Shop backend', ['links:write', 'analytics:read']],
    ['Warehouse export', ['analytics:read']],
  ] as const)
    await owner.call('POST', '/keys', { name, scopes });
  const colleague = await api.member('viewer', owner.organization_id);
  await api.db.execute(`UPDATE users SET email = 'mina@example.com', name = 'Mina Okafor' WHERE id = $1`, [
    colleague.user_id,
  ]);
  const webhookId = await openWebhooks(api, owner);
  const postbackId = await openPostbacks(api, owner);
  await api.db.execute(
    `INSERT INTO orphan_visits (organization_id, app_id, day, short_code, visits, last_at)
     SELECT $1, $2, CURRENT_DATE, code, visits, now() - visits * interval '1 minute'
       FROM (VALUES ('spring-sale', 214), ('newsleter', 87), ('app', 31), ('xmas-2019', 4), ('', 12)) AS v (code, visits)`,
    [owner.organization_id, app.body.id],
  );
  const share = async (more: object) =>
    (await owner.call('POST', '/shared-pages', { link_id: linkIds[0], ...more })).body.token;
  const sharedToken = await share({ expires_at: new Date(Date.now() + 30 * DAY_MS).toISOString() });
  const lockedToken = await share({ name: 'For Mina', password: 'open sesame' });
  const day = new Date(Date.now() - DAY_MS).toISOString().slice(0, 10);
  await owner.call('POST', '/costs', {
    costs: [
      { campaign: 'newsletter', day, amount: '80', currency: 'EUR' },
      { campaign: 'influencers', day, amount: '412.50', currency: 'EUR' },
    ],
  });
  await owner.call('POST', '/views', {
    name: 'Newsletter in Germany',
    query: { interval: '90d', campaign: 'newsletter', country: 'DE' },
  });
  const importId = await openImport(api, owner, app.body.id);
  await storeAudits(api);
  const place = { organization_id: owner.organization_id, app_id: app.body.id };
  const random = new SeededRandom(7);
  const all = records(() => random.next(), place, linkIds);
  await storeRecords(api.clickhouse, all, owner.user_id.slice(-12));
  await storeMatches(api, place, linkIds);
  const invited = await owner.call('POST', '/invitations', { email: 'grace@example.com', role: 'member' });
  return {
    appId: app.body.id,
    webhookId,
    postbackId,
    sharedToken,
    lockedToken,
    importId,
    linkIds,
    invitation: invited.body.token,
  };
}

const rules = [
  {
    country: ['DE', 'AT', 'CH'],
    platform: ['ios'],
    os_version_min: '17.4',
    url: 'https://www.example.com/de/app',
  },
  {
    language: ['es', 'pt-BR'],
    variants: [
      { url: 'https://www.example.com/es/app', percent: 60 },
      { url: 'https://www.example.com/es/now', percent: 30 },
    ],
  },
  {
    weekdays: ['sat', 'sun'],
    time_from: '08:00',
    time_until: '20:00',
    timezone: 'Europe/Berlin',
    url: 'https://www.example.com/weekend',
  },
];

/** A message and its attempt. */
const attemptInsertion = `WITH message AS (
      INSERT INTO webhook_messages (id, endpoint_id, organization_id, type, occurred_at, data, status, tries, created_at, due_at)
      VALUES ($1, $2, $3, $4, now(), '{}', $5, 1, now() - $6 * interval '1 minute', now() + interval '4 minutes') RETURNING *)
    INSERT INTO webhook_attempts (endpoint_id, organization_id, message_id, type, url, attempted_at, duration_ms, outcome, http_status, answer)
    SELECT endpoint_id, organization_id, id, type, $7, created_at, $8, $9, $10, $11 FROM message`;

/** One with attempts of each kind, one that is disabled. */
async function openWebhooks(api: ApiForTest, owner: Member): Promise<string> {
  const gone = await owner.call('POST', '/webhooks', {
    url: 'https://old.example.com/hook',
    description: 'Before the move',
    events: ['link.created'],
  });
  await api.db.execute(
    `UPDATE webhook_endpoints SET disabled_at = now() - interval '3 days', disabled_reason = 'gone' WHERE id = $1`,
    [gone.body.id],
  );
  const { body } = await owner.call('POST', '/webhooks', {
    url: 'https://hooks.example.com/warehouse',
    description: 'Warehouse',
    events: ['install.attributed', 'event.recorded', 'click.batch'],
    event_names: ['purchase', 'refund'],
  });
  const attempts = [
    ['event.recorded', 'delivered', 190, 84, 'delivered', 204, ''],
    ['install.attributed', 'delivered', 120, 131, 'delivered', 200, '{"ok":true}'],
    ['click.batch', 'pending', 14, 20_000, 'timeout', null, ''],
    ['event.recorded', 'failed', 9, 61, 'http_error', 503, '<h1>Service Unavailable</h1>'],
    ['click.batch', 'delivered', 2, 96, 'delivered', 204, ''],
  ] as const;
  for (const [at, [type, status, minutes, took, outcome, http, answer]] of attempts.entries()) {
    const id = `msg_${body.id.slice(-20)}${at}`;
    const values = [id, body.id, owner.organization_id, type, status, minutes, body.url, took, outcome, http, answer];
    await api.db.execute(attemptInsertion, values);
  }
  return body.id;
}

/** One that works, and one that a network no longer has. */
async function openPostbacks(api: ApiForTest, owner: Member): Promise<string> {
  await owner.call('POST', '/postbacks', {
    url: 'https://ads.example.net/s2s/{click_id}/install',
    events: ['install.attributed'],
    method: 'POST',
    body: 'event={event_name}&campaign={campaign}',
  });
  const { body } = await owner.call('POST', '/postbacks', {
    url: 'https://network.example.com/postback?click={query.gclid}&event={event_name}&value={revenue}&currency={currency}&id={event_id}',
    description: 'Example Ads',
    events: ['event.recorded'],
    event_names: ['purchase'],
    campaigns: ['spring-sale', 'influencers'],
  });
  const attempts = [
    ['delivered', 95, 112, 'delivered', 200, 'OK'],
    ['failed', 7, 58, 'http_error', 400, '{"error":"unknown click"}'],
  ] as const;
  for (const [at, [status, minutes, took, outcome, http, answer]] of attempts.entries()) {
    const id = `msg_${body.id.slice(-20)}${at}`;
    const { organization_id } = owner;
    const values = [
      id,
      body.id,
      organization_id,
      'event.recorded',
      status,
      minutes,
      body.url,
      took,
      outcome,
      http,
      answer,
    ];
    await api.db.execute(attemptInsertion, values);
  }
  return body.id;
}

/** A file with rows of every outcome, checked. */
async function openImport(api: ApiForTest, owner: Member, appId: string): Promise<string> {
  const names = ['winter-sale', 'gift-card', 'app-store', 'stores', 'jobs', 'press'];
  const lines = [
    'Short URL,Long URL,Title',
    ...names.map((name) => `https://go.example.com/${name},https://www.example.com/${name},${name}`),
    'https://go.example.com/old,ftp://files.example.com/old,Old files',
    'https://other.example.com/x,https://www.example.com/x,Of another host',
    'https://go.example.com/press,https://www.example.com/press-kit,Twice',
  ];
  const { body } = await owner.call('POST', '/imports', { app_id: appId, source: 'bitly', hosts: ['go.example.com'] });
  const sent = await fetch(`${api.url}/imports/${body.id}/parts/1`, {
    method: 'PUT',
    headers: { authorization: `Bearer ${owner.token}`, 'content-type': 'text/csv', 'x-forwarded-proto': 'https' },
    body: lines.join('\n'),
  });
  if (!sent.ok) throw new Error(await sent.text());
  await owner.call('POST', `/imports/${body.id}/check`);
  while (await api.imports.work(body.id));
  return body.id;
}

/** The last 26 days were audited; one hour had a fault. */
async function storeAudits(api: ApiForTest): Promise<void> {
  const sql = `INSERT INTO hourly_audits (hour, owner, claimed_until, figures)
    SELECT h, 'test', now(), jsonb_build_object('lost', 0, 'duplicated', 0, 'rollup_difference', (h = $2::bigint)::int)
      FROM generate_series($1::bigint - 26 * 24 * $3::bigint, $1::bigint, $3::bigint) h ON CONFLICT DO NOTHING`;
  const lastMs = Math.floor(Date.now() / HOUR_MS - 1) * HOUR_MS;
  await api.db.execute(sql, [lastMs, lastMs - 9 * DAY_MS, HOUR_MS]);
}

const countries = ['DE', 'DE', 'DE', 'FR', 'FR', 'US', 'US', 'GB', 'ES', 'IT', 'NL', 'AT', 'CH', 'PL'] as const;
const platforms = ['ios', 'ios', 'ios', 'android', 'android', 'desktop'] as const;
const browsers = ['Safari', 'Safari', 'Chrome', 'Instagram', 'Firefox'] as const;

type Place = Pick<TestRecord, 'organization_id' | 'app_id'>;

/** Two months, so that the change against the previous period is real; weekends and evenings are busier. */
function records(random: Random, place: Place, linkIds: readonly string[]): TestRecord[] {
  const nowMs = Date.now() - 5 * MINUTE_MS;
  const all: TestRecord[] = [];
  for (let day = 59; day >= 0; day--) {
    const weekday = new Date(nowMs - day * DAY_MS).getUTCDay();
    const growth = 1 + (59 - day) / 70;
    const people = Math.round((weekday === 0 || weekday === 6 ? 105 : 70) * growth * (0.85 + random() * 0.3));
    for (let n = 0; n < people; n++) {
      const time = nowMs - day * DAY_MS - Math.floor(random() ** 1.6 * 18 * HOUR_MS);
      all.push(...visit(random, place, linkIds, time, all.length));
    }
  }
  return all;
}

/** A click, sometimes an install, sometimes purchases. */
function visit(random: Random, place: Place, linkIds: readonly string[], time: number, idx: number): TestRecord[] {
  const at = Math.floor(random() ** 2.2 * linkIds.length);
  const shared = {
    ...place,
    link_id: linkIds[at] ?? '',
    campaign: campaigns[at % campaigns.length] ?? '',
    platform: pick(random, platforms),
    country: pick(random, countries),
    utm_source: '',
    utm_medium: '',
    ...fieldsOfPlace(idx, false),
    browser: pick(random, browsers),
    // Some people come more than once a day.
    visitor: Math.floor(time / DAY_MS) * 1_000 + Math.floor(random() * 320),
    is_bot: false,
    is_conversion: false,
    currency: '',
    amount: 0,
    trigger: '',
  };
  const list: TestRecord[] = [{ ...shared, kind: 'clicks', time, idx }];
  if (shared.platform === 'desktop' || random() > 0.24) return list;
  list.push({ ...shared, kind: 'installs', trigger: 'install', time: time + 90_000, idx: idx + 1 });
  while (random() < 0.62) {
    const isPaid = random() < 0.4;
    list.push({
      ...shared,
      kind: 'events',
      time: time + 120_000 + list.length * 30_000,
      idx: idx + list.length,
      is_conversion: isPaid,
      currency: isPaid ? (random() < 0.9 ? 'EUR' : 'USD') : '',
      amount: isPaid ? Math.floor(9_000 + random() * 60_000) : 0,
    });
  }
  return list;
}

/** A certain match, one by score, and two refusals. */
async function storeMatches(api: ApiForTest, place: Place, linkIds: readonly string[]): Promise<void> {
  const nowMs = Date.now() - 2 * MINUTE_MS;
  const candidate = (link_id: string, confidence: number): MatchCandidate => ({
    click_id: newId('clk', nowMs - HOUR_MS),
    link_id,
    age_ms: 47 * MINUTE_MS,
    browser: 'Instagram',
    signals: { family: 'ios', os_version: [17, 5], language: ['en', 'gb'] },
    gate: null,
    confidence,
    factors: [
      ['ip', 1, 40, 40],
      ['os_version', 1, 15, 15],
      ['language', 1, 10, 10],
      ['timezone', 0, 0, 10],
      ['age', 0.5, 2.5, 5],
    ],
  });
  const of = (minutes: number, more: Parameters<typeof plainMatch>[1]) =>
    plainMatch(place, { time: nowMs - minutes * MINUTE_MS, device_id: `device-${minutes}`, ...more });
  const [first = '', second = ''] = linkIds;
  const found = { candidates: [candidate(first, 0.84), candidate(second, 0.41)], candidates_total: 2 };
  const low = { candidates: [candidate(second, 0.52)], candidates_total: 1 };
  const ids = { click_id: newId('clk', nowMs), link_id: first };
  const matches = [
    of(1, { outcome: 'matched', match_type: 'probabilistic', confidence: 0.84, ...ids, detail: found }),
    of(4, { outcome: 'matched', match_type: 'install_referrer', platform: 'android', confidence: 1, ...ids }),
    of(9, { outcome: 'low_confidence', detail: low }),
    of(30, { outcome: 'no_candidates', platform: 'android' }),
  ];
  const into = new RowWriter();
  for (const [idx, match] of matches.entries()) {
    const at = { producer_id: place.app_id, frame_no: 1, idx };
    writeMatchRow(into, { ...match, ...at }, { partition: 0, batch_no: 1 });
  }
  const outcome = await api.clickhouse.insert('matches', into.bytes, {
    token: `matches-${place.app_id}`,
    format: 'RowBinary',
    columns: matchColumns,
  });
  if (outcome.kind !== 'written') throw new Error(outcome.message);
}
