/**
 * Messages in Postgres, and the only SQL of this room.
 *
 *   pending ──claim──▶ pending with a lease ──▶ delivered
 *      ▲                    │        └────────▶ failed (after the last attempt, or when the endpoint is gone)
 *      └──── later, or when the lease has ended ┘
 *
 * Several processes share the work: a claimed message has a lease, and if the process dies, another one delivers the
 * message when the lease has ended. So a message is delivered at least once. All times but those of attempts are by
 * Postgres' clock, so that a process with a wrong clock postpones, disables, and deletes nothing.
 */
import { DAY_MS } from '#common/durations.ts';
import type { Postgres, Queries } from '#common/stores/postgres.ts';
import type { PostbackMethod } from '#common/webhooks/postback-template.ts';
import type { DisabledReason } from '#common/webhooks/webhook-events.ts';
import { delayMsMax, failingMsMax } from './schedule.ts';

/** Longer than an attempt may take, including the writes after it. */
export const leaseMs = 60_000;
/** Messages that are delivered to one endpoint at a time, by all processes together (two may exceed it for a moment). */
const perEndpointMax = 5;
/** Limit for a failing endpoint, so that it does not occupy connections that others need. */
const perFailingEndpointMax = 1;
/** Limit for all endpoints of one organization. */
const perOrganizationMax = 20;
/** Messages and attempts are kept for this time, pending messages too. */
export const keptMs = 30 * DAY_MS;
/** Pending messages of one endpoint, beyond which it is disabled. */
const pendingMax = 100_000;
const rowsAtOnce = 5_000;
/** Rows of before it are deleted. */
const oldest = `signpost_deletion_time() - interval '${keptMs} milliseconds'`;
/** When a restored copy was told to send what it held; it cannot have been later than now. */
const resumedAt = `(SELECT coalesce(max(outbound_resumed_at) FILTER (WHERE outbound_resumed_at <= now()), '-infinity') FROM installation)`;

export interface ClaimedMessage {
  readonly id: string;
  readonly endpoint_id: string;
  readonly organization_id: string;
  readonly type: string;
  readonly occurred_at: Date;
  readonly data: Readonly<Record<string, unknown>>;
  readonly tries: number;
  readonly lease: string;
  /** The apps of the endpoint; null: all. */
  readonly app_ids: readonly string[] | null;
  /** Whether it is about these apps; they may have been changed after it was created. */
  readonly is_for_apps: boolean;
  readonly url: string;
  /** Null for a postback. */
  readonly secret_ciphertext: string | null;
  /** Null if it is no longer valid. */
  readonly previous_secret_ciphertext: string | null;
  /** Null for a webhook. A postback's URL and body are templates. */
  readonly postback_method: PostbackMethod | null;
  readonly postback_body: string | null;
}

export interface Attempt {
  readonly message: ClaimedMessage;
  readonly attemptedMs: number;
  readonly durationMs: number;
  readonly outcome: string;
  readonly httpStatus: number | null;
  readonly answer: string;
}

export interface UncoveredLot {
  readonly looked: number;
  readonly deleted: number;
  readonly skipped: number;
  readonly next: MessagePlace | null;
}

/**
 * Takes the oldest messages of each endpoint in turn: with few free slots, every organization gets its first message
 * before any gets a second.
 */
