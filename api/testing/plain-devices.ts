/** Retention, revenue by age and funnels of generated devices, calculated naively, install by install. */
import { DAY_MS, HOUR_MS } from '#common/durations.ts';
import type { DeviceEvent, DeviceInstall, DeviceRecords } from './device-records.ts';

export interface RetentionCase {
  readonly cohort: string;
  readonly mode: string;
  readonly group_by?: 'country' | 'campaign' | 'link_id';
  readonly return_event?: string;
  /** The only country. */
  readonly filter?: string;
}

export interface LtvCase {
  readonly cohort: string;
  readonly group_by?: 'country' | 'campaign' | 'link_id';
  /** The only country. */
  readonly filter?: string;
}

export interface FunnelCase {
  readonly from: 'click' | 'install';
  readonly events: readonly string[];
  readonly hours: number;
  readonly group_by?: 'country' | 'campaign' | 'app_id';
  /** The only country. */
  readonly filter?: string;
}

type Range = readonly [number, number];

export const isInstall = ({ trigger }: DeviceInstall) => trigger === 'install' || trigger === 'reinstall';
const keyOf = ({ app_id, install_id }: { app_id: string; install_id: string }) => `${app_id} ${install_id}`;

/** A zone without daylight saving time, so that no library is needed here. */
export const zone = { name: 'Asia/Kolkata', offsetMs: 5.5 * HOUR_MS };

function cohortStart(ms: number, cohort: string, startMs: number): number {
  const day = Math.floor((ms + zone.offsetMs) / DAY_MS) * DAY_MS;
  const date = new Date(day);
  if (cohort === 'all') return startMs;
  if (cohort === 'day') return day - zone.offsetMs;
  if (cohort === 'month') return Date.UTC(date.getUTCFullYear(), date.getUTCMonth(), 1) - zone.offsetMs;
  return day - ((date.getUTCDay() + 6) % 7) * DAY_MS - zone.offsetMs;
}

export class PlainDevices {
  readonly records: DeviceRecords;
  readonly #observedMs: number;
  readonly #events = new Map<string, DeviceEvent[]>();
  readonly #installsOfClicks = new Map<string, DeviceInstall[]>();

