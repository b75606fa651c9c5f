/**
 * The activity in the shop of the dashboard's tests: two months of clicks, installs and purchases, and some matches.
 */
import { RowWriter } from '#clickhouse/row-binary.ts';
import { matchColumns, writeMatchRow } from '#clickhouse/rows-matches.ts';
import { DAY_MS, HOUR_MS, MINUTE_MS } from '#common/durations.ts';
import { newId } from '#common/ids.ts';
import type { MatchCandidate } from '#common/log/match-record.ts';
import { plainMatch } from '#common/testing/match-record.ts';
import { fieldsOfPlace, pick, type Random, type TestRecord } from './records.ts';
import type { ApiForTest } from './running-api.ts';

export const campaigns = ['spring-sale', 'newsletter', 'app-launch', 'influencers', 'qr-posters'] as const;
const countries = ['DE', 'DE', 'DE', 'FR', 'FR', 'US', 'US', 'GB', 'ES', 'IT', 'NL', 'AT', 'CH', 'PL'] as const;
const platforms = ['ios', 'ios', 'ios', 'android', 'android', 'desktop'] as const;
const browsers = ['Safari', 'Safari', 'Chrome', 'Instagram', 'Firefox'] as const;

type Place = Pick<TestRecord, 'organization_id' | 'app_id'>;

/** Two months, so that there is a previous period to compare with; weekends and evenings are busier. */
export function shopRecords(random: Random, place: Place, linkIds: readonly string[]): TestRecord[] {
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
export function visit(
  random: Random,
  place: Place,
  linkIds: readonly string[],
  time: number,
  idx: number,
): TestRecord[] {
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
    // Some people visit more than once a day.
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
export async function storeMatches(api: ApiForTest, place: Place, linkIds: readonly string[]): Promise<void> {
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
