/**
 * Records to measure with, made inside ClickHouse: links after Zipf, days with a daily and a weekly rhythm, countries and
 * platforms in likely shares, 1,000 tenants of which the first has a tenth of everything. The same numbers always make the
 * same records.
 */
import type { ClickHouse } from '#clickhouse/client.ts';

export interface MadeUp {
  /** Clicks of the whole span; there is an install for each 50 and an event for each 10 of them. */
  readonly clicks: number;
  readonly days: number;
  /** Only so many days at the end are made; the rest of the span is left out. */
  readonly lastDays: number;
  /** End of the last day, epoch ms, a UTC midnight. */
  readonly endMs: number;
}

const tenants = 1_000;
const bigTenantLinks = 10_000;
const tenantLinks = 500;
const dayMs = 86_400_000;
/** Hours of the day as often as they are likely. */
const hours =
  '0,1,2,3,4,5,6,7,7,8,8,9,9,10,10,11,11,12,12,12,13,13,14,14,15,15,16,16,17,17,17,18,18,18,18,19,19,19,19,19,20,20,20,20,20,21,21,21,22,22,23';
/** Sunday first. */
const weekdays = [1.15, 0.95, 0.9, 0.9, 0.95, 1.0, 1.15];
const countries =
  'USDEFRGBESITBRINJPCAAUMXNLPLSECHATBEDKNOFIPTCZGRIEHUROTRZAARCLCOPEVNTHIDPHMYSGKRTWHKILAESAEGNGKEMAUAKZNZ';

/** Well-formed ids: their digits are the hexadecimal ones. */
const id = (prefix: string, of: string) => `concat('${prefix}_0', substring(lower(hex(sipHash128(${of}))), 1, 25))`;
export const bigTenant = `SELECT ${id('org', "'org', toUInt64(0)")} AS organization_id`;

function numbersOf(from: number, count: number): string {
  return `SELECT number, cityHash64(number, 1) AS h1, cityHash64(number, 2) AS h2, cityHash64(number, 3) AS h3,
    cityHash64(number, 4) AS h4, cityHash64(number, 5) AS h5, cityHash64(number, 6) AS h6,
    toUInt64(if(h1 % 10 = 0, 0, 1 + intDiv(h1, 10) % ${tenants - 1})) AS org,
    toUInt64(floor(exp((h2 % 1000003) / 1000003.0 * ln(if(org = 0, ${bigTenantLinks}, ${tenantLinks}) + 1)) - 1)) AS link,
    h4 % if(org = 0, 60000, 600) AS person,
    [${hours}][1 + h3 % 51] AS hour
  FROM numbers(${from}, ${count})`;
}

const shared = {
  organization_id: id('org', "'org', org"),
  app_id: id('app', "'app', org, link % 3"),
  link_id: id('lnk', "'lnk', org, link"),
  platform:
    "[ 'ios','ios','ios','ios','ios','android','android','android','android','desktop','desktop','other'][1 + person % 12]",
  country: `substring('${countries}', 1 + 2 * toUInt32(floor(exp((person * 7919 % 1000003) / 1000003.0 * ln(50)) - 1)), 2)`,
  campaign: "if(link % 10 < 3, '', concat('campaign_', toString(link % 40)))",
  utm_source: "['', 'newsletter', 'google', 'facebook', 'instagram', 'x', 'tiktok', 'partner'][1 + link % 8]",
  utm_medium: "['', 'email', 'cpc', 'social'][1 + link % 4]",
  batch_id: "'bench'",
  producer_id: "'bench'",
  frame_no: 'intDiv(number, 500) + 1',
  idx: 'number % 500',
};

const own: Record<'clicks' | 'installs' | 'events', Record<string, string>> = {
  clicks: {
    click_id: "concat('clk_0', leftPad(lower(hex(number)), 25, '0'))",
    ip: "concat('203.0.', toString(person % 250), '.0')",
    user_agent:
      "'Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.5 Mobile/15E148 Safari/604.1'",
    os: "['iOS', 'Android', 'Windows', 'macOS'][1 + h5 % 4]",
    os_version: 'toString(10 + h5 % 8)',
    browser: "['Safari', 'Chrome', 'Firefox', 'Samsung Internet', 'Instagram', 'Facebook'][1 + h5 % 6]",
    language: "['en', 'de', 'fr', 'es', 'pt'][1 + h6 % 5]",
    referrer_host:
      "['', '', 'google.com', 'facebook.com', 'instagram.com', 't.co', 'linkedin.com', 'bing.com', 'reddit.com', 'tiktok.com', 'news.example', 'blog.example', 'shop.example'][1 + h5 % 13]",
    trigger: "'link'",
    is_bot: 'h2 % 16 = 0',
    visitor: 'cityHash64(org, link % 3, person, toDate(time))',
  },
  installs: {
    install_id: "concat('ins_0', leftPad(lower(hex(number)), 25, '0'))",
    attributed: "link_id != ''",
    device_id: 'toString(person)',
  },
  events: {
    event_id: 'toString(number)',
    name: "['open', 'view', 'add_to_cart', 'purchase'][1 + h5 % 4]",
    revenue_amount: 'if(h5 % 4 = 3, toDecimal128(toDecimal128(h6 % 10000, 0) / 100, 9), NULL)',
    revenue_currency: "if(h5 % 4 = 3, if(org % 5 = 0, 'USD', 'EUR'), '')",
    is_conversion: 'h5 % 4 = 3',
    device_id: 'toString(person)',
  },
};

function insertDay(kind: keyof typeof own, dayStartMs: number, from: number, count: number): string {
  const linkId = kind === 'clicks' ? shared.link_id : `if(h6 % 5 = 0, '', ${shared.link_id})`;
  const columns: Record<string, string> = {
    ...shared,
    link_id: linkId,
    time: `fromUnixTimestamp64Milli(toInt64(${dayStartMs} + hour * 3600000 + h3 % 3600000), 'UTC')`,
    ...own[kind],
  };
  // What is of no link has no campaign either.
  if (kind !== 'clicks') columns['campaign'] = `if(h6 % 5 = 0, '', ${shared.campaign})`;
  const names = Object.keys(columns);
  return `INSERT INTO ${kind} (${names.join(', ')}) SELECT ${names.map((name) => `${columns[name]} AS ${name}`).join(', ')}
FROM (${numbersOf(from, count)})`;
}

/** @param onDay told after each day how many of how many records there are. */
export async function makeUpRecords(
  client: ClickHouse,
  wanted: MadeUp,
  onDay: (done: number, all: number) => void,
): Promise<void> {
  const perDay = wanted.clicks / wanted.days;
  const days = Math.min(wanted.lastDays, wanted.days);
  let from = 0;
  for (let day = 0; day < days; day++) {
    const start = wanted.endMs - (days - day) * dayMs;
    const clicks = Math.round(perDay * (weekdays[new Date(start).getUTCDay()] ?? 1));
    for (const [kind, share] of [
      ['clicks', 1],
      ['installs', 50],
      ['events', 10],
    ] as const) {
      const sql = insertDay(kind, start, from, Math.ceil(clicks / share));
      await client.command(sql, {}, { async_insert: 0, max_insert_threads: 1, max_execution_time: 3_600 });
    }
    from += clicks;
    onDay(day + 1, days);
  }
}
