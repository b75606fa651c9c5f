/**
 * Holds what leaves the installation, and sends it again. In a restored copy it is held from the start, because the
 * original may have sent it already (pg-migrations/0967_installation.sql).
 */
import type { Postgres, Queries } from '#common/stores/postgres.ts';
import { type Refused, refused } from './refusal.ts';

/** Mail is deleted after eight days (api/mail/mailer.ts), so what waited longer gets one more. */
const mailAge = '7 days';
const rowsAtOnceMax = 10_000;

export interface Resumed {
  readonly kind: 'resumed';
  readonly held_since: string;
  readonly webhooks: number;
  readonly postbacks: number;
  readonly mails: number;
  /** Mails whose link has expired: they are not sent. */
  readonly expired_mails: number;
  readonly are_discarded: boolean;
}

export async function holdOutbound(db: Postgres): Promise<void> {
  await db.execute('UPDATE installation SET outbound_held_since = coalesce(outbound_held_since, now())');
}

/**
 * The hold ends last, so a command that was interrupted is repeated: it goes on with what is left.
 * @param discards drops what was due for things that happened before the hold, instead of sending it; the counts are those
 *   of this call. Otherwise, what waited counts as new: it does not expire for its age, and no webhook for having failed
 *   before.
 */
export async function resumeOutbound(
  db: Postgres,
  discards: boolean,
  rowsAtOnce = rowsAtOnceMax,
): Promise<Resumed | Refused> {
  const nothing = refused('nothing is held: webhooks, postbacks and mail are sent');
  const [state] = await db.query<{ outbound_held_since: Date | null }>(
    'SELECT outbound_held_since FROM signpost_installation()',
  );
  const since = state?.outbound_held_since ?? null;
  if (since === null) return nothing;
  if (discards && (await db.query('SELECT FROM webhook_batches LIMIT 1')).length > 0)
    return refused('records are still being turned into messages: run the command again in a minute');
  const endpoints = await db.query<{ id: string; is_postback: boolean }>(
    'SELECT id, postback_method IS NOT NULL AS is_postback FROM webhook_endpoints',
  );
  const messages = { webhooks: 0, postbacks: 0 };
  for (const { id, is_postback } of endpoints) {
    const count = discards ? await discardMessages(db, id, since, rowsAtOnce) : await waitingMessages(db, id);
    messages[is_postback ? 'postbacks' : 'webhooks'] += count;
  }
  return await db.transaction(async (queries) => {
    const ended = await queries.execute(
      `UPDATE installation SET outbound_held_since = NULL, outbound_resumed_at = now(), store = signpost_store()
        WHERE outbound_held_since IS NOT NULL`,
    );
    if (ended === 0) return nothing;
    const mails = await resumeMails(queries, discards, since);
    await queries.execute('UPDATE webhook_endpoints SET failing_since = NULL WHERE failing_since IS NOT NULL');
    return { kind: 'resumed', held_since: since.toISOString(), ...messages, ...mails, are_discarded: discards };
  });
}

async function waitingMessages(db: Postgres, endpointId: string): Promise<number> {
  const sql = `SELECT count(*) AS count FROM webhook_messages WHERE endpoint_id = $1 AND status = 'pending'`;
  const [row] = await db.query<{ count: number }>(sql, [endpointId]);
  return row?.count ?? 0;
}

/** In statements of its own, each within the time limit of a statement. @returns the number of messages. */
async function discardMessages(db: Postgres, endpointId: string, since: Date, rowsAtOnce: number): Promise<number> {
  let discarded = 0;
  for (let rows = rowsAtOnce; rows === rowsAtOnce; discarded += rows)
    rows = await db.execute(
      `UPDATE webhook_messages SET status = 'failed', due_at = now(), lease = NULL WHERE status = 'pending' AND id IN (
         SELECT id FROM webhook_messages WHERE endpoint_id = $1 AND status = 'pending' AND occurred_at < $2 LIMIT $3)`,
      [endpointId, since, rowsAtOnce],
    );
  return discarded;
}

async function resumeMails(queries: Queries, discards: boolean, since: Date) {
  const mails = await queries.query<{ is_expired: boolean; count: number }>(
    `WITH waiting AS (
       UPDATE mails SET due_at = now(), created_at = greatest(created_at, now() - interval '${mailAge}'),
              state = CASE WHEN $1 THEN 'failed' ELSE state END, failure = CASE WHEN $1 THEN 'discarded' ELSE failure END,
              content_ciphertext = CASE WHEN $1 THEN NULL ELSE content_ciphertext END
        WHERE state = 'waiting' AND (NOT $1 OR created_at < $2)
       RETURNING expires_at <= now() AS is_expired
     ) SELECT is_expired, count(*) AS count FROM waiting GROUP BY is_expired`,
    [discards, since],
  );
  const countOf = (isExpired: boolean) => mails.find(({ is_expired }) => is_expired === isExpired)?.count ?? 0;
  return { mails: countOf(false), expired_mails: countOf(true) };
}
