/** Records of a few tenants, generated from a seed, and a reference implementation that counts them. */
import type { ClickHouse } from '#clickhouse/client.ts';
import type { FilterColumn } from '#clickhouse/queries/scope.ts';
import { DAY_MS } from '#common/durations.ts';
import { newId } from '#common/ids.ts';

export type Random = () => number;

export function pick<T>(random: Random, values: readonly T[]): T {
  const value = values[Math.floor(random() * values.length)];
  if (value === undefined) throw new Error('cannot pick from an empty list');
  return value;
}

export interface Tenant {
  readonly organization_id: string;
  readonly apps: readonly { readonly id: string; readonly links: readonly { id: string; campaign: string }[] }[];
}

export interface TestRecord {
  readonly kind: 'clicks' | 'installs' | 'events';
  readonly organization_id: string;
  readonly app_id: string;
  readonly link_id: string;
  readonly campaign: string;
  readonly platform: string;
  readonly country: string;
  readonly region: string;
  readonly city: string;
  readonly utm_source: string;
  readonly utm_medium: string;
  readonly utm_campaign: string;
  readonly utm_term: string;
  readonly utm_content: string;
  /** Of a click. */
  readonly rule: string;
  /** Of an install or an event: the place of the click that led to it. */
  readonly led_by?: number;
  readonly referrer_host: string;
  readonly browser: string;
  /** Of a click or an install. */
  readonly os: string;
  readonly language: string;
  /** Of an event. */
  readonly name: string;
  /** Of an install. */
  readonly match_type: string;
  /** Epoch milliseconds. */
  readonly time: number;
  readonly is_bot: boolean;
  readonly visitor: number;
  readonly is_conversion: boolean;
  readonly currency: string;
  /** In thousandths. */
  readonly amount: number;
  readonly idx: number;
  /** Of an install, or of an opening among them. */
  readonly trigger: string;
}

export const platforms = ['ios', 'android', 'desktop', 'other', ''] as const;
export const countries = 'DE FR US GB IT ES PL NL SE NO FI DK AT CH BE PT'.split(' ');
export const sources = ['', 'newsletter', 'google', "o'brien\\"] as const;
export const media = ['', 'email', 'cpc'] as const;
const triggers = ['install', 'install', 'install', 'reinstall', 'reengagement', 'deep_link'] as const;
export const campaigns = ['', 'spring', 'summer', 'autumn & "winter"', 'other'] as const;

export function makeTenant(appCount: number, linkCount: number, atMs: number): Tenant {
  const apps = Array.from({ length: appCount }, (_, app) => ({
    id: newId('app', atMs),
    links: Array.from({ length: linkCount }, (_, link) => ({
      id: newId('lnk', atMs),
      campaign: campaigns[(app + link) % campaigns.length] ?? '',
    })),
  }));
  return { organization_id: newId('org', atMs), apps };
}

export function makeRecords(random: Random, tenant: Tenant, count: number, fromMs: number, toMs: number): TestRecord[] {
  return Array.from({ length: count }, (_, idx) => {
    const app = pick(random, tenant.apps);
    const link = app.links[Math.floor(random() ** 2 * app.links.length)] ?? pick(random, app.links);
    const dice = random();
    const kind = dice < 0.7 ? 'clicks' : dice < 0.8 ? 'installs' : 'events';
    const trigger = kind === 'installs' ? pick(random, triggers) : '';
    const isOrganic = kind !== 'clicks' && trigger !== 'reengagement' && trigger !== 'deep_link' && random() < 0.2;
    const time = Math.floor(fromMs + random() * (toMs - fromMs));
    // About a hundred people per day, each counted once per day.
    const visitor = Math.floor(time / DAY_MS) * 1_000 + Math.floor(random() * 120);
    const isPaid = kind === 'events' && random() < 0.3;
    return {
      kind,
      organization_id: tenant.organization_id,
      app_id: app.id,
      link_id: isOrganic ? '' : link.id,
      campaign: isOrganic ? '' : link.campaign,
      platform: pick(random, platforms),
      country: countries[Math.floor(random() ** 2 * countries.length)] ?? '',
      utm_source: pick(random, sources),
      utm_medium: pick(random, media),
      browser: `b${Math.floor(random() * 14)}`,
      ...fieldsOfPlace(idx, isOrganic),
      time,
      is_bot: kind === 'clicks' && random() < 0.1,
      visitor: visitor * 1_000_003,
      is_conversion: isPaid || (kind === 'events' && random() < 0.1),
      currency: isPaid ? pick(random, ['EUR', 'USD']) : '',
      amount: isPaid ? Math.floor(random() * 100_000) : 0,
      idx,
      trigger,
    };
  });
}

