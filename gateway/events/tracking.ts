/** From a batch that was read to an answer: each event to its link, to the journal, and counted. */
import type { AppSnapshot } from '#common/app-snapshot.ts';
import { type Rejection, unavailable } from '#common/http/rejection.ts';
import { eventJson, eventPrefix } from '#common/log/event-record.ts';
import { jsonText } from '#common/log/record.ts';
import type { LinkFacts, LinkIndex } from '#gateway/links/link-facts.ts';
import type { PendingRecord, RecordWriter } from '#gateway/record-writer.ts';
import type { Batch, EventError, ReadEvent } from './batch.ts';
import { RecentIds } from './recent-ids.ts';

const REFUSED_RETRY_SECONDS = 5;

export interface Tracked {
  readonly accepted: number;
  readonly duplicates: number;
  readonly rejected: number;
  readonly errors: readonly EventError[];
}

export interface Sender {
  readonly app: AppSnapshot;
  readonly ip: string;
  readonly receivedMs: number;
}

export class EventTracking {
  /** Since the start of the process. */
  readonly counters = { accepted: 0, duplicates: 0, rejected: 0, refused_batches: 0 };
  readonly #records: RecordWriter;
  readonly #links: LinkIndex;
  readonly #recent = new RecentIds();

  constructor(records: RecordWriter, links: LinkIndex) {
    this.#records = records;
    this.#links = links;
  }

  /** Answers when the journal has every event that was accepted. */
  async track(batch: Batch, sender: Sender): Promise<Tracked | Rejection> {
    if (!this.#records.isOpen) return this.#shed();
    const { app_id } = sender.app;
    const linkFields = batch.events.some(({ link_id }) => link_id !== '')
      ? await this.#linkFields(app_id, batch.events)
      : noLinks;
    const errors = [...batch.errors];
    const records: PendingRecord[] = [];
    const given: string[] = [];
    const seen = new Set<string>();
    const prefix = eventPrefix({
      organization_id: sender.app.organization_id,
      app_id,
      received_at: sender.receivedMs,
      ip: sender.ip,
      privacy_mode: sender.app.settings.privacy_mode,
      defaults: batch.context,
    });
    const conversions = sender.app.settings.conversion_events;
    let duplicates = 0;
    for (const event of batch.events) {
      const fields = event.link_id === '' ? '' : linkFields.get(event.link_id);
      if (fields === undefined) {
        errors.push(foreignLink(event));
        continue;
      }
      if (event.isIdGiven) {
        if (seen.has(event.event_id) || this.#recent.has(app_id, event.event_id)) {
          duplicates++;
          continue;
        }
        seen.add(event.event_id);
        given.push(event.event_id);
      }
      const { event_id, time, revenue_amount, revenue_currency } = event;
      const is_conversion = revenue_amount !== '' || conversions.includes(event.name);
      const decision = {
        event_id,
        time,
        revenue_amount,
        revenue_currency,
        is_conversion,
        is_id_made: !event.isIdGiven,
      };
      records.push({ id: event_id, json: eventJson(prefix, { ...decision, linkFields: fields }, event.sent) });
    }
    if (!(await this.#records.write('event', app_id, records))) return this.#shed();
    if (given.length > 0) this.#recent.add(app_id, given);
    this.counters.accepted += records.length;
    this.counters.duplicates += duplicates;
    this.counters.rejected += errors.length;
    errors.sort((a, b) => a.index - b.index);
    return { accepted: records.length, duplicates, rejected: errors.length, errors };
  }

  #shed(): Rejection {
    this.counters.refused_batches++;
    return unavailable('Events can not be kept at the moment. Send the batch again later.', REFUSED_RETRY_SECONDS);
  }

  /** Campaign and utm fields of links as they go into the record. A link that is not the app's is missing. */
  async #linkFields(appId: string, events: readonly ReadEvent[]): Promise<Map<string, string>> {
    const ids = new Set(events.map(({ link_id }) => link_id).filter((id) => id !== ''));
    const found = await this.#links.ofApp(appId, [...ids]);
    const fields = new Map<string, string>();
    for (const id of ids) {
      const facts = found.get(id);
      // Not looked up, because Postgres is away: the event is kept all the same, its link as the app says.
      if (facts !== null) fields.set(id, facts ? fieldsOf(facts) : '');
    }
    return fields;
  }
}

const noLinks: ReadonlyMap<string, string> = new Map();
const attributed = ['campaign', 'utm_source', 'utm_medium', 'utm_campaign', 'utm_term', 'utm_content'] as const;

function fieldsOf(facts: LinkFacts): string {
  return attributed.map((name) => (facts[name] ? `,"${name}":${jsonText(facts[name])}` : '')).join('');
}

function foreignLink({ index, event_id }: ReadEvent): EventError {
  return { index, event_id, code: 'VALIDATION_ERROR', field: 'link_id', message: 'is no link of this app' };
}
