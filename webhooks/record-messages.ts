/** The messages that the records of a batch create for each endpoint. */
import type { ClickHouse } from '#clickhouse/client.ts';
import {
  type BatchPlace,
  clicksOfBatch,
  recordsOfBatch,
  type WebhookTable,
  webhookSettings,
} from '#clickhouse/queries/batch-records.ts';
import { parseExact } from '#common/exact-json.ts';
import { isObject } from '#common/json-object.ts';
import { CLICKS_MAX, refusedOutcomes, type WebhookEventType } from '#common/webhooks/webhook-events.ts';

export interface Subscriber {
  readonly id: string;
  readonly organization_id: string;
  readonly app_ids: readonly string[] | null;
  readonly events: readonly WebhookEventType[];
  readonly event_names: readonly string[] | null;
  /** Null: every one. */
  readonly campaigns: readonly string[] | null;
}

/** As ingest stores it. */
export interface BatchPart {
  readonly table: string;
  readonly time_from: number;
  readonly time_to: number;
}

export interface RecordMessage {
  readonly endpoint_id: string;
  readonly organization_id: string;
  readonly type: WebhookEventType;
  /** Forms the message id together with the endpoint, so that the same record always has the same message. */
  readonly fact: string;
  readonly occurred_ms: number;
  readonly data: object;
}

interface Batch {
  readonly log_partition: number;
  readonly batch_no: number;
  /** Empty if unknown. */
  readonly parts: readonly BatchPart[];
}

const eventsOf: Record<WebhookTable, readonly WebhookEventType[]> = {
  clicks: ['click.batch'],
  installs: ['install.recorded', 'install.attributed'],
  events: ['event.recorded', 'conversion.recorded'],
  matches: ['match.refused'],
};
const tables = Object.keys(eventsOf) as WebhookTable[];
/** The year 2200: later than any record. */
const END_MS = 7_258_118_400_000;

/** @throws ClickHouseFailure */
export async function messagesOfBatch(
  clickhouse: ClickHouse,
  batch: Batch,
  subscribers: readonly Subscriber[],
): Promise<RecordMessage[]> {
  const messages: RecordMessage[] = [];
  for (const table of tables) {
    const wanting = subscribers.filter(({ events }) => eventsOf[table].some((one) => events.includes(one)));
    const place = placeOf(batch, table);
    if (wanting.length === 0 || place === null) continue;
    messages.push(
      ...(table === 'clicks'
        ? await clickMessages(clickhouse, place, wanting)
        : await recordMessages(clickhouse, table, place, wanting)),
    );
  }
  return messages;
}

/** Null if the batch has no rows of the table. */
function placeOf({ log_partition, batch_no, parts }: Batch, table: WebhookTable): BatchPlace | null {
  if (parts.length === 0) return { log_partition, batch_no, from_ms: 0, to_ms: END_MS };
  const own = parts.filter((part) => part.table === table);
  if (own.length === 0) return null;
  const from_ms = Math.min(...own.map(({ time_from }) => time_from));
  return { log_partition, batch_no, from_ms, to_ms: Math.max(...own.map(({ time_to }) => time_to)) };
}

const idsOf = (subscribers: readonly Subscriber[]) => [...new Set(subscribers.map((one) => one.organization_id))];

const wants = ({ organization_id, app_ids }: Subscriber, row: { organization_id: string; app_id: string }) =>
  organization_id === row.organization_id && (app_ids === null || app_ids.includes(row.app_id));

interface ClickCount {
  readonly organization_id: string;
  readonly app_id: string;
  readonly clicks: number;
  readonly time_ms: number;
}

/** Only the position of the clicks: they are read when the message is sent. */
async function clickMessages(
  clickhouse: ClickHouse,
  place: BatchPlace,
  subscribers: readonly Subscriber[],
): Promise<RecordMessage[]> {
  const { sql, params } = clicksOfBatch(idsOf(subscribers), place);
  const counts = await clickhouse.query<ClickCount>(sql, params);
  return subscribers.flatMap((subscriber) => {
    const own = counts.filter((count) => wants(subscriber, count));
    const clicks = own.reduce((sum, count) => sum + count.clicks, 0);
    const occurred_ms = Math.max(0, ...own.map(({ time_ms }) => time_ms));
    return Array.from({ length: Math.ceil(clicks / CLICKS_MAX) }, (_, part): RecordMessage => {
      const { id: endpoint_id, organization_id, app_ids } = subscriber;
      const fact = `click.batch ${place.log_partition} ${place.batch_no} ${part}`;
      return {
        endpoint_id,
        organization_id,
        type: 'click.batch',
        fact,
        occurred_ms,
        data: { ...place, app_ids, part },
      };
    });
  });
}

interface RecordRow extends Readonly<Record<string, unknown>> {
  readonly organization_id: string;
  readonly app_id: string;
  readonly time_ms: number;
  readonly producer_id: string;
  readonly frame_no: number;
  readonly idx: number;
}

async function recordMessages(
  clickhouse: ClickHouse,
  table: Exclude<WebhookTable, 'clicks'>,
  place: BatchPlace,
  subscribers: readonly Subscriber[],
): Promise<RecordMessage[]> {
  const names = new Set(
    subscribers.flatMap(({ events, event_names }) => (events.includes('event.recorded') ? (event_names ?? []) : [])),
  );
  const filter = {
    organization_ids: idsOf(subscribers),
    names: [...names],
    hasConversions: subscribers.some(({ events }) => events.includes('conversion.recorded')),
    outcomes: refusedOutcomes,
  };
  const { sql, params } = recordsOfBatch(table, filter, place);
  const rows = await clickhouse.query<RecordRow>(sql, params, webhookSettings);
  // Each partition numbers the frames of a producer separately. Names for partition 0 have the form from before there
  // were several partitions.
  const partition = place.log_partition === 0 ? '' : ` ${place.log_partition}`;
  return rows.flatMap((row) => {
    const { organization_id, time_ms, producer_id, frame_no, idx, ...fields } = row;
    const data = 'properties' in fields ? { ...fields, properties: propertiesOf(fields['properties']) } : fields;
    return subscribers
      .filter((subscriber) => wants(subscriber, row))
      .flatMap((subscriber) =>
        eventsOf[table]
          .filter((type) => subscriber.events.includes(type) && isFact(type, row, subscriber))
          .map((type): RecordMessage => {
            const fact = `${type} ${producer_id} ${frame_no} ${idx}${partition}`;
            return { endpoint_id: subscriber.id, organization_id, type, fact, occurred_ms: time_ms, data };
          }),
      );
  });
}

function isFact(type: WebhookEventType, row: RecordRow, { event_names, campaigns }: Subscriber): boolean {
  if (campaigns !== null && !campaigns.includes(String(row['campaign']))) return false;
  if (type === 'install.attributed') return row['attributed'] === true;
  if (type === 'conversion.recorded') return row['is_conversion'] === true;
  if (type === 'event.recorded') return event_names?.includes(String(row['name'])) === true;
  return true;
}

function propertiesOf(text: unknown): object {
  try {
    const value: unknown = parseExact(String(text));
    return isObject(value) ? value : {};
  } catch {
    return {};
  }
}
