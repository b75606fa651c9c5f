import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { LinkRule } from '#common/links/link-rule.ts';
import { testApp, testLink } from '#common/testing/link-snapshots.ts';
import { CompiledRules, RuledVisit } from './compiled-rules.ts';
import { Devices, visitorDeviceOf } from './device.ts';
import { LinkPlan } from './plan.ts';

const url = 'https://rule.example/';
const iphone = (system: string) =>
  `Mozilla/5.0 (iPhone; CPU iPhone OS ${system} like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.4 Mobile/15E148 Safari/604.1`;
const chromeOnAndroid =
  'Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Mobile Safari/537.36';
const pixel =
  'Mozilla/5.0 (Linux; Android 14; Pixel 8) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Mobile Safari/537.36';
const desktop = 'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36';
const instagram = `${iphone('17_4').replace(/ Version.*/, '')} Mobile/21E219 Instagram 330.0.3 (iPhone14,5; iOS 17_4_1; en_US; en; scale=3.00; 1170x2532; 1)`;

interface GivenVisit {
  user_agent?: string;
  language?: string;
  ip?: string;
  country?: string;
  at?: string;
}

const devices = new Devices();

function visitOf({
  user_agent = desktop,
  language = '',
  ip = '192.0.2.1',
  country = '',
  at = '2026-11-22T12:00Z',
}: GivenVisit) {
  const visitor = { user_agent, language, ip };
  return new RuledVisit(devices.of(user_agent), visitor, Date.parse(at), { countryOf: () => country });
}

const isChosen = (rule: LinkRule, visit: GivenVisit) =>
  new CompiledRules('lnk_1', [{ ...rule, url }]).choose(visitOf(visit)) !== null;

test.each<[LinkRule, GivenVisit, boolean]>([
  [{}, {}, true],
  [{ country: ['DE', 'AT'] }, { country: 'AT' }, true],
  [{ country: ['DE'] }, { country: 'FR' }, false],
  [{ country: ['DE'] }, { country: '' }, false],
  [{ platform: ['ios'] }, { user_agent: iphone('17_4') }, true],
  [{ platform: ['ios'] }, { user_agent: pixel }, false],
  [{ platform: ['desktop'] }, {}, true],
  [{ platform: ['other'] }, {}, false],
  [{ platform: ['other'] }, { user_agent: 'curl/8.5.0' }, true],
  [{ os_version_min: '17.4' }, { user_agent: iphone('17_4_1') }, true],
  [{ os_version_min: '17.5' }, { user_agent: iphone('17_4_1') }, false],
  [{ os_version_max: '17' }, { user_agent: iphone('17_4') }, true],
  [{ os_version_max: '17.3' }, { user_agent: iphone('17_4') }, false],
  [{ os_version_min: '14' }, { user_agent: pixel }, true],
  // Chrome says Android 10 whatever the version is.
  [{ os_version_min: '10' }, { user_agent: chromeOnAndroid }, false],
  [{ os_version_max: '15' }, { user_agent: chromeOnAndroid }, false],
  // A web view that names iOS 18.7 may be that or a later one.
  [{ os_version_min: '18' }, { user_agent: iphone('18_7').replace('Version/17.4 ', '') }, true],
  [{ os_version_max: '18.7' }, { user_agent: iphone('18_7').replace('Version/17.4 ', '') }, false],
  [{ browser: ['chrome'] }, {}, true],
  [{ browser: ['Safari'] }, { user_agent: iphone('17_4') }, true],
  [{ browser: ['Safari'] }, { user_agent: instagram }, false],
  [{ browser: ['INSTAGRAM', 'TikTok'] }, { user_agent: instagram }, true],
  [{ language: ['de'] }, { language: 'de-AT,de;q=0.9,en;q=0.5' }, true],
  [{ language: ['de-AT'] }, { language: 'de' }, false],
  [{ language: ['pt-BR'] }, { language: 'PT-br' }, true],
  [{ language: ['de'] }, { language: 'den' }, false],
  [{ language: ['de'] }, { language: 'en;q=0.5, de;q=0.9' }, true],
  [{ language: ['en'] }, { language: 'de,en' }, false],
  [{ language: ['en'] }, { language: '' }, false],
  [{ language: ['en'] }, { language: '*' }, false],
  [{ after: '2026-11-22T12:00Z' }, { at: '2026-11-22T12:00Z' }, true],
  [{ after: '2026-11-22T12:00Z' }, { at: '2026-11-22T11:59:59.999Z' }, false],
  [{ before: '2026-11-22T12:00Z' }, { at: '2026-11-22T12:00Z' }, false],
  [{ before: '2026-11-22T12:00+01:00' }, { at: '2026-11-22T10:59Z' }, true],
])('a rule %j for a visit %j holds: %s', (rule, visit, holds) => {
  expect(isChosen(rule, visit)).toBe(holds);
});