/** Values derived from the position of the record. */
export function fieldsOfPlace(idx: number, isOrganic: boolean) {
  const at = (values: readonly string[], step: number) => values[Math.floor(idx / step) % values.length] ?? '';
  return {
    utm_campaign: at(['', 'sale', 'launch'], 1),
    utm_term: at(['', 'shoes'], 3),
    utm_content: at(['', 'banner', 'text'], 2),
    referrer_host: at(['', 'example.com', 'news.example', 'a.example'], 5),
    os: at(['iOS', 'Android', ''], 7),
    rule: at(['', '0123456789abcdef', 'fedcba9876543210'], 4),
    language: at(['de', 'en-GB', '', 'fr', 'pt-BR'], 11),
    region: at(['DE-BY', '', 'FR-IDF', 'US-CA'], 19),
    city: at(['Munich', 'Paris', '', "L'Aquila", 'Saint-Denis, Réunion'], 23),
    name: at(['opened', 'purchase', 'signed up', "o'brien", 'level'], 13),
    match_type: isOrganic ? 'none' : at(['click_id', 'install_referrer', 'probabilistic'], 17),
  };
}

/** The value of a field by which figures are filtered and grouped; empty if the kind does not have it. */
export function valueIn(record: TestRecord, field: Exclude<FilterColumn, 'tag'>): string {
  const { kind } = record;
  switch (field) {
    case 'referrer':
      return kind === 'clicks' ? record.referrer_host : '';
    case 'browser':
    case 'rule':
      return kind === 'clicks' ? record[field] : '';
    case 'os':
    case 'language':
      return kind === 'events' ? '' : record[field];
    case 'event_name':
      return kind === 'events' ? record.name : '';
    case 'match_type':
      return kind === 'installs' ? record.match_type : '';
    case 'match_certainty':
      if (kind !== 'installs') return '';
      if (record.match_type === 'none') return 'none';
      return record.match_type === 'probabilistic' ? 'probabilistic' : 'guaranteed';
    default:
      return record[field];
  }
}

const shared =
  'organization_id app_id link_id campaign platform country region city utm_source utm_medium utm_campaign utm_term utm_content time'.split(
    ' ',
  );
const origin = ['batch_id', 'producer_id', 'frame_no', 'idx'];
const columnsOf = {
  clicks: [...shared, 'click_id', 'browser', 'rule', 'referrer_host', 'os', 'language', 'is_bot', 'visitor', ...origin],
  installs: [
    ...shared,
    ...'click_id install_id match_id attributed trigger os language match_type match_guaranteed'.split(' '),
    ...origin,
  ],
  events: [
    ...shared,
    ...'click_id event_id name revenue_amount revenue_currency is_conversion sign is_learned'.split(' '),
    ...origin,
  ],
};

/**
 * Events that arrived before their install: stored without a link and with another origin, reversed, and replaced with
 * the final rows.
 */
export function isLearned({ kind, link_id, idx }: TestRecord): boolean {
  return kind === 'events' && link_id !== '' && idx % 4 === 1;
}

/** As stored before the install was known. */
function waiting(record: TestRecord): TestRecord {
  const country = countries[(countries.indexOf(record.country) + 1) % countries.length] ?? '';
  const platform = record.idx % 8 === 1 ? '' : record.platform;
  const { led_by: _later, ...known } = record;
  return { ...known, link_id: '', campaign: '', utm_source: '', utm_medium: '', utm_campaign: '', country, platform };
}

const clickOf = ({ led_by }: TestRecord, batch: string) => (led_by === undefined ? '' : `${batch}-${led_by}`);

/** Records per frame. */
export const frameRecords = 50;

