/**
 * Holds what leaves the installation, and sends it again. In a restored copy it is held from the start, because the
 * original may have sent it already (pg-migrations/0967_installation.sql).
 */
import type { Postgres } from '#common/stores/postgres.ts';
import { type Refused, refused } from './refusal.ts';

/** Mail is deleted after eight days (api/mail/mailer.ts), so what waited longer gets one more. */
const mailAge = '7 days';

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
 * @param discards drops what was due for things that happened before the hold, instead of sending it. Either way, what
 *   waited counts as new: it does not expire for its age, and no webhook for having failed before.
 */
export async function resumeOutbound(db: Postgres, discards: boolean): Promise<Resumed | Refused> {
  return await db.transaction(async (queries) => {
    await queries.execute('SELECT FROM signpost_installation()');
    const [state] = await queries.query<{ outbound_held_since: Date | null }>(
      'SELECT outbound_held_since FROM installation FOR UPDATE',
    );
    const since = state?.outbound_held_since ?? null;
    if (since === null) return refused('nothing is held: webhooks, postbacks and mail are sent');
    if (discards) {
      const batches = await queries.query('SELECT FROM webhook_batches LIMIT 1');
      if (batches.length > 0)
        return refused('records are still being turned into messages: run the command again in a minute');
    }
    const messages = await queries.query<{ is_postback: boolean; count: number }>(
      `WITH waiting AS (
         UPDATE webhook_messages m
            SET status = CASE WHEN $1 THEN 'failed' ELSE 'pending' END, due_at = now(), lease = NULL,
                created_at = CASE WHEN $1 THEN m.created_at ELSE now() END
           FROM webhook_endpoints e WHERE e.id = m.endpoint_id AND m.status = 'pending' AND (NOT $1 OR m.occurred_at < $2)
         RETURNING e.postback_method IS NOT NULL AS is_postback
       ) SELECT is_postback, count(*) AS count FROM waiting GROUP BY is_postback`,
      [discards, since],
    );
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
    await queries.execute('UPDATE webhook_endpoints SET failing_since = NULL WHERE failing_since IS NOT NULL');
    await queries.execute('UPDATE installation SET outbound_held_since = NULL, store = signpost_store()');
    return {
      kind: 'resumed',
      held_since: since.toISOString(),
      webhooks: messages.find(({ is_postback }) => !is_postback)?.count ?? 0,
      postbacks: messages.find(({ is_postback }) => is_postback)?.count ?? 0,
      mails: mails.find(({ is_expired }) => !is_expired)?.count ?? 0,
      expired_mails: mails.find(({ is_expired }) => is_expired)?.count ?? 0,
      are_discarded: discards,
    };
  });
}
