/**
 * Creates messages for the records that ingest has stored.
 *
 *   ingest: DELETE FROM ingest.batch, with the marks ──trigger──▶ webhook_batches ──▶ here: rows of the batch from ClickHouse
 *                                                                                  ──▶ webhook_messages, and the batch is deleted
 *
 * Invariant: the messages of a batch are added in the transaction that deletes it from webhook_batches. So each record
 * creates one message for each endpoint, whenever a process dies.
 *
 * Bounds: one batch at a time, which ingest limits; a batch that fails is postponed, so that it does not block others.
 */
import type { ClickHouse } from '#clickhouse/client.ts';
import { batchesBetween } from '#clickhouse/queries/batch-records.ts';
import { toJson } from '#common/exact-json.ts';
import { isObject } from '#common/json-object.ts';
import type { Log } from '#common/process/telemetry.ts';
import type { Postgres, Queries } from '#common/stores/postgres.ts';
import { isOutage } from './outage.ts';
import { type BatchPart, messagesOfBatch, type RecordMessage, type Subscriber } from './record-messages.ts';

const lookMs = 500;
/** Maximum per pass; the rest waits for the next pass. */
const batchesMax = 100;
const rowsAtOnce = 1_000;
const postponedMinutes = 5;

interface QueuedBatch {
  readonly log_partition: number;
  readonly batch_no: number;
  readonly batch_no_to: number;
  readonly parts: readonly BatchPart[];
  readonly owed_at: Date;
}

const next = `
  SELECT log_partition, batch_no, batch_no_to, parts, owed_at FROM webhook_batches
   WHERE due_at NOT BETWEEN now() AND now() + interval '${2 * postponedMinutes} minutes'
   ORDER BY log_partition, batch_no LIMIT 1 FOR UPDATE SKIP LOCKED`;
const remove = 'DELETE FROM webhook_batches WHERE log_partition = $1 AND batch_no = $2';
const subscribers = `
  SELECT id, organization_id, app_ids, events, event_names, campaigns FROM webhook_endpoints WHERE disabled_at IS NULL AND created_at <= $1`;
/** If an endpoint is deleted in the meantime, this fails, and the batch is read again without it. */
const insertion = `
  INSERT INTO webhook_messages (id, endpoint_id, organization_id, type, occurred_at, data)
  SELECT signpost_webhook_message_id(m.endpoint_id, m.fact), m.endpoint_id, m.organization_id, m.type, to_timestamp(m.occurred_ms / 1000.0), m.data
    FROM jsonb_to_recordset($1) AS m (endpoint_id text, organization_id text, type text, fact text, occurred_ms bigint, data jsonb)
  ON CONFLICT DO NOTHING`;

export interface FanOutParts {
  readonly db: Postgres;
  /** The server that ingest inserts into, because a replica may lack the newest rows. */
  readonly clickhouse: ClickHouse;
  readonly log: Pick<Log, 'warn' | 'info' | 'error'>;
}

export class FanOut {
  readonly name = 'fan-out';
  /** Since the start of the process. */
  readonly counters = { batches: 0, messages: 0, postponed: 0 };
  readonly #parts: FanOutParts;
  #timer: NodeJS.Timeout | undefined;
  #running: Promise<unknown> | undefined;
  #isUnavailable = false;
  #isStopping = false;

  constructor(parts: FanOutParts) {
    this.#parts = parts;
  }

  start(): void {
    this.#timer = setInterval(() => this.#begin(), lookMs);
    this.#begin();
  }

  async stop(): Promise<void> {
    this.#isStopping = true;
    clearInterval(this.#timer);
    await this.#running;
  }

  /** Creates the messages of every due batch. @returns the number of batches. Never rejects. */
  async pass(): Promise<number> {
    let done = 0;
    try {
      while (done < batchesMax && !this.#isStopping && (await this.#one())) done++;
      this.#note(true);
    } catch (err) {
      this.#note(false, err);
    }
    return done;
  }

  #begin(): void {
    this.#running ??= this.pass().finally(() => {
      this.#running = undefined;
    });
  }

  /** @returns whether there was a batch. @throws PostgresUnavailable, ClickHouseFailure */
  async #one(): Promise<boolean> {
    let batch: QueuedBatch | undefined;
    try {
      const added = await this.#parts.db.transaction(async (queries) => {
        [batch] = await queries.query<QueuedBatch>(next, [], 'next_webhook_batch');
        return batch === undefined ? 0 : await this.#expand(queries, batch);
      });
      if (batch === undefined) return false;
      this.counters.batches++;
      this.counters.messages += added;
      return true;
    } catch (err) {
      if (batch === undefined || isOutage(err)) throw err;
      await this.#postpone(batch, err);
      return true;
    }
  }

  async #expand(queries: Queries, batch: QueuedBatch): Promise<number> {
    const { clickhouse } = this.#parts;
    const { log_partition, batch_no, batch_no_to } = batch;
    await queries.execute(remove, [log_partition, batch_no], 'remove_webhook_batch');
    if (batch_no_to > batch_no) {
      const { sql, params } = batchesBetween(log_partition, batch_no, batch_no_to);
      const found = await clickhouse.query<{ batch_no: number }>(sql, params);
      await queries.execute(
        `INSERT INTO webhook_batches (log_partition, batch_no, batch_no_to, parts, owed_at)
         SELECT $1, no, no, '[]', $3 FROM unnest($2::bigint[]) AS no ON CONFLICT DO NOTHING`,
        [log_partition, found.map((one) => one.batch_no), batch.owed_at],
      );
      return 0;
    }
    const wanting = await queries.query<Subscriber>(subscribers, [batch.owed_at], 'webhook_subscribers');
    const messages = await messagesOfBatch(clickhouse, batch, wanting);
    let added = 0;
    for (let at = 0; at < messages.length; at += rowsAtOnce) {
      added += await queries.execute(insertion, [jsonOf(messages.slice(at, at + rowsAtOnce))], 'owe_webhooks');
    }
    return added;
  }

  async #postpone({ log_partition, batch_no }: QueuedBatch, err: unknown): Promise<void> {
    this.counters.postponed++;
    this.#parts.log.error(
      { err, log_partition, batch_no },
      'turning a batch into webhook messages failed; retrying later',
    );
    await this.#parts.db.execute(
      `UPDATE webhook_batches SET due_at = now() + interval '${postponedMinutes} minutes' WHERE log_partition = $1 AND batch_no = $2`,
      [log_partition, batch_no],
    );
  }

  #note(isAvailable: boolean, err?: unknown): void {
    if (isAvailable !== this.#isUnavailable) return;
    this.#isUnavailable = !isAvailable;
    if (isAvailable) this.#parts.log.info('records can be turned into webhook messages again');
    else this.#parts.log.warn({ err }, 'turning records into webhook messages failed; retrying');
  }
}

/** Removes what Postgres cannot store in JSON: NUL and unpaired surrogates. */
function jsonOf(messages: readonly RecordMessage[]): string {
  return toJson(messages, (value) => {
    if (typeof value === 'string') return storable(value);
    if (!isObject(value) || Object.keys(value).every((key) => storable(key) === key)) return value;
    return Object.fromEntries(Object.entries(value).map(([key, one]) => [storable(key), one]));
  });
}

const storable = (text: string) => text.replaceAll('\0', '\ufffd').toWellFormed();
