/**
 * An event that arrived before its install, as two rows: as it was stored, and as it would have been stored after the
 * install.
 */
import { RowWriter } from '#clickhouse/row-binary.ts';
import { type BatchName, monthOf } from '#clickhouse/rows.ts';
import { type EventRow, learnedEventColumns, writeLearnedEventRow } from '#clickhouse/rows-events.ts';
import { campaignFrom } from '#common/campaign-fields.ts';
import type { FormedPart } from '#ingest/formed-batch.ts';
import type { KnownInstall } from './late-store.ts';
import { ownCountry, waitingKeys } from './waiting-keys.ts';

export interface LearnedEvent {
  /** Reverses the stored row. */
  readonly before: EventRow;
  readonly after: EventRow;
}

/** The installs of one look, by the keys under which events wait for them. */
export class InstallsByKey {
  readonly #byKey = new Map<string, KnownInstall[]>();
  readonly #windowMs: (appId: string) => number;

  /** @param windowMs how long after an event its install may arrive. */
  constructor(installs: readonly KnownInstall[], windowMs: (appId: string) => number) {
    this.#windowMs = windowMs;
    for (const install of installs) {
      for (const key of waitingKeys(install)) {
        const name = `${install.app_id} ${key}`;
        const named = this.#byKey.get(name);
        if (named === undefined) this.#byKey.set(name, [install]);
        else named.push(install);
      }
    }
    for (const named of this.#byKey.values()) named.sort((one, other) => one.time_ms - other.time_ms);
  }

  /**
   * Tries the event's keys in order. For the first key with installs: the earliest install after the event, else the
   * latest before.
   */
  installOf({ app_id, waiting_keys, time }: EventRow): KnownInstall | null {
    for (const key of waiting_keys) {
      const named = this.#byKey.get(`${app_id} ${key}`) ?? [];
      const near = named.filter((one) => one.time_ms - time <= this.#windowMs(app_id));
      const install = near.find((one) => one.time_ms >= time) ?? near.at(-1);
      if (install !== undefined) return install;
    }
    return null;
  }
}

/** The event as it would have been stored after its install. */
export function attributed(event: EventRow, install: KnownInstall): EventRow {
  const isPlaceOwn = event.waiting_keys.includes(ownCountry) || install.country === '';
  const { country, region, city } = isPlaceOwn ? event : install;
  return {
    ...event,
    waiting_keys: [],
    install_id: event.install_id || install.install_id,
    link_id: install.link_id,
    click_id: install.click_id,
    platform: event.platform || install.platform,
    country,
    region,
    city,
    ...campaignFrom((name) => event[name] || install[name]),
  };
}

/** Both rows of each event, by month: they are one insert, so either both are stored or neither is. */
export function partsOfLearned(events: readonly LearnedEvent[], batch: BatchName): FormedPart[] {
  const months = new Map<string, { writer: RowWriter; rows: number; from: number; to: number }>();
  for (const { before, after } of events) {
    const month = monthOf(before.time);
    const part = months.get(month) ?? { writer: new RowWriter(), rows: 0, from: before.time, to: before.time };
    months.set(month, part);
    writeLearnedEventRow(part.writer, before, -1, batch);
    writeLearnedEventRow(part.writer, after, 1, batch);
    part.rows += 2;
    part.from = Math.min(part.from, before.time);
    part.to = Math.max(part.to, before.time);
  }
  return [...months].map(([partition, { writer, rows, from, to }]) => ({
    ...{ table: 'events', partition, columns: learnedEventColumns, body: writer.bytes, rows, places: [] },
    ...{ time_from: from, time_to: to },
  }));
}
