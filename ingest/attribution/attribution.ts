/**
 * Turns installs and events into rows, in this order: drop repeats, find the clicks that events name, find the installs
 * of events, then fill in the link (from the event, its click or its install) and the location of the address.
 */
import { LRUCache } from 'lru-cache';
import type { RowOrigin } from '#clickhouse/rows.ts';
import type { EventRow } from '#clickhouse/rows-events.ts';
import type { InstallRow } from '#clickhouse/rows-installs.ts';
import { addressNetworkOf } from '#common/address-writer.ts';
import type { RecentClick } from '#common/attribution/click-lines.ts';
import type { InstallFacts } from '#common/attribution/recent-installs.ts';
import { type CountryDatabase, nowhere, type Place } from '#common/country-database.ts';
import { decodeEventBatch, isEventBatch } from '#common/log/event-batch.ts';
import { decodeEvent, type EventRecord } from '#common/log/event-record.ts';
import { decodeInstall, type InstallRecord } from '#common/log/install-record.ts';
import type { RecordRejection } from '#ingest/record-decoder.ts';
import { normalizedIp, storedIp } from '#ingest/stored-address.ts';
import type { FirstSeen, IdUse } from './first-seen.ts';
import type { InstallLookup } from './install-lookup.ts';
import type { NamedClicks } from './named-clicks.ts';
import { ownCountry, waitingKeys } from './waiting-keys.ts';

const ADDRESSES_MAX = 50_000;

/** A decoded record and its position in the log. */
export type SdkRecord =
  | { readonly kind: 'install'; readonly record: InstallRecord; readonly origin: RowOrigin }
  | { readonly kind: 'event'; readonly record: EventRecord; readonly origin: RowOrigin };

export interface SdkRows {
  readonly installs: readonly InstallRow[];
  readonly events: readonly EventRow[];
}

export interface AttributionParts {
  /** By partition. */
  readonly firstSeen: { at(partition: number): FirstSeen | undefined };
  readonly installs: InstallLookup;
  readonly clicks: Pick<NamedClicks, 'of'>;
  readonly countries: CountryDatabase;
}

/** Index range reserved for the events of one batch record; it lies after the indexes of records with one event. */
const placesOfBatch = 1_000;

/** Decodes a line of installs or events; a batch of events yields many records. */
export function decodeSdkRecords(
  kind: SdkRecord['kind'],
  line: string,
  origin: RowOrigin,
): readonly (SdkRecord | (RecordRejection & { readonly origin: RowOrigin }))[] {
  if (kind !== 'event' || !isEventBatch(line)) {
    const one = decodeSdkRecord(kind, line, origin);
    return ['reason' in one ? { ...one, origin } : one];
  }
  const batch = decodeEventBatch(line);
  if (typeof batch === 'string') return [{ reason: batch, origin }];
  return batch.map(({ at, event }) => {
    const place = { ...origin, idx: (origin.idx + 1) * placesOfBatch + at };
    return typeof event === 'string' ? { reason: event, origin: place } : { kind, record: event, origin: place };
  });
}

function decodeSdkRecord(kind: SdkRecord['kind'], line: string, origin: RowOrigin): SdkRecord | RecordRejection {
  if (kind === 'install') {
    const record = decodeInstall(line);
    return typeof record === 'string' ? { reason: record } : { kind, record, origin };
  }
  const record = decodeEvent(line);
  return typeof record === 'string' ? { reason: record } : { kind, record, origin };
}

export class Attribution {
  readonly #parts: AttributionParts;
  readonly #places = new LRUCache<string, Place>({ max: ADDRESSES_MAX });

  constructor(parts: AttributionParts) {
    this.#parts = parts;
  }

  /**
   * Called when a partition is acquired: previous owners may have stored some of its records.
   * @throws ClickHouseFailure
   */
  async begin(partition: number, untilMs: number): Promise<void> {
    await this.#firstSeen(partition).load(untilMs);
  }