const office: LinkRule = {
  weekdays: ['mon', 'fri'],
  time_from: '09:00',
  time_until: '17:30',
  timezone: 'Europe/Berlin',
};
const night: LinkRule = { weekdays: ['fri'], time_from: '22:00', time_until: '06:00', timezone: 'America/New_York' };

test.each<[LinkRule, string, boolean]>([
  [office, '2026-11-23T08:00Z', true],
  [office, '2026-11-23T07:59Z', false],
  [office, '2026-11-23T16:29Z', true],
  [office, '2026-11-23T16:30Z', false],
  [office, '2026-11-24T12:00Z', false],
  // In summer the clock is two hours ahead.
  [office, '2026-07-20T07:00Z', true],
  [office, '2026-07-20T15:30Z', false],
  [night, '2026-11-28T03:00Z', true],
  [night, '2026-11-28T10:59Z', true],
  [night, '2026-11-28T11:00Z', false],
  [night, '2026-11-27T10:00Z', false],
  // Saturday, 22:30.
  [night, '2026-11-29T03:30Z', false],
  [{ weekdays: ['sun'], timezone: 'Pacific/Kiritimati' }, '2026-11-21T10:00Z', true],
  [{ weekdays: ['sun'], timezone: 'Pacific/Kiritimati' }, '2026-11-22T10:00Z', false],
  [{ time_from: '00:00', time_until: '05:45', timezone: 'Asia/Kathmandu' }, '2026-11-22T23:59Z', true],
  [{ time_from: '00:00', time_until: '05:44', timezone: 'Asia/Kathmandu' }, '2026-11-22T23:59Z', false],
  // A zone that this Node does not know holds never, instead of always.
  [{ weekdays: ['sun'], timezone: 'Mars/Olympus' }, '2026-11-22T10:00Z', false],
])('a rule %j at %s holds: %s', (rule, at, holds) => {
  expect(isChosen(rule, { at })).toBe(holds);
});

test('the first rule whose conditions hold decides, and the explanation names what failed before it', () => {
  const rules = new CompiledRules('lnk_1', [
    { country: ['FR'], url },
    { platform: ['ios'], country: ['DE'], url },
    { country: ['DE'], url: 'https://third.example/' },
    { url },
  ]);
  const visit = visitOf({ country: 'DE' });
  expect(rules.choose(visit)).toMatchObject({ index: 2, variant: null, url: 'https://third.example/' });
  expect(rules.explain(visit)).toEqual(['country', 'platform', null]);
  expect(rules.explain(visitOf({ country: 'IT' }))).toEqual(['country', 'platform', 'country', null]);
});

const address = fc.ipV4();
const halves: LinkRule = {
  variants: [
    { url: 'https://a.example/', percent: 30 },
    { url: 'https://b.example/', percent: 50 },
  ],
};

test('a visitor keeps a variant, whatever the time, the language and the rules without variants before it', () => {
  const before: LinkRule = { country: ['XX'], url };
  fc.assert(
    fc.property(address, fc.constantFrom(desktop, pixel, iphone('17_4')), (ip, user_agent) => {
      const choose = (rules: LinkRule[], at: string, language: string) =>
        new CompiledRules('lnk_1', rules).choose(visitOf({ ip, user_agent, at, language }))?.variant;
      expect(choose([before, halves], '2027-06-01T00:00Z', 'de')).toBe(choose([halves], '2026-01-01T00:00Z', ''));
    }),
  );
});

/** How many of 20,000 addresses have each result. */
function sharesOf(choose: (ip: string) => unknown): Map<unknown, number> {
  const found = new Map<unknown, number>();
  for (let n = 0; n < 20_000; n++) {
    const result = choose(`10.${n >> 16}.${(n >> 8) & 255}.${n & 255}`);
    found.set(result, (found.get(result) ?? 0) + 1);
  }
  return found;
}

test('variants have their share of the visitors, even if these differ in one digit, and the others go on', () => {
  const rules = new CompiledRules('lnk_1', [halves, { url }]);
  const shares = sharesOf((ip) => rules.choose(visitOf({ ip }))?.url);
  // Four standard deviations of a binomial distribution are 1.4 %.
  for (const [at, share] of [
    ['https://a.example/', 0.3],
    ['https://b.example/', 0.5],
    [url, 0.2],
  ] as const)
    expect(Math.abs((shares.get(at) ?? 0) / 20_000 - share), at).toBeLessThan(0.014);
});