export async function storeRecords(client: ClickHouse, records: readonly TestRecord[], batch: string): Promise<void> {
  for (const kind of ['clicks', 'installs', 'events'] as const) {
    const columns = columnsOf[kind];
    // Frames are numbered by kind and in chronological order, as on an edge.
    const mine = records.filter((record) => record.kind === kind).sort((a, b) => a.time - b.time);
    const stored = mine.map((record, at) => ({ at, record: isLearned(record) ? waiting(record) : record, sign: 1 }));
    const learned = mine.flatMap((record, at) =>
      isLearned(record) ? [-1, 1].map((sign) => ({ at, sign, record: sign === 1 ? record : waiting(record) })) : [],
    );
    const rows = [...stored, ...learned];
    for (let from = 0; from < rows.length; from += 10_000) {
      const lines = rows.slice(from, from + 10_000).map(({ record, at, sign }, n) => {
        const row: Record<string, unknown> = {
          ...record,
          sign,
          is_learned: from + n >= stored.length,
          time: new Date(record.time).toISOString().replace('T', ' ').replace('Z', ''),
          click_id: record.kind === 'clicks' ? `${batch}-${record.idx}` : clickOf(record, batch),
          install_id: `${batch}-${record.idx}`,
          match_id: `${batch}-${record.idx}`,
          event_id: `${batch}-${record.idx}`,
          attributed: record.link_id !== '',
          match_guaranteed: valueIn(record, 'match_certainty') === 'guaranteed',
          revenue_amount: record.currency === '' ? null : (record.amount / 1000).toFixed(3),
          revenue_currency: record.currency,
          batch_id: batch,
          producer_id: batch,
          frame_no: Math.floor(at / frameRecords) + 1,
          idx: at % frameRecords,
        };
        return JSON.stringify(columns.map((column) => row[column]));
      });
      const outcome = await client.insert(kind, Buffer.from(lines.join('\n')), {
        token: `${batch}-${kind}-${from}`,
        format: 'JSONCompactEachRow',
        columns,
      });
      if (outcome.kind !== 'written') throw new Error(outcome.message);
    }
  }
}

/** An opening of an installed app, stored in the table of installs. */
export function isOpen({ trigger }: TestRecord): boolean {
  return trigger === 'reengagement' || trigger === 'deep_link';
}

export interface PlainFigures {
  clicks: number;
  unique_clicks: number;
  installs: number;
  reinstalls: number;
  opens: number;
  reengagements: number;
  events: number;
  conversions: number;
  attributed_installs: number;
  conversion_rate: number;
  event_conversion_rate: number;
  revenue: { currency: string; amount: string }[];
  bot_clicks: number;
  organic_installs: number;
}

/** Counts records one by one, without rollups. */
export function plainFigures(records: readonly TestRecord[], includeBots = false): PlainFigures {
  const visitors = new Set<number>();
  const amounts = new Map<string, number>();
  const installs = { installs: 0, organic_installs: 0, reinstalls: 0, opens: 0, reengagements: 0 };
  const sums = { clicks: 0, ...installs, events: 0, conversions: 0, bot_clicks: 0 };
  for (const record of records) {
    if (record.kind === 'clicks') {
      if (record.is_bot) sums.bot_clicks++;
      if (record.is_bot && !includeBots) continue;
      sums.clicks++;
      visitors.add(record.visitor);
    } else if (record.kind === 'installs') {
      if (record.trigger === 'reengagement') sums.reengagements++;
      if (isOpen(record)) {
        sums.opens++;
        continue;
      }
      sums.installs++;
      if (record.trigger === 'reinstall') sums.reinstalls++;
      if (record.link_id === '') sums.organic_installs++;
    } else {
      sums.events++;
      if (record.is_conversion) sums.conversions++;
      if (record.currency !== '') amounts.set(record.currency, (amounts.get(record.currency) ?? 0) + record.amount);
    }
  }
  return {
    ...sums,
    unique_clicks: visitors.size,
    attributed_installs: sums.installs - sums.organic_installs,
    event_conversion_rate: sums.clicks === 0 ? 0 : sums.conversions / sums.clicks,
    conversion_rate: sums.clicks === 0 ? 0 : (sums.installs - sums.organic_installs) / sums.clicks,
    revenue: [...amounts]
      .map(([currency, amount]) => ({ currency, amount: String(amount / 1000) }))
      .sort((a, b) => (a.currency < b.currency ? -1 : 1)),
  };
}
