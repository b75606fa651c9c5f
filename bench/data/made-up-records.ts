/**
 * Generates benchmark records inside ClickHouse, in storage order: on each day, each link (see made-up-links.ts) gets
 * its share of the records, spread over the hours in which people are awake. Country, platform and visitor are derived
 * from the number of a person. The same numbers always give the same records.
 */
import type { Kind } from '#clickhouse/rollups.ts';
import { DAY_MS, HOUR_MS } from '#common/durations.ts';

/** Installs and events per click. */
export const shareOf: Record<Kind, number> = { clicks: 1, installs: 0.02, events: 0.12 };
/** Installs and events without a link. */
const organicShare = 0.2;
/** Hours of the day, repeated by their probability. */
const hours = [
  ...[0, 1, 2, 3, 4, 5, 6, 7, 7, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 12, 13, 13, 14, 14, 15, 15, 16, 16, 17, 17, 17],
  ...[18, 18, 18, 18, 19, 19, 19, 19, 19, 20, 20, 20, 20, 20, 21, 21, 21, 22, 22, 23],
];
/** Sunday first; their mean is 1. */
const weekdays = [1.15, 0.95, 0.9, 0.9, 0.95, 1.0, 1.15];

/** Ends of intervals, in ms of the day, that each contain the same number of records. */
const stretches = [0, ...hours.map(endOfStretch)];

function endOfStretch(hour: number, at: number): number {
  const before = hours.slice(0, at).filter((one) => one === hour).length + 1;
  const all = hours.filter((one) => one === hour).length;
  return (hour + before / all) * HOUR_MS;
}

/** Eight kinds of device, repeated by their probability. */
const device = '[1, 1, 1, 1, 1, 2, 2, 2, 2, 3, 4, 5][1 + person % 12]';
const agents = [
  'Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.5 Mobile/15E148 Safari/604.1',
  'Mozilla/5.0 (Linux; Android 15; Pixel 9) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/137.0.0.0 Mobile Safari/537.36',
  'Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/137.0.0.0 Safari/537.36',
  'Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.5 Safari/605.1.15',
  'Mozilla/5.0 (X11; Linux x86_64; rv:139.0) Gecko/20100101 Firefox/139.0',
];
const referrers = [
  ...['', '', 'google.com', 'facebook.com', 'instagram.com', 't.co', 'linkedin.com', 'bing.com', 'reddit.com'],
  ...['tiktok.com', 'news.example', 'blog.example', 'shop.example'],
];
/** Countries in the order of their frequency. */
const countries = [
  ...'US DE FR GB ES IT BR IN JP CA AU MX NL PL SE CH AT BE DK NO FI PT CZ GR IE HU RO TR ZA'.split(' '),
  ...'AR CL CO PE VN TH ID PH MY SG KR TW HK IL AE SA EG NG KE MA UA KZ NZ'.split(' '),
];

const digits = '0123456789abcdefghjkmnpqrstvwxyz';
/** The bits of the ten digits of a time in an id. */
const timeDigits = [45, 40, 35, 30, 25, 20, 15, 10, 5, 0];

const list = (texts: readonly string[]) => `[${texts.map((text) => `'${text}'`).join(', ')}]`;
const oneOf = (texts: readonly string[], by: string) => `${list(texts)}[1 + ${by} % ${texts.length}]`;
/** Some bits of the hash of a record, so that values that use different bits are independent. */
const bits = (from: number) => `bitShiftRight(h, ${from})`;
/** An id as common/ids.ts makes it, with digits from the hash of the record instead of random ones. */
const id = (prefix: string) =>
  `concat('${prefix}_', ${timeDigits.map((shift) => `substring('${digits}', 1 + bitAnd(bitShiftRight(ms, ${shift}), 31), 1)`).join(', ')}, leftPad(lower(hex(cityHash64(h, n))), 16, '0'))`;

const campaign = "if(link_id = '' OR link % 10 < 3, '', concat('campaign_', toString(link % 40)))";

const shared: Record<string, string> = {
  organization_id: 'organization_id',
  app_id: 'app_id',
  link_id: 'link_id',
  time: "fromUnixTimestamp64Milli(ms, 'UTC')",
  platform: `${list(['ios', 'android', 'desktop', 'desktop', 'other'])}[${device}]`,
  country: `${list(countries)}[1 + toUInt32(floor(exp((person * 7919 % 1000003) / 1000003. * ln(50)) - 1))]`,
  campaign,
  utm_source: `if(link_id = '', '', ${oneOf(['', 'newsletter', 'google', 'facebook', 'instagram', 'x', 'tiktok', 'partner'], 'link')})`,
  utm_medium: `if(link_id = '', '', ${oneOf(['', 'email', 'cpc', 'social'], 'link')})`,
  frame_no: 'intDiv(n, 500) + 1',
  idx: 'n % 500',
};

