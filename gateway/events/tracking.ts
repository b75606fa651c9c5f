/** Tracks a parsed batch of events: looks up each event's link, appends to the journal, and counts. */
import { CAMPAIGN_FIELDS } from '#common/campaign-fields.ts';
import { type Rejection, unavailable } from '#common/http/rejection.ts';
import { newId } from '#common/ids.ts';
import { roomAround } from '#common/journal/journal.ts';
import type { AppSnapshot } from '#common/links/app-snapshot.ts';
import { aroundEventBatch, madeId } from '#common/log/event-batch.ts';
import {
  eventJson,
  eventPrefix,
  extrasJson,
  type ItemRefusalReason,
  refusalReasons,
  refusedJson,
} from '#common/log/event-record.ts';
import { jsonText } from '#common/log/record.ts';
import { isConversion } from '#common/revenue.ts';
import type { LinkFacts, LinkIndex } from '#gateway/links/link-facts.ts';
import type { PendingRecord, RecordWriter } from '#gateway/record-writer.ts';
import { type Batch, cutOutOf, type EventError, type ReadEvent, type ReceiptTimes, writtenAnew } from './batch.ts';
import { RecentIds } from './recent-ids.ts';
import { excerptOf, reasonOf } from './refusal.ts';

const REFUSED_RETRY_SECONDS = 5;

export interface Tracked {
  readonly accepted: number;
  readonly duplicates: number;
  readonly rejected: number;
  readonly errors: readonly EventError[];
}

export interface Sender extends ReceiptTimes {
  readonly app: AppSnapshot;
  readonly ip: string;
}

export class EventTracking {
  /** Since the start of the process. */
  readonly counters = { accepted: 0, duplicates: 0, rejected: 0, refused_batches: 0 };
  /** Rejected events, by reason. */
  readonly refusals = new Map<ItemRefusalReason, number>(refusalReasons.map((reason) => [reason, 0]));
  readonly #records: RecordWriter;
  readonly #links: Pick<LinkIndex, 'ofApp'>;
  readonly #recent = new RecentIds();

  constructor(records: RecordWriter, links: Pick<LinkIndex, 'ofApp'>) {
    this.#records = records;
    this.#links = links;
  }

  /** Resolves once the journal has every accepted event. */
  track(batch: Batch, sender: Sender): Promise<Tracked | Rejection> {
    if (!this.#records.isOpen) return Promise.resolve(this.#shed());
    if (!batch.events.some(({ link_id }) => link_id !== '')) return this.#keep(batch, noLinks, sender);
    return this.#linkFields(sender.app.app_id, batch.events).then((fields) => this.#keep(batch, fields, sender));
  }

  /** While it waits, it keeps only the batch's ids: everything in memory is work for the garbage collector. */
  #keep(batch: Batch, linkFields: ReadonlyMap<string, string>, sender: Sender): Promise<Tracked | Rejection> {
    const { app_id } = sender.app;
    const errors = [...batch.errors];
    const kept: ReadEvent[] = [];
    const noted: string[] = [];
    let duplicates = 0;
    for (const event of batch.events) {
      const { event_id, link_id } = event;
      if (link_id !== '' && !linkFields.has(link_id)) {
        errors.push(foreignLink(event));
        continue;
      }
      kept.push(event);
      if (event_id === '') continue;
      if (this.#recent.note(app_id, event_id)) duplicates++;
      else noted.push(event_id);
    }
    const records = kept.length === 0 ? [] : this.#recordsOf(batch, kept, errors, linkFields, sender);
    records.push(...refusedRecords(batch, errors, sender));
    errors.sort((one, other) => one.index - other.index);
    const tracked = { accepted: kept.length - duplicates, duplicates, rejected: errors.length, errors };
    return this.#whenWritten(this.#records.write('event', app_id, records), tracked, app_id, noted);
  }

  async #whenWritten(
    written: Promise<boolean>,
    tracked: Tracked,
    appId: string,
    noted: readonly string[],
  ): Promise<Tracked | Rejection> {
    if (!(await written)) {
      for (const id of noted) this.#recent.forget(appId, id);
      return this.#shed();
    }
    this.counters.accepted += tracked.accepted;
    this.counters.duplicates += tracked.duplicates;
    this.counters.rejected += tracked.rejected;
    for (const error of tracked.errors) {
      const reason = reasonOf(error);
      this.refusals.set(reason, (this.refusals.get(reason) ?? 0) + 1);
    }
    return tracked;
  }

