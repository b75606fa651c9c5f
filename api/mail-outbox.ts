/**
 * Adds mail to what is owed, in the transaction of what the mail is about. The mailer sends it.
 *
 * Bounds: `limits` per recipient, per sender and in total; beyond them no mail is owed, and the caller says so.
 */
import type { Encryption } from '#common/encryption.ts';
import { newId } from '#common/ids.ts';
import type { Queries } from '#common/stores/postgres.ts';
import type { MailContent } from './mail-texts.ts';

/** What the endpoints use of mail. */
export interface MailParts {
  /** Whether there is a mail server: without one, no mail is owed. */
  readonly isConfigured: boolean;
  readonly encryption: Encryption;
  /** Has this process send what is owed. */
  readonly wake: () => void;
}

const limits = {
  /** Mails to one address in an hour and in a day, of each kind, so that one kind cannot use up the other. */
  recipientPerHour: 5,
  recipientPerDay: 20,
  /** Mails that one organization causes in a day. */
  senderPerDay: 200,
  /** Mails that wait to be sent. */
  waiting: 10_000,
} as const;

export interface OwedMail {
  readonly recipient: string;
  /** The organization that causes it; empty for none. */
  readonly senderId: string;
  /** The row that has the link's hash: when it is deleted, the mail is not sent. */
  readonly subjectId: string;
  readonly content: MailContent;
  readonly expiresAt: Date;
}

export function mailContext(id: string): string {
  return `mail:${id}`;
}

// Two statements: the second sees what the holder of the lock has added.
const lock = `SELECT pg_advisory_xact_lock(hashtextextended('signpost:mail', 0))`;
const insertion = `
  INSERT INTO mails (id, kind, recipient, sender_id, subject_id, content_ciphertext, expires_at)
  SELECT $1, $2, $3, $4, $5, $6, $7
   WHERE (SELECT count(*) FROM mails WHERE recipient = $3 AND kind = $2 AND created_at > now() - interval '1 hour') < ${limits.recipientPerHour}
     AND (SELECT count(*) FROM mails WHERE recipient = $3 AND kind = $2 AND created_at > now() - interval '1 day') < ${limits.recipientPerDay}
     AND ($4 = '' OR (SELECT count(*) FROM mails WHERE sender_id = $4 AND created_at > now() - interval '1 day') < ${limits.senderPerDay})
     AND (SELECT count(*) FROM (SELECT FROM mails WHERE state = 'waiting' LIMIT ${limits.waiting}) AS w) < ${limits.waiting}
  RETURNING id`;

/** @returns false if a limit is reached: no mail is owed then. */
export async function oweMail(queries: Queries, encryption: Encryption, mail: OwedMail): Promise<boolean> {
  const id = newId('eml', Date.now());
  const { recipient, senderId, subjectId, content, expiresAt } = mail;
  const sealed = encryption.encrypt(JSON.stringify(content), mailContext(id));
  await queries.query(lock, [], 'mail_lock');
  const values = [id, content.kind, recipient, senderId, subjectId, sealed, expiresAt];
  return (await queries.query(insertion, values, 'mail_owe')).length > 0;
}