const own: Record<Kind, Record<string, string>> = {
  clicks: {
    click_id: id('clk'),
    ip: "concat('203.0.', toString(person % 250), '.0')",
    user_agent: `${list(agents)}[${device}]`,
    os: `${list(['iOS', 'Android', 'Windows', 'macOS', 'Linux'])}[${device}]`,
    os_version: `toString(10 + ${bits(20)} % 8)`,
    browser: `if(${bits(24)} % 4 = 0, ${oneOf(['Instagram', 'Facebook', 'Samsung Internet', 'Edge'], bits(26))}, ${list(['Safari', 'Chrome', 'Chrome', 'Safari', 'Firefox'])}[${device}])`,
    language: oneOf(['en', 'de', 'fr', 'es', 'pt'], 'person'),
    referrer_host: oneOf(referrers, bits(30)),
    trigger: "'link'",
    is_bot: `${bits(40)} % 16 = 0`,
    bot_reason: "if(is_bot, 'user_agent', '')",
    visitor: 'cityHash64(org, app, person, day)',
  },
  installs: {
    install_id: id('ins'),
    installed_at: 'time',
    attributed: "link_id != ''",
    match_type: "if(link_id = '', 'none', 'click_id')",
    match_guaranteed: 'attributed',
    confidence: 'if(attributed, 1, 0)',
    device_id: "concat('device-', toString(cityHash64(org, app, person, n)))",
  },
  events: {
    event_id: 'hex(cityHash64(h, n))',
    name: oneOf(['open', 'view', 'add_to_cart', 'purchase'], bits(30)),
    received_at: 'time',
    device_id: "concat('device-', toString(cityHash64(org, app, person)))",
    revenue_amount: `if(${bits(30)} % 4 = 3, toDecimal128(toDecimal128(${bits(36)} % 10000, 0) / 100, 9), NULL)`,
    revenue_currency: `if(${bits(30)} % 4 = 3, if(org % 5 = 1 OR person % 5 = 0, 'USD', 'EUR'), '')`,
    is_conversion: `${bits(30)} % 4 = 3`,
  },
};

export interface MadeUpDay {
  /** Beginning of the day, epoch ms, a UTC midnight. */
  readonly startMs: number;
  /** Clicks of an average day. */
  readonly clicks: number;
}

/** The statement that stores the records of one kind and day. */
export function insertDay(kind: Kind, into: string, { startMs, clicks }: MadeUpDay): string {
  const day = startMs / DAY_MS;
  const wanted = clicks * (weekdays[new Date(startMs).getUTCDay()] ?? 1) * shareOf[kind];
  const name = new Date(startMs).toISOString().slice(0, 10);
  const columns = { ...shared, ...own[kind], batch_id: `'made-${name}'`, producer_id: `'made-${kind}-${name}'` };
  // Rows with a link get their share; rows without one get the organic share. Every click has a link.
  const share =
    kind === 'clicks' ? "if(link_id = '', 0, share)" : `share * if(link_id = '', ${organicShare}, ${1 - organicShare})`;
  const names = Object.keys(columns);
  return `INSERT INTO ${into} (${names.join(', ')}) SELECT ${Object.entries(columns)
    .map(([column, expression]) => (expression === column ? column : `${expression} AS ${column}`))
    .join(', ')}
FROM (
  SELECT *, rowNumberInAllBlocks() AS n, cityHash64(seed, copy) AS h, bitShiftRight(h, 8) % persons AS person,
    toUInt32(${day}) AS day, (copy + h % 1000003 / 1000003.) / copies * ${hours.length} AS at, toUInt32(floor(at)) AS stretch,
    toInt64(${startMs}) + toInt64(floor(stretches[stretch + 1] + (stretches[stretch + 2] - stretches[stretch + 1]) * (at - stretch))) AS ms
  FROM (
    SELECT *, [${stretches.map((ms) => Math.round(ms)).join(', ')}] AS stretches, cityHash64(org, link, ${day}, '${kind}') AS seed,
      toUInt32(floor(${wanted} * ${share} + seed % 1000003 / 1000003.)) AS copies
    FROM made_links WHERE copies > 0
  ) ARRAY JOIN range(copies) AS copy
)`;
}