  /**
   * Normally one record with the request's own bytes. One record per event if there are several partitions, or if no
   * frame can contain the request together with the fields of its links, of which there may be a thousand.
   */
  #recordsOf(
    batch: Batch,
    kept: readonly ReadEvent[],
    errors: readonly EventError[],
    linkFields: ReadonlyMap<string, string>,
    { app, ip, receivedMs }: Sender,
  ): PendingRecord[] {
    const { app_id, organization_id, settings } = app;
    const { privacy_mode, conversion_events } = settings;
    const { context: defaults, device_ip } = batch;
    const origin = { organization_id, app_id, received_at: receivedMs, ip, device_ip, privacy_mode, defaults };
    const id_base = newId('evt', receivedMs);
    if (batch.line !== null && this.#records.partitions === 1) {
      const skip = errors.map(({ index }) => index);
      const [head, tail] = aroundEventBatch(origin, {
        conversion_events,
        links: linksJson(linkFields),
        id_base,
        skip,
      });
      if (Number.isFinite(roomAround(head, batch.line, tail))) return [{ id: id_base, head, body: batch.line, tail }];
    }
    const prefix = eventPrefix(origin);
    const cutOut = cutOutOf(batch);
    return kept.map((event) => {
      const { time, revenue_amount, revenue_currency } = event;
      const is_id_made = event.event_id === '';
      const event_id = is_id_made ? madeId(id_base, event.index) : event.event_id;
      const is_conversion = isConversion(revenue_amount, event.name, conversion_events);
      const extras = batch.foreign?.[event.index]?.extras;
      const fields = (linkFields.get(event.link_id) ?? '') + (extras ? extrasJson(extras, privacy_mode) : '');
      const decision = {
        event_id,
        time,
        revenue_amount,
        revenue_currency,
        is_conversion,
        is_id_made,
        linkFields: fields,
      };
      return { id: event_id, json: eventJson(prefix, decision, writtenAnew(event, cutOut[event.index] ?? null)) };
    });
  }

  #shed(): Rejection {
    this.counters.refused_batches++;
    return unavailable('Events cannot be stored at the moment. Send the batch again later.', REFUSED_RETRY_SECONDS);
  }

  /** Campaign and utm fields of the links, in the record's format. Links of other apps are missing from the result. */
  async #linkFields(appId: string, events: readonly ReadEvent[]): Promise<Map<string, string>> {
    const ids = new Set(events.map(({ link_id }) => link_id).filter((id) => id !== ''));
    const found = await this.#links.ofApp(appId, [...ids]);
    const fields = new Map<string, string>();
    for (const id of ids) {
      const facts = found.get(id);
      // Undefined if Postgres was unavailable: the event is stored anyway, with the link id that the app sent.
      if (facts !== null) fields.set(id, facts ? fieldsOf(facts) : '');
    }
    return fields;
  }
}

/**
 * Records of rejected items from another service's client. Its protocol hardly reports rejections, so each is stored as
 * a dead letter.
 */
function refusedRecords(batch: Batch, errors: readonly EventError[], { app, receivedMs }: Sender): PendingRecord[] {
  const { foreign } = batch;
  if (foreign === undefined || errors.length === 0) return [];
  const { app_id, organization_id, settings } = app;
  const { privacy_mode } = settings;
  const prefix = eventPrefix({ organization_id, app_id, received_at: receivedMs, ip: '', privacy_mode, defaults: {} });
  const id_base = newId('evt', receivedMs);
  return errors.map((error) => {
    const json = refusedJson(prefix, reasonOf(error), error.message, excerptOf(foreign[error.index]?.item));
    return { id: madeId(id_base, error.index), json };
  });
}

const noLinks: ReadonlyMap<string, string> = new Map();

/** The fields by link id, as JSON; empty if there are none. */
function linksJson(linkFields: ReadonlyMap<string, string>): string {
  if (linkFields.size === 0) return '';
  return `{${[...linkFields].map(([id, fields]) => `"${id}":{${fields.slice(1)}}`).join(',')}}`;
}

function fieldsOf(facts: LinkFacts): string {
  return CAMPAIGN_FIELDS.map((name) => (facts[name] ? `,"${name}":${jsonText(facts[name])}` : '')).join('');
}

function foreignLink({ index, event_id }: ReadEvent): EventError {
  return {
    index,
    event_id: event_id || null,
    code: 'VALIDATION_ERROR',
    field: 'link_id',
    message: 'is not a link of this app',
  };
}
