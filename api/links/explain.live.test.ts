import { afterAll, beforeAll, expect, test } from 'vitest';
import { type ApiForTest, apiForTest, type Member } from '#api/testing/running-api.ts';
import { openCountryDatabase } from '#common/country-database.ts';
import { userAgentCorpus } from '#common/testing/user-agent-corpus.ts';
import { TestEdge } from '#redirector/testing/running-edge.ts';

let api: ApiForTest;
let edge: TestEdge;
let owner: Member;

beforeAll(async () => {
  api = await apiForTest();
  const servers = { redis: api.redisServer.url, postgres: api.databaseUrl };
  edge = await TestEdge.start(servers, { trustedProxies: ['127.0.0.1'] });
  owner = await api.member();
});
afterAll(async () => {
  await edge.stop();
  await api.stop();
});

const ios = { bundle_id: 'com.example.app', team_id: 'ABCDE12345', app_store_id: '123456', uri_scheme: 'shop' };
const fingerprint = Array.from({ length: 32 }, () => 'AB').join(':');
const android = { package_name: 'com.example.app', sha256_cert_fingerprints: [fingerprint], uri_scheme: 'shop' };
const fallback_url = 'https://example.com/app';

const apps: Readonly<Record<string, object>> = {
  both: { ios, android, fallback_url },
  tapped: { ios, android, fallback_url, settings: { tap_page: 'mobile', probabilistic_window_hours: 0 } },
  bare: { pages: { not_found: '<p>none</p>', expired: '<p>over</p>' } },
};
const past = '2020-01-01T00:00:00Z';
const links: readonly object[] = [
  {},
  { ios_url: 'https://i.example/x?utm_source=own', utm_source: 'link', utm_campaign: 'a b' },
  { android_url: 'https://a.example/x' },
  { fallback_url: 'https://w.example/x#part', utm_medium: 'mail' },
  { og_title: 'A title', fallback_url: 'https://w.example/' },
  { ios_url: 'https://apps.apple.com/app/id9', tap_page: 'ios', og_image_url: 'https://img.example/a.png' },
  { tap_page: 'off' },
  { archived: true, fallback_url: 'https://w.example/' },
  { expires_at: past, fallback_url: 'https://w.example/' },
  { expires_at: past, expired_url: 'https://w.example/over' },
];
const agents = [
  ...new Set(
    userAgentCorpus()
      .filter((_, at) => at % 8 === 0)
      .map(({ agent }) => agent),
  ),
  ...['', 'curl/8.5.0', 'facebookexternalhit/1.1', 'WhatsApp/2.23', 'Mozilla/5.0 (compatible; Googlebot/2.1)'],
];
const browser = 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8';
/** accept, query */
const manners: readonly (readonly [string, string])[] = [
  [browser, ''],
  ['*/*', 'utm_source=visit&k=1'],
  ['application/json', ''],
];

async function linksOf(app: string): Promise<{ id: string; url: string }[]> {
  const made = await owner.call('POST', '/apps', { name: app, ...apps[app] });
  expect(made.status, JSON.stringify(made.body)).toBe(201);
  const found = [];
  for (const link of links) {
    const { status, body } = await owner.call('POST', '/links', { app_id: made.body.id, path: '/a', ...link });
    expect(status, JSON.stringify(body)).toBe(201);
    if ('archived' in link) await owner.call('PATCH', `/links/${body.id}`, { archived: true });
    found.push({ id: body.id, url: body.url });
  }
  return found;
}

interface ComparedVisit {
  user_agent: string;
  accept: string;
  query?: string;
  ip?: string;
  language?: string;
}

/** The real response to the visit matches its explanation. */
async function compare(
  url: string,
  { user_agent, accept, query, ip, language }: ComparedVisit,
  // biome-ignore lint/suspicious/noExplicitAny: the explanation under test
  body: any,
): Promise<void> {
  const { host, pathname } = new URL(url);
  const path = query === undefined ? pathname : `${pathname}?${query}`;
  const answer = await edge.get(host, path, {
    accept,
    ...(user_agent === '' ? {} : { 'user-agent': user_agent }),
    ...(ip === undefined ? {} : { 'x-forwarded-for': ip }),
    ...(language === undefined ? {} : { 'accept-language': language }),
  });
  const where = `${user_agent} ${accept} ${path}: ${body.rule}`;
  expect([answer.status, where]).toEqual([body.status, where]);
  for (const [name, value] of Object.entries<string>(body.headers))
    expect(withoutClick(String(answer.headers[name.toLowerCase()])), `${name} of ${where}`).toBe(withoutClick(value));
  expect(withoutClick(answer.headers.location ?? 'null')).toBe(withoutClick(String(body.location)));
  const isPage = answer.status === 200;
  expect([isPage, where]).toEqual([['tap_page', 'preview'].includes(body.outcome), where]);
  if (isPage) expect(answer.body.includes('og:url'), where).toBe(body.outcome === 'preview');
}