const claim = `
  WITH free AS (
    SELECT e.id, e.organization_id,
           CASE WHEN e.failing_since IS NULL THEN ${perEndpointMax} ELSE ${perFailingEndpointMax} END
             - (SELECT count(*) FROM webhook_messages l WHERE l.endpoint_id = e.id AND l.lease IS NOT NULL AND l.due_at > now()) AS places
      FROM webhook_endpoints e WHERE e.disabled_at IS NULL
  ), due AS (
    SELECT d.id, f.organization_id, d.due_at FROM free f CROSS JOIN LATERAL (
      SELECT m.id, m.due_at FROM webhook_messages m
       WHERE m.endpoint_id = f.id AND m.status = 'pending' AND m.due_at <= now()
       ORDER BY m.due_at LIMIT greatest(f.places, 0) FOR UPDATE SKIP LOCKED) AS d
  ), busy AS (
    SELECT organization_id, count(*) AS leased FROM webhook_messages WHERE lease IS NOT NULL AND due_at > now() GROUP BY organization_id
  ), turns AS (
    SELECT id, due_at, coalesce(leased, 0) + row_number() OVER (PARTITION BY organization_id ORDER BY due_at, id) AS turn
      FROM due LEFT JOIN busy USING (organization_id)
  )
  UPDATE webhook_messages m SET lease = $1, due_at = now() + interval '${leaseMs} milliseconds'
    FROM (SELECT id FROM turns WHERE turn <= ${perOrganizationMax} ORDER BY turn, due_at LIMIT $2) AS t, webhook_endpoints e
   WHERE m.id = t.id AND e.id = m.endpoint_id
  RETURNING m.id, m.endpoint_id, m.organization_id, m.type, m.occurred_at, m.data, m.tries, m.lease,
            e.app_ids, signpost_is_message_for(e.app_ids, m.type, m.data) AS is_for_apps, e.url, e.secret_ciphertext,
            CASE WHEN e.previous_secret_until > now() THEN e.previous_secret_ciphertext END AS previous_secret_ciphertext,
            e.postback_method, e.postback_body`;

/** Locks the endpoint, and then the message, so that neither is deleted before the attempt is stored. */
const noteAttempt = `
  WITH endpoint AS MATERIALIZED (
    SELECT id, organization_id FROM webhook_endpoints WHERE id = $1 FOR KEY SHARE
  ), message AS MATERIALIZED (
    SELECT id FROM webhook_messages WHERE id = $2 AND EXISTS (SELECT FROM endpoint) FOR NO KEY UPDATE
  )
  INSERT INTO webhook_attempts (endpoint_id, organization_id, message_id, type, url, attempted_at, duration_ms, outcome, http_status, answer)
  SELECT e.id, e.organization_id, m.id, $3, $4, $5, $6, $7, $8, $9 FROM endpoint e, message m`;

/** A place in the messages of an endpoint, from the newest to the oldest. */
export interface MessagePlace {
  /** As Postgres writes it, because a Date has no microseconds. */
  readonly createdAt: string;
  readonly id: string;
}

/** Locked messages are skipped, to avoid deadlocks. */
const deleteUncovered = `
  WITH looked AS (
    SELECT m.id, m.created_at, signpost_is_message_for(e.app_ids, m.type, m.data) AS is_covered
      FROM webhook_messages m JOIN webhook_endpoints e ON e.id = m.endpoint_id
     WHERE m.endpoint_id = $1 AND (m.created_at, m.id) < ($2::timestamptz, $3)
     ORDER BY m.created_at DESC, m.id DESC LIMIT $4
  ), free AS (
    SELECT id FROM webhook_messages WHERE id IN (SELECT id FROM looked WHERE NOT is_covered) FOR UPDATE SKIP LOCKED
  ), deleted AS (
    DELETE FROM webhook_messages m USING free f WHERE m.id = f.id RETURNING m.id
  )
  SELECT count(*) AS looked, count(*) FILTER (WHERE NOT is_covered) AS uncovered,
         ARRAY(SELECT id FROM deleted) AS deleted, min(created_at)::text AS created_at, (array_agg(id ORDER BY created_at, id))[1] AS id
    FROM looked`;

export class MessageStore {
  readonly #db: Pick<Postgres, 'query' | 'execute' | 'transaction'>;

  constructor(db: Pick<Postgres, 'query' | 'execute' | 'transaction'>) {
    this.#db = db;
  }

  /** Leases up to `max` due messages. */
  claim(lease: string, max: number): Promise<ClaimedMessage[]> {
    return this.#db.query<ClaimedMessage>(claim, [lease, max], 'claim_webhooks');
  }

