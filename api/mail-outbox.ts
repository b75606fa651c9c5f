/**
 * Adds mail to the outbox, in the transaction of the change that the mail is about. The mailer sends it.
 *
 * Bounds: `limits` per recipient, per sender and in total; beyond them no mail is added, and the caller reports it. One
 * mail an hour is always added, so that no one else can use up a person's mails. Networks from which the recipient
 * logs in do not count as strangers.
 */
import type { Encryption } from '#common/encryption.ts';
import { newId } from '#common/ids.ts';
import type { Queries } from '#common/stores/postgres.ts';
import type { MailContent } from './mail-texts.ts';

/** The part of the mail system that endpoints use. */
export interface MailParts {
  /** Whether there is a mail server; without one, no mail is added. */
  readonly isConfigured: boolean;
  readonly encryption: Encryption;
  /** Makes this process send waiting mail. */
  readonly wake: () => void;
  /** Counts a mail that a limit prevented. */
  readonly countLimited: () => void;
}

const limits = {
  /**
   * Maximum mails to one address because of requests from one network per hour and per day, for each kind, so that one
   * kind cannot use up the limit of another.
   */
  requesterPerHour: 5,
  requesterPerDay: 20,
  /** The same for all networks of strangers together. */
  recipientPerHour: 15,
  recipientPerDay: 60,
  /** Maximum mails caused by one organization per day. */
  senderPerDay: 200,
  /** Maximum waiting mails. */
  waiting: 10_000,
} as const;

export interface OutgoingMail {
  readonly recipient: string;
  /** The organization that causes the mail; empty for none. */
  readonly senderId: string;
  /** The row with the link's hash; if it is deleted, the mail is not sent. */
  readonly subjectId: string;
  readonly content: MailContent;
  readonly expiresAt: Date;
  /** The name of the network that causes the mail; empty if it does not matter. */
  readonly requester?: string;
}

/** Of the requester, if the recipient logs in from there. */
export const KNOWN = 'known:';

export function mailContext(id: string): string {
  return `mail:${id}`;
}

// Two statements, so that the second sees what the previous holder of the lock added.
const lock = `SELECT pg_advisory_xact_lock(hashtextextended('signpost:mail', 0))`;
const counted = `
  SELECT count(*) FILTER (WHERE is_recent) AS hour, count(*) AS day,
         count(*) FILTER (WHERE is_recent AND requester = $8) AS own_hour, count(*) FILTER (WHERE requester = $8) AS own_day
    FROM (SELECT requester, created_at BETWEEN now() - interval '1 hour' AND now() + interval '1 hour' AS is_recent FROM mails
           WHERE recipient = $3 AND kind = $2 AND created_at BETWEEN now() - interval '1 day' AND now() + interval '1 day'
             AND (requester = $8 OR ($8 NOT LIKE '${KNOWN}%' AND requester NOT LIKE '${KNOWN}%'))) AS m`;
const insertion = `
  INSERT INTO mails (id, kind, recipient, sender_id, subject_id, content_ciphertext, expires_at, requester)
  SELECT $1, $2, $3, $4, $5, $6, $7, $8 FROM (${counted}) AS c
   WHERE (c.hour = 0 OR (c.hour < ${limits.recipientPerHour} AND c.day < ${limits.recipientPerDay}
           AND c.own_hour < ${limits.requesterPerHour} AND c.own_day < ${limits.requesterPerDay}))
     AND ($4 = '' OR (SELECT count(*) FROM mails WHERE sender_id = $4 AND created_at BETWEEN now() - interval '1 day' AND now() + interval '1 day') < ${limits.senderPerDay})
     AND (SELECT count(*) FROM (SELECT FROM mails WHERE state = 'waiting' LIMIT ${limits.waiting}) AS w) < ${limits.waiting}
  RETURNING id`;

/** @returns false if a limit is reached and no mail was added. */
export async function addMail(queries: Queries, encryption: Encryption, mail: OutgoingMail): Promise<boolean> {
  const id = newId('eml', Date.now());
  const { recipient, senderId, subjectId, content, expiresAt, requester = '' } = mail;
  const sealed = encryption.encrypt(JSON.stringify(content), mailContext(id));
  await queries.query(lock, [], 'mail_lock');
  const values = [id, content.kind, recipient, senderId, subjectId, sealed, expiresAt, requester];
  return (await queries.query(insertion, values, 'mail_owe')).length > 0;
}