const withoutClick = (text: string) => text.replaceAll(/clk_[0-9a-z]{26}/g, 'clk');

test.each(Object.keys(apps))(
  'links of the app "%s" are explained as the redirector answers, for every kind of visitor',
  async (app) => {
    const seen = new Set<string>();
    let at = 0;
    for (const { id, url } of await linksOf(app)) {
      const kinds = agents.map(async (user_agent) => {
        const [accept, query] = manners[at++ % manners.length] ?? ['', ''];
        const asked = { user_agent, accept, ...(query === '' ? {} : { query }) };
        const { status, body } = await owner.call('POST', `/links/${id}/explain`, asked);
        expect(status, JSON.stringify(body)).toBe(200);
        seen.add(body.outcome);
        await compare(url, asked, body);
      });
      await Promise.all(kinds);
    }
    expect([...seen].sort()).toEqual(outcomesOf[app]);
  },
);

const outcomesOf: Readonly<Record<string, string[]>> = {
  both: ['expired', 'gone', 'not_found', 'preview', 'redirect', 'tap_page'],
  tapped: ['expired', 'gone', 'not_found', 'preview', 'redirect', 'tap_page'],
  bare: ['expired', 'gone', 'not_found', 'preview', 'redirect', 'tap_page'],
};

const iphone =
  'Mozilla/5.0 (iPhone; CPU iPhone OS 17_4 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.4 Mobile/15E148 Safari/604.1';

const pixel =
  'Mozilla/5.0 (Linux; Android 14; Pixel 8) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Mobile Safari/537.36';
const variants = ['a', 'b', 'c'].map((name) => ({ url: `https://${name}.example/`, percent: 30 }));
const rules = [
  {
    platform: ['android'],
    os_version_min: '13',
    language: ['de'],
    url: 'https://play.google.com/store/apps/details?id=x',
  },
  { country: ['US'], browser: ['safari'], url: 'https://us.example/' },
  { before: past, url: 'https://past.example/' },
  { country: ['US', 'DE'], variants },
  {
    weekdays: ['mon', 'tue', 'wed', 'thu', 'fri', 'sat', 'sun'],
    timezone: 'Europe/Berlin',
    platform: ['ios'],
    variants,
  },
];

test('links with rules are explained as the redirector answers and records them, and no response may be cached for another visitor', async () => {
  const made = await owner.call('POST', '/apps', { name: 'Ruled', ...apps['tapped'] });
  const { body: link } = await owner.call('POST', '/links', { app_id: made.body.id, path: '/a', rules });
  expect(link.rules).toEqual(rules);
  const countries = openCountryDatabase('');
  const seen = new Set<string>();
  const recorded = new Set(edge.clicks().map(({ click_id }) => click_id));
  for (const ip of ['8.8.8.8', '91.1.2.3', '91.1.2.4', '91.1.2.5', '202.12.27.33', '2001:4860:4860::8888'])
    for (const user_agent of [iphone, pixel, 'curl/8.5.0'])
      for (const language of ['de-AT', 'en']) {
        const visit = { user_agent, accept: browser, ip, language };
        const asked = { ...visit, country: countries.countryOf(ip) };
        const { body } = await owner.call('POST', `/links/${link.id}/explain`, asked);
        expect(body.headers['Cache-Control'], JSON.stringify(body)).toBe('private, no-store');
        await compare(link.url, visit, body);
        const added = edge.clicks().filter(({ click_id }) => !recorded.has(click_id));
        for (const { click_id } of added) recorded.add(click_id);
        expect(added.length).toBeGreaterThan(0);
        expect(new Set(added.map((click) => click['rule'] ?? null)), JSON.stringify(visit)).toEqual(
          new Set([body.rule_id]),
        );
        seen.add(String(body.rule_index));
      }
  // The variant of an address depends on the link's id.
  expect([...seen]).toEqual(expect.arrayContaining(['0', '1', '3', 'null']));
});