  /** @param observedMs up to when the records are complete. */
  constructor(records: DeviceRecords, observedMs: number) {
    this.records = records;
    this.#observedMs = observedMs;
    for (const event of records.events) {
      if (event.install_id !== '') add(this.#events, keyOf(event), event);
    }
    for (const own of this.#events.values()) own.sort((a, b) => a.time - b.time);
    for (const install of records.installs) {
      if (install.click_id !== '' && isInstall(install)) add(this.#installsOfClicks, install.click_id, install);
    }
  }

  /** Installs, and [installs, retained] of each day, by the start of the cohort and the group. */
  retention(
    { cohort, mode, group_by, return_event, filter }: RetentionCase,
    [start, end]: Range,
    days: readonly number[],
  ) {
    const cells = new Map<string, { installs: number; days: [number, number][] }>();
    for (const install of this.#installs(start, end)) {
      if (filter !== undefined && install.country !== filter) continue;
      const name = `${cohortStart(install.time, cohort, start)} ${group_by ? install[group_by] : ''}`;
      const cell = cells.get(name) ?? { installs: 0, days: days.map((): [number, number] => [0, 0]) };
      cells.set(name, cell);
      cell.installs++;
      const own = this.#eventsOf(install).filter(({ name }) => return_event === undefined || name === return_event);
      for (const [at, day] of days.entries()) {
        const found = cell.days[at];
        if (!found || !this.#hasCompleted(install, day)) continue;
        found[0]++;
        if (own.some(({ age }) => (mode === 'unbounded' ? age >= day : age === day))) found[1]++;
      }
    }
    return cells;
  }

  /** Amounts in thousandths by currency, by the start of the cohort, the group and the day. */
  revenue(
    { cohort, group_by, filter }: LtvCase,
    [start, end]: Range,
    days: readonly number[],
    shown: ReadonlySet<string>,
  ) {
    const cells = new Map<string, Map<string, number>>();
    for (const install of this.#installs(start, end)) {
      if (filter !== undefined && install.country !== filter) continue;
      const own = group_by ? install[group_by] : '';
      const value = !group_by || shown.has(own) ? own : 'other';
      for (const { age, currency, amount } of this.#eventsOf(install)) {
        if (currency === '') continue;
        for (const day of days) {
          if (age > day || !this.#hasCompleted(install, day)) continue;
          const name = `${cohortStart(install.time, cohort, start)} ${value} ${day}`;
          const amounts = cells.get(name) ?? new Map<string, number>();
          cells.set(name, amounts.set(currency, (amounts.get(currency) ?? 0) + amount));
        }
      }
    }
    return cells;
  }

  /** The counts of the steps by group. */
  funnel({ from, events, hours, group_by, filter }: FunnelCase, [start, end]: Range): Map<string, number[]> {
    const groups = new Map<string, number[]>();
    const entrances =
      from === 'click' ? this.records.clicks.filter(({ is_bot }) => !is_bot) : this.records.installs.filter(isInstall);
    for (const entrance of entrances) {
      if (entrance.time < start || entrance.time >= end) continue;
      if (filter !== undefined && entrance.country !== filter) continue;
      const name = group_by ? entrance[group_by] : '';
      const counts = groups.get(name) ?? [from, ...(from === 'click' ? ['install'] : []), ...events].map(() => 0);
      groups.set(name, counts);
      const lastMs = entrance.time + hours * HOUR_MS;
      const install = 'install_id' in entrance ? entrance : this.#firstInstall(entrance, lastMs);
      const reached = install ? this.#stepsAfter(install, events, lastMs) : 0;
      const steps = 1 + (from === 'click' && install ? 1 : 0) + reached;
      for (let step = 0; step < steps; step++) counts[step] = (counts[step] ?? 0) + 1;
    }
    return groups;
  }

  #firstInstall(
    click: { readonly click_id: string; readonly time: number },
    lastMs: number,
  ): DeviceInstall | undefined {
    const own = this.#installsOfClicks.get(click.click_id) ?? [];
    const within = own.filter(({ time }) => time >= click.time && time <= lastMs && time < this.#observedMs);
    return within.sort((a, b) => a.time - b.time)[0];
  }

  #stepsAfter(install: DeviceInstall, events: readonly string[], lastMs: number): number {
    if (install.install_id === '') return 0;
    let at = install.time;
    const reached = new Map<string, number>();
    for (const [no, wanted] of events.entries()) {
      // One event cannot be two steps.
      const usedMs = reached.get(wanted) ?? Number.NEGATIVE_INFINITY;
      const next = this.#events
        .get(keyOf(install))
        ?.find(({ name, time }) => name === wanted && time <= lastMs && time >= at && time > usedMs);
      if (!next) return no;
      at = next.time;
      reached.set(wanted, at);
    }
    return events.length;
  }

  #installs(start: number, end: number): DeviceInstall[] {
    return this.records.installs.filter((one) => isInstall(one) && one.time >= start && one.time < end);
  }

  #eventsOf(install: DeviceInstall): (DeviceEvent & { readonly age: number })[] {
    return (this.#events.get(keyOf(install)) ?? [])
      .filter(({ time }) => time >= install.time - DAY_MS)
      .map((event) => ({ ...event, age: Math.max(0, Math.floor((event.time - install.time) / DAY_MS)) }));
  }

  #hasCompleted(install: DeviceInstall, day: number): boolean {
    return install.time + (day + 1) * DAY_MS <= this.#observedMs;
  }
}

function add<T>(lists: Map<string, T[]>, key: string, value: T): void {
  const own = lists.get(key);
  if (own) own.push(value);
  else lists.set(key, [value]);
}