  /** Releases a message whose attempt was aborted. */
  async release({ id, lease }: ClaimedMessage): Promise<void> {
    await this.#db.execute(
      'UPDATE webhook_messages SET lease = NULL, due_at = now() WHERE id = $1 AND lease = $2',
      [id, lease],
      'release_webhook',
    );
  }

  /** Deletes a message that its endpoint no longer gets. */
  async remove({ id, lease }: ClaimedMessage): Promise<void> {
    await this.#db.transaction(async (queries) => {
      const sql = 'DELETE FROM webhook_messages WHERE id = $1 AND lease = $2 RETURNING id';
      const removed = await queries.query(sql, [id, lease], 'remove_webhook');
      if (removed.length > 0) await queries.execute('DELETE FROM webhook_attempts WHERE message_id = $1', [id]);
    });
  }

  /**
   * Endpoints that are limited to some apps, those that were changed last first. `apps` changes with the apps.
   */
  limitedEndpoints(): Promise<{ readonly id: string; readonly apps: string }[]> {
    return this.#db.query(
      'SELECT id, md5(app_ids::text) AS apps FROM webhook_endpoints WHERE app_ids IS NOT NULL ORDER BY updated_at DESC',
    );
  }

  /**
   * Looks at the next messages of an endpoint after a place, and deletes those of apps that it does not cover.
   * @returns how many it looked at and deleted, how many it had to skip, and the next place; null: these were the last.
   */
  deleteUncovered(endpointId: string, after: MessagePlace | null, rows = rowsAtOnce): Promise<UncoveredLot> {
    return this.#db.transaction(async (queries) => {
      const values = [endpointId, after?.createdAt ?? 'infinity', after?.id ?? '', rows];
      const [lot] = await queries.query<{
        looked: number;
        uncovered: number;
        deleted: string[];
        created_at: string;
        id: string;
      }>(deleteUncovered, values, 'delete_uncovered_webhooks');
      if (!lot) throw new Error('Postgres returned no counts');
      const { looked, uncovered, deleted, created_at: createdAt, id } = lot;
      // A statement of its own, so that it sees the attempts that were stored until the messages were locked.
      if (deleted.length > 0)
        await queries.execute('DELETE FROM webhook_attempts WHERE message_id = ANY ($1)', [deleted]);
      const next = looked < rows ? null : { createdAt, id };
      return { looked, deleted: deleted.length, skipped: uncovered - deleted.length, next };
    });
  }

  async delivered(attempt: Attempt): Promise<void> {
    const { id, lease, endpoint_id } = attempt.message;
    await this.#db.transaction(async (queries) => {
      // The endpoint is locked before its message, as by those who change or delete the endpoint.
      await queries.execute(
        'UPDATE webhook_endpoints SET failing_since = NULL WHERE id = $1 AND failing_since IS NOT NULL',
        [endpoint_id],
        'webhook_succeeds',
      );
      await keepAttempt(queries, attempt);
      await queries.execute(
        `UPDATE webhook_messages SET status = 'delivered', tries = tries + 1, lease = NULL WHERE id = $1 AND lease = $2`,
        [id, lease],
        'webhook_delivered',
      );
    });
  }

  /** Outcome of a message whose clicks are no longer stored. It does not count for or against its endpoint. */
  abandoned(attempt: Attempt): Promise<void> {
    const { id, lease } = attempt.message;
    return this.#db.transaction(async (queries) => {
      await keepAttempt(queries, attempt);
      const sql = `UPDATE webhook_messages SET status = 'failed', tries = tries + 1, lease = NULL WHERE id = $1 AND lease = $2`;
      await queries.execute(sql, [id, lease], 'webhook_abandoned');
    });
  }

  /** Outcome of a message that our own processing failed. It does not count for or against its endpoint. */
  unprocessed(attempt: Attempt, delayMs: number | null): Promise<void> {
    return this.#db.transaction(async (queries) => {
      await keepAttempt(queries, attempt);
      await retryOrFail(queries, attempt.message, delayMs);
    });
  }

  /**
   * If the endpoint must be disabled, that happens in the same transaction, because there may be no later attempt that
   * would do it.
   *
   * @param delayMs until the next attempt starts; null: there is none.
   * @returns why the endpoint was disabled; undefined if it was not.
   */
  failed(attempt: Attempt, delayMs: number | null): Promise<DisabledReason | undefined> {
    const { endpoint_id } = attempt.message;
    return this.#db.transaction(async (queries) => {
      const [row] = await queries.query<{ is_failing: boolean }>(
        `UPDATE webhook_endpoints SET failing_since = greatest(created_at, least(failing_since, now())) WHERE id = $1
         RETURNING failing_since <= least(now(), signpost_deletion_time()) - interval '${failingMsMax} milliseconds' AS is_failing`,
        [endpoint_id],
        'webhook_fails',
      );
      await keepAttempt(queries, attempt);
      await retryOrFail(queries, attempt.message, delayMs);
      // The endpoint was deleted in the meantime.
      if (row === undefined) return undefined;
      const reason = attempt.httpStatus === 410 ? 'gone' : row.is_failing ? 'failing' : undefined;
      if (reason === undefined) return undefined;
      return (await disableEndpoint(queries, endpoint_id, reason)) ? reason : undefined;
    });
  }

  /**
   * Disables an endpoint and adds a message for the other endpoints of its organization. @returns whether it was
   * enabled.
   */
  disable(endpointId: string, reason: DisabledReason): Promise<boolean> {
    return this.#db.transaction((queries) => disableEndpoint(queries, endpointId, reason));
  }

  /** Endpoints with too many pending messages, not counting what a restored copy held. */
  async overfull(max = pendingMax): Promise<string[]> {
    const rows = await this.#db.query<{ endpoint_id: string }>(
      `SELECT endpoint_id FROM webhook_messages WHERE status = 'pending' AND created_at > ${resumedAt} GROUP BY endpoint_id HAVING count(*) > $1`,
      [max],
    );
    return rows.map(({ endpoint_id }) => endpoint_id);
  }

  /**
   * Fails the waiting messages of an endpoint that was disabled for its backlog, so that it is not disabled again right
   * after it is enabled.
   */
  failBacklogs(): Promise<number> {
    return this.#db.execute(
      `UPDATE webhook_messages SET status = 'failed', lease = NULL WHERE id IN (
         SELECT m.id FROM webhook_messages m JOIN webhook_endpoints e ON e.id = m.endpoint_id
          WHERE m.status = 'pending' AND e.disabled_reason = 'backlog' LIMIT ${rowsAtOnce} FOR UPDATE OF m SKIP LOCKED)`,
    );
  }

  /**
   * Fails the pending messages of an endpoint beyond the maximum, the last ones that are due. @returns their number.
   */
  failBeyond(endpointId: string, max = pendingMax): Promise<number> {
    return this.#db.execute(
      `UPDATE webhook_messages SET status = 'failed', lease = NULL WHERE status = 'pending' AND id IN (
         SELECT id FROM webhook_messages WHERE endpoint_id = $1 AND status = 'pending' ORDER BY due_at, id OFFSET $2 LIMIT ${rowsAtOnce})`,
      [endpointId, max],
    );
  }

  /**
   * Makes messages due that would be due later than any attempt is postponed: the clock of Postgres was ahead when they
   * were written. @returns their number.
   */
  dueNow(): Promise<number> {
    return this.#db.execute(
      `UPDATE webhook_messages SET due_at = now(), lease = NULL
        WHERE status = 'pending' AND due_at > now() + CASE WHEN lease IS NULL THEN interval '${2 * delayMsMax} milliseconds'
                                                           ELSE interval '${2 * leaseMs} milliseconds' END`,
    );
  }

  /** Deletes what is old and waits. What a restored copy held counts from when it was resumed. @returns the number of rows. */
  async deleteOldWaiting(): Promise<number> {
    const batches = await this.#db.execute(
      `DELETE FROM webhook_batches WHERE (log_partition, batch_no) IN (
         SELECT log_partition, batch_no FROM webhook_batches
          WHERE greatest(owed_at, ${resumedAt}) < (SELECT ${oldest}) LIMIT ${rowsAtOnce} FOR UPDATE SKIP LOCKED)`,
    );
    return batches + (await this.#deleteOld('webhook_messages', `status = 'pending' AND ${resumedAt} < ${oldest}`));
  }

  /** Deletes what is old and has ended. @returns the number of rows. */
  async deleteOldEnded(): Promise<number> {
    const messages = await this.#deleteOld('webhook_messages', `status <> 'pending'`);
    return messages + (await this.#deleteOld('webhook_attempts', 'true'));
  }

  #deleteOld(table: 'webhook_messages' | 'webhook_attempts', condition: string): Promise<number> {
    return this.#db.execute(
      `DELETE FROM ${table} WHERE id IN (SELECT id FROM ${table} WHERE created_at < ${oldest} AND ${condition}
         ORDER BY created_at LIMIT ${rowsAtOnce} FOR UPDATE SKIP LOCKED)`,
    );
  }

  /**
   * Number of messages that wait for enabled endpoints, and since when the oldest is due. A failing endpoint delays
   * only its own messages, so it does not count.
   */
  async backlog(): Promise<{ readonly pending: number; readonly overdueMs: number }> {
    const [row] = await this.#db.query<{ pending: number; overdueMs: number | null }>(
      `SELECT count(*) AS pending,
              extract(epoch FROM now() - min(m.due_at) FILTER (WHERE e.failing_since IS NULL))::float8 * 1000 AS "overdueMs"
         FROM webhook_messages m
         JOIN webhook_endpoints e ON e.id = m.endpoint_id AND e.disabled_at IS NULL WHERE m.status = 'pending'`,
    );
    return { pending: row?.pending ?? 0, overdueMs: Math.max(0, row?.overdueMs ?? 0) };
  }
}