test('an explanation names the rule that decides, and why the rules before it do not', async () => {
  // They divide every visitor: with a rest, a tenth of the links would lead this address past the rule.
  const whole = [...variants, { url: 'https://d.example/', percent: 10 }];
  const at = '2026-11-22T12:00:00Z';
  const { rule, rule_index, rule_id, variant, rules_passed_over, sentences, location } = await explained(
    {},
    {
      rules: [
        { after: '2026-11-22T12:00:01Z', url: 'https://later.example/' },
        ...rules.map((rule) => ('variants' in rule ? { ...rule, variants: whole } : rule)),
      ],
    },
    { user_agent: iphone, at, ip: '192.0.2.7', country: 'FR' },
  );
  expect([rule, rule_index]).toEqual(['link.rules', 5]);
  expect(rule_id).toMatch(/^[0-9a-f]{16}$/);
  expect(location).toBe(whole[variant]?.url);
  expect(rules_passed_over.map(({ condition }: { condition: string }) => condition)).toEqual([
    ...['after', 'platform', 'country', 'before', 'country'],
  ]);
  const text = sentences.join('\n');
  expect(text).toContain('rules[0] is skipped: its after does not hold.');
  expect(text).toContain(`All conditions of rules[5] hold, so it decides, with variants[${variant}]`);
});

async function explained(app: object, link: object, visit: object) {
  const made = await owner.call('POST', '/apps', { name: 'Explained', ...app });
  const { body } = await owner.call('POST', '/links', { app_id: made.body.id, path: '/a', ...link });
  return (await owner.call('POST', `/links/${body.id}/explain`, visit)).body;
}

test('the association file of the host, and what a match would need, are described in words', async () => {
  const { association, match, sentences } = await explained(
    { ios },
    {},
    { user_agent: iphone, country: 'DE', installed: true },
  );
  expect(association).toEqual({ file: '/.well-known/apple-app-site-association', status: 200, opens_app: true });
  expect(match).toEqual({ possible: true, certain_by: ['url', 'click_id'], by_signals_hours: 6 });
  const text = sentences.join('\n');
  expect(text).toContain('ABCDE12345.com.example.app');
  expect(text).toContain(
    'The country is recorded with the click, as are region and city if GEOIP_DB has them; it does not change where the link leads.',
  );
  expect(text).toMatch(/within 168 hours.*\n.*within 6 hours.*at least 0\.6/);
});

test('without a team id no file names the app, and the explanation says which field is missing', async () => {
  const { association, sentences } = await explained({ ios: { ...ios, team_id: null } }, {}, { user_agent: iphone });
  expect([association.status, association.opens_app]).toEqual([404, false]);
  expect(sentences.join()).toContain('ios.team_id');
});

test('an app that records no addresses matches only by evidence', async () => {
  const settings = { privacy_mode: 'no_ip' };
  const { match, sentences } = await explained({ ios, settings }, {}, { user_agent: iphone });
  expect(match.by_signals_hours).toBe(0);
  expect(sentences.join()).toContain('no_ip');
});

test('a link of a host that is not verified is not served, and the explanation says so', async () => {
  const { rule, outcome, status } = await explained(
    { fallback_url, host: 'go.unproven.example' },
    {},
    { user_agent: iphone },
  );
  expect([rule, outcome, status]).toEqual(['host_not_verified', 'not_found', 404]);
});

test('a viewer may call it, a stranger and an unknown id are rejected, and an invalid body names its field', async () => {
  const made = await owner.call('POST', '/apps', { name: 'Asked', fallback_url });
  const { body: link } = await owner.call('POST', '/links', { app_id: made.body.id, path: '/a' });
  const ask = async (by: Member, id: string, body: object) => by.call('POST', `/links/${id}/explain`, body);
  const viewer = await api.member('viewer', owner.organization_id);
  expect((await ask(viewer, link.id, { user_agent: 'x' })).status).toBe(200);
  expect((await ask(await api.member(), link.id, { user_agent: 'x' })).status).toBe(403);
  expect((await ask(owner, 'lnk_unknown', { user_agent: 'x' })).status).toBe(404);
  expect((await ask(owner, link.id, {})).body.error.details.field).toBe('user_agent');
});
