/** Clicks, installs and events of devices, generated from a seed, for metrics that follow a device over time. */
import type { ClickHouse } from '#clickhouse/client.ts';
import { DAY_MS, HOUR_MS } from '#common/durations.ts';
import { pick, type Random, type Tenant } from './records.ts';

export interface DeviceClick {
  readonly click_id: string;
  readonly app_id: string;
  readonly link_id: string;
  readonly campaign: string;
  readonly country: string;
  readonly time: number;
  readonly is_bot: boolean;
}

export interface DeviceInstall {
  /** Empty if the person was erased. */
  readonly install_id: string;
  readonly app_id: string;
  readonly click_id: string;
  readonly link_id: string;
  readonly campaign: string;
  readonly country: string;
  readonly time: number;
  readonly trigger: string;
}

export interface DeviceEvent {
  readonly install_id: string;
  readonly app_id: string;
  readonly name: string;
  readonly time: number;
  readonly currency: string;
  /** In thousandths. */
  readonly amount: number;
  /** Stored before its install was known, reversed, and stored again. */
  readonly isLearned: boolean;
}

export interface DeviceRecords {
  readonly organization_id: string;
  readonly clicks: DeviceClick[];
  readonly installs: DeviceInstall[];
  readonly events: DeviceEvent[];
}

const countries = 'DE FR US GB IT ES PL NL SE NO FI DK AT CH BE PT'.split(' ');
export const eventNames = ['opened', 'signed up', 'purchase', "o'brien"] as const;

/** About `count` records from one instant to another. The same install ids occur in several apps. */
export function makeDeviceRecords(
  random: Random,
  tenant: Tenant,
  count: number,
  [fromMs, toMs]: readonly [number, number],
): DeviceRecords {
  const made: DeviceRecords = { organization_id: tenant.organization_id, clicks: [], installs: [], events: [] };
  const size = () => made.clicks.length + made.installs.length + made.events.length;
  for (let no = 0; size() < count; no++) {
    const app = pick(random, tenant.apps);
    const link = pick(random, app.links);
    const country = countries[Math.floor(random() ** 2 * countries.length)] ?? '';
    const time = Math.floor(fromMs + random() * (toMs - fromMs));
    const place = { app_id: app.id, link_id: link.id, campaign: link.campaign, country };
    const click_id = `clk_${tenant.organization_id.slice(-6)}_${no}`;
    const isOrganic = random() < 0.2;
    if (!isOrganic) made.clicks.push({ ...place, click_id, time, is_bot: random() < 0.1 });
    if (!isOrganic && random() < 0.6) continue;
    // Some installs are long after the click, one at exactly its time.
    const later = random() < 0.02 ? 0 : Math.floor(random() ** 4 * 20 * DAY_MS);
    const installed = time + later;
    if (installed >= toMs) continue;
    const isErased = random() < 0.05;
    const install_id = isErased ? '' : `i${Math.floor(no / 2)}`;
    made.installs.push({
      ...place,
      ...(isOrganic ? { link_id: '', campaign: '' } : {}),
      click_id: isOrganic || isErased ? '' : click_id,
      install_id,
      time: installed,
      trigger: pick(random, ['install', 'install', 'install', 'reinstall', 'reengagement', 'deep_link']),
    });
    if (isErased && random() < 0.5) continue;
    made.events.push(...eventsOf(random, { install_id, app_id: app.id, installed, toMs }));
  }
  return made;
}

function eventsOf(
  random: Random,
  { install_id, app_id, installed, toMs }: { install_id: string; app_id: string; installed: number; toMs: number },
): DeviceEvent[] {
  const events: DeviceEvent[] = [];
  const count = Math.floor(random() ** 2 * 12);
  for (let n = 0; n < count; n++) {
    const dice = random();
    const after =
      dice < 0.1 ? -Math.floor(random() * 30 * HOUR_MS) : dice < 0.2 ? 0 : Math.floor(random() ** 3 * 40) * DAY_MS;
    // Some exactly at the boundary of a day, most within it.
    const within = dice < 0.2 || random() < 0.1 ? 0 : Math.floor(random() * DAY_MS);
    const time = installed + after + within;
    if (time >= toMs) continue;
    const isPaid = random() < 0.3;
    events.push({
      install_id,
      app_id,
      name: pick(random, eventNames),
      time,
      currency: isPaid ? pick(random, ['EUR', 'USD', 'JPY']) : '',
      amount: isPaid ? Math.floor((random() - 0.1) * 100_000) : 0,
      isLearned: random() < 0.2,
    });
  }
  return events;
}

const rowsPerInsert = 20_000;

/** @param batch a name whose number must be higher than those of earlier batches, as in ingest. */
export async function storeDeviceRecords(
  client: ClickHouse,
  records: DeviceRecords,
  batch: string,
  batch_no = 1,
): Promise<void> {
  const { organization_id } = records;
  const common = { organization_id, batch_id: batch, batch_no, producer_id: batch };
  await store(client, 'clicks', records.clicks.length, batch, (at) => {
    const { time, ...click } = records.clicks[at] as DeviceClick;
    return [{ ...common, ...click, time: textOf(time), frame_no: 1 + Math.floor(at / 50), idx: at % 50 }];
  });
  await store(client, 'installs', records.installs.length, batch, (at) => {
    const { time, ...install } = records.installs[at] as DeviceInstall;
    const own = {
      time: textOf(time),
      attributed: install.link_id !== '',
      frame_no: 1 + Math.floor(at / 50),
      idx: at % 50,
    };
    return [{ ...common, ...install, ...own }];
  });
  await store(client, 'events', records.events.length, batch, (at) => {
    const { time, currency, amount, isLearned, ...event } = records.events[at] as DeviceEvent;
    const row = {
      ...{ ...common, ...event, time: textOf(time), sign: 1, event_id: `e${at}` },
      ...{ revenue_amount: currency === '' ? null : (amount / 1000).toFixed(3), revenue_currency: currency },
      ...{ frame_no: 1 + Math.floor(at / 50), idx: at % 50 },
    };
    if (!isLearned) return [row];
    const waiting = { ...row, install_id: at % 2 === 0 ? '' : event.install_id };
    return [waiting, { ...waiting, sign: -1, is_learned: true }, { ...row, is_learned: true }];
  });
}

function textOf(ms: number): string {
  return new Date(ms).toISOString().replace('T', ' ').replace('Z', '');
}

async function store(
  client: ClickHouse,
  table: string,
  count: number,
  batch: string,
  rowsAt: (at: number) => readonly Record<string, unknown>[],
): Promise<void> {
  for (let from = 0; from < count; from += rowsPerInsert) {
    const rows: Record<string, unknown>[] = [];
    for (let at = from; at < Math.min(count, from + rowsPerInsert); at++) rows.push(...rowsAt(at));
    const columns = [...new Set(rows.flatMap((row) => Object.keys(row)))];
    const lines = rows.map((row) =>
      JSON.stringify(columns.map((column) => row[column] ?? (column === 'is_learned' ? false : null))),
    );
    const outcome = await client.insert(table, Buffer.from(lines.join('\n')), {
      token: `${batch}-${table}-${from}`,
      format: 'JSONCompactEachRow',
      columns,
    });
    if (outcome.kind !== 'written') throw new Error(outcome.message);
  }
}