/** Nothing of a deleted endpoint or message is kept. */
async function keepAttempt(queries: Queries, attempt: Attempt): Promise<void> {
  const { message, attemptedMs, durationMs, outcome, httpStatus, answer } = attempt;
  const { endpoint_id, id, type, url } = message;
  await queries.execute(
    noteAttempt,
    [endpoint_id, id, type, url, new Date(attemptedMs), durationMs, outcome, httpStatus, answer],
    'note_webhook_attempt',
  );
}

async function retryOrFail(queries: Queries, { id, lease }: ClaimedMessage, delayMs: number | null): Promise<void> {
  await queries.execute(
    `UPDATE webhook_messages SET status = CASE WHEN $3::float8 IS NULL THEN 'failed' ELSE 'pending' END,
            due_at = coalesce(now() + $3 * interval '1 millisecond', due_at), tries = tries + 1, lease = NULL WHERE id = $1 AND lease = $2`,
    [id, lease, delayMs],
    'webhook_failed',
  );
}

async function disableEndpoint(queries: Queries, endpointId: string, reason: DisabledReason): Promise<boolean> {
  const [disabled] = await queries.query<{
    id: string;
    url: string;
    organization_id: string;
    app_ids: string[] | null;
  }>(
    `UPDATE webhook_endpoints SET disabled_at = now(), disabled_reason = $2, updated_at = now()
      WHERE id = $1 AND disabled_at IS NULL RETURNING id, url, organization_id, app_ids`,
    [endpointId, reason],
  );
  if (!disabled) return false;
  const { id, url, organization_id, app_ids } = disabled;
  await queries.execute(
    `INSERT INTO webhook_messages (id, endpoint_id, organization_id, type, occurred_at, data, due_at)
     SELECT signpost_webhook_message_id(id, gen_random_uuid()::text), id, organization_id, 'endpoint.disabled', now(), $2, now()
       FROM webhook_endpoints WHERE organization_id = $1 AND disabled_at IS NULL AND 'endpoint.disabled' = ANY (events)
        AND (app_ids IS NULL OR $3::text[] <@ app_ids)`,
    [organization_id, JSON.stringify({ id, url, reason }), app_ids],
  );
  return true;
}