  /**
   * The rows of the records that are not duplicates. All records belong to one partition.
   * @throws ClickHouseFailure, PostgresUnavailable
   */
  async rows(partition: number, records: readonly SdkRecord[]): Promise<SdkRows> {
    if (records.length === 0) return { installs: [], events: [] };
    const kept = await this.#dropRepeats(this.#firstSeen(partition), records);
    const installs = kept.flatMap((one) => (one.kind === 'install' ? [this.#installRow(one.record, one.origin)] : []));
    const events = kept.flatMap((one) => (one.kind === 'event' ? [one] : []));
    const clicks = await this.#parts.clicks.of(events.map(({ record }) => record));
    const sources = events.map(({ record }) => (isNamed(record, clicks) ? noSource : record));
    const facts = await this.#parts.installs.find(sources);
    return {
      installs,
      events: events.map(({ record, origin }, at) =>
        this.#eventRow(record, origin, clicks.get(record.click_id) ?? null, facts[at] ?? null),
      ),
    };
  }

  #firstSeen(partition: number): FirstSeen {
    const firstSeen = this.#parts.firstSeen.at(partition);
    if (!firstSeen) throw new Error(`There is no partition ${partition}.`);
    return firstSeen;
  }

  async #dropRepeats(firstSeen: FirstSeen, records: readonly SdkRecord[]): Promise<SdkRecord[]> {
    const claims: IdUse[] = [];
    for (const one of records) if (hasClaim(one)) claims.push(claimOf(one));
    const verdicts = claims.length === 0 ? [] : await firstSeen.settle(claims);
    let at = 0;
    return records.filter((one) => !hasClaim(one) || verdicts[at++]);
  }

  #installRow(install: InstallRecord, origin: RowOrigin): InstallRow {
    const { privacy_mode, ip } = install;
    const { country, region, city } = this.#placeOf(addressNetworkOf(ip));
    return {
      os: systems[install.platform],
      country,
      region,
      city,
      ...origin,
      ...install,
      ip: storedIp(normalizedIp(ip), privacy_mode),
    };
  }

  #eventRow(event: EventRecord, origin: RowOrigin, click: RecentClick | null, install: InstallFacts | null): EventRow {
    const own = click?.app_id === event.app_id ? click : null;
    const from = event.link_id === '' ? (own ?? install) : own?.link_id === event.link_id ? own : null;
    const { country, region, city } = this.#placeOfEvent(event, install);
    // New fields go before the spreads: after one, each field costs V8 a microsecond and creates garbage.
    return {
      country,
      region,
      city,
      ...origin,
      ...event,
      install_id: event.install_id || install?.install_id || '',
      link_id: event.link_id || from?.link_id || '',
      click_id: own?.click_id || (event.link_id === '' ? (install?.click_id ?? '') : '') || '',
      platform: event.platform || install?.platform || '',
      waiting_keys: install === null && event.link_id === '' && own === null ? this.#waitingKeys(event) : none,
      campaign: event.campaign || from?.campaign || '',
      utm_source: event.utm_source || from?.utm_source || '',
      utm_medium: event.utm_medium || from?.utm_medium || '',
      utm_campaign: event.utm_campaign || from?.utm_campaign || '',
      utm_term: event.utm_term || from?.utm_term || '',
      utm_content: event.utm_content || from?.utm_content || '',
    };
  }

  /**
   * Location of the device: from its own address if that was sent, else from its install, else from the sender's
   * address.
   */
  #placeOfEvent({ device_ip, ip }: EventRecord, install: InstallFacts | null): Place {
    const own = this.#placeOf(device_ip);
    if (own.country !== '') return own;
    if (install?.country) return { country: install.country, region: install.region ?? '', city: install.city ?? '' };
    const installed = this.#placeOf(install?.network ?? '');
    return installed.country === '' ? this.#placeOf(ip) : installed;
  }

  /** The keys by which an event without an install is found once the install arrives. */
  #waitingKeys(event: EventRecord): readonly string[] {
    const keys = waitingKeys(event);
    if (keys.length > 0 && this.#placeOf(event.device_ip).country !== '') keys.push(ownCountry);
    return keys;
  }

  #placeOf(text: string): Place {
    if (text === '') return nowhere;
    let place = this.#places.get(text);
    if (place === undefined) {
      const ip = normalizedIp(text);
      place = ip === '' ? nowhere : this.#parts.countries.placeOf(ip);
      this.#places.set(text, place);
    }
    return place;
  }
}

const systems = { ios: 'iOS', android: 'Android', web: '' } as const;
const none: readonly string[] = [];
const noSource = { app_id: '', install_id: '', device_id: '' } as const;

/** Whether an event needs no install: it names the platform, and its own click or link provides the rest. */
function isNamed(event: EventRecord, clicks: ReadonlyMap<string, RecentClick>): boolean {
  return event.platform !== '' && (event.link_id !== '' || clicks.get(event.click_id)?.app_id === event.app_id);
}

function hasClaim(one: SdkRecord): boolean {
  return one.kind === 'install' || !one.record.is_id_made;
}

function claimOf(one: SdkRecord): IdUse {
  const { origin, kind } = one;
  const { app_id } = one.record;
  return one.kind === 'install'
    ? { kind, app_id, id: one.record.install_id, received_at: one.record.time, origin }
    : { kind, app_id, id: one.record.event_id, received_at: one.record.received_at, origin };
}