test('the choices of two rules, and of two links, do not depend on each other', () => {
  const half: LinkRule = { variants: [{ url, percent: 50 }] };
  const first = new CompiledRules('lnk_1', [half]);
  const second = new CompiledRules('lnk_1', [{ variants: [{ url, percent: 100 }], country: ['XX'] }, half]);
  const other = new CompiledRules('lnk_2', [half]);
  for (const another of [second, other]) {
    const shares = sharesOf((ip) => `${first.choose(visitOf({ ip }))} ${another.choose(visitOf({ ip }))}`);
    expect(shares.size).toBe(4);
    for (const count of shares.values()) expect(Math.abs(count / 20_000 - 0.25)).toBeLessThan(0.013);
  }
});

test('a larger share keeps the visitors of the smaller one', () => {
  const of = (percent: number) => new CompiledRules('lnk_1', [{ variants: [{ url, percent }] }]);
  const [small, large] = [of(10), of(40)];
  const shares = sharesOf((ip) => `${small.choose(visitOf({ ip }))?.index} ${large.choose(visitOf({ ip }))?.index}`);
  expect(shares.get('0 undefined')).toBeUndefined();
});

test('addresses of one household in IPv6 have the same variant', () => {
  const rules = new CompiledRules('lnk_1', [halves]);
  const variants = ['1', '2', 'abcd:1', '9:9:9'].map(
    (end) => rules.choose(visitOf({ ip: `2001:db8:1:2::${end}` }))?.variant,
  );
  expect(new Set(variants).size).toBe(1);
});

const decide = (rules: readonly LinkRule[], user_agent: string, nowMs = 1) =>
  new LinkPlan(
    { ...testApp, tap_page: 'mobile', fallback_url: 'https://app.example/' },
    { ...testLink, rules, utm_source: 'mail', og_title: 'A title', expires_at: 10, ios_url: 'https://ios.example/' },
  ).decide(visitorDeviceOf(user_agent), { ip: '', language: '', user_agent }, nowMs, { countryOf: () => 'DE' });

test('a destination of a rule gets the utm fields, and the tap page before a store', () => {
  const rules: LinkRule[] = [
    { platform: ['desktop'], url: 'https://rule.example/x?k=1' },
    { url: 'https://apps.apple.com/app/id7' },
  ];
  expect(decide(rules, desktop)).toMatchObject({
    rule: 'link.rules',
    target: { index: 0, variant: null },
    destination: { href: 'https://rule.example/x?k=1&utm_source=mail' },
    tap: null,
  });
  expect(decide(rules, iphone('17_4'))).toMatchObject({ target: { index: 1 }, tap: expect.anything() });
});

test('previews, expiry and destinations of a platform decide as without rules where no rule holds', () => {
  const rules: LinkRule[] = [{ country: ['FR'], url }];
  expect(decide(rules, iphone('17_4'))).toMatchObject({ rule: 'link.ios_url', target: null });
  expect(decide([{ url }], 'facebookexternalhit/1.1')).toMatchObject({ rule: 'link.og' });
  expect(decide([{ url }], desktop, 10)).toMatchObject({ rule: 'link.expires_at' });
});

const someText = fc.constantFrom(
  'DE',
  'FR',
  '',
  'de',
  'de-AT',
  'en;q=0.5, de',
  desktop,
  pixel,
  iphone('18_7'),
  'curl/8',
);
const someRule: fc.Arbitrary<LinkRule> = fc.record(
  {
    country: fc.constant(['DE']),
    platform: fc.constant(['ios' as const, 'desktop' as const]),
    os_version_min: fc.constantFrom('17', '9.1.2'),
    os_version_max: fc.constantFrom('18', '99'),
    browser: fc.constant(['Chrome', 'Safari']),
    language: fc.constant(['de']),
    after: fc.constant('2020-01-01T00:00:00Z'),
    before: fc.constant('2030-01-01T00:00:00Z'),
    weekdays: fc.constant(['sun' as const]),
    timezone: fc.constantFrom('UTC', 'Asia/Kathmandu'),
    time_from: fc.constant('22:00'),
    time_until: fc.constant('06:00'),
    url: fc.constantFrom(url, 'https://second.example/'),
    variants: fc.constant([{ url: 'https://v.example/', percent: 40 }]),
  },
  { requiredKeys: [] },
);

test('whatever the rules and the visitor, the explanation says what the decision is', () => {
  fc.assert(
    fc.property(fc.array(someRule, { maxLength: 20 }), someText, someText, someText, fc.ipV4(), (rules, ...given) => {
      const [user_agent, language, country, ip] = given;
      const compiled = new CompiledRules('lnk_1', rules);
      const visit = { user_agent, language, country, ip };
      const failed = compiled.explain(visitOf(visit));
      const decided = failed.indexOf(null);
      expect(compiled.choose(visitOf(visit))?.index ?? -1).toBe(decided);
      expect(failed.length).toBe(decided === -1 ? rules.length : decided + 1);
    }),
  );
});

test('a rule whose destination is no https URL is passed over', () => {
  expect(decide([{ url: 'javascript:alert(1)' }], desktop)).toMatchObject({ rule: 'app.fallback_url' });
});
