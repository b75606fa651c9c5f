/**
 * Sends the mail in the outbox (mail-outbox.ts), and deletes old mail.
 *
 *   waiting ──accepted by the mail server──▶ sent
 *      └──refused for good, expired, withdrawn, or `attemptsMax` attempts──▶ failed
 *
 * An attempt is counted before it starts, and its mail is not due again until the lease ends: only one of several
 * processes sends a mail, and a process that dies during an attempt uses up that attempt. If the mail server's response
 * is lost, a mail may arrive more than once, at most `attemptsMax` times.
 *
 * Bounds: `atOnce` mails at a time, `attemptsMax` attempts, `keptDays`.
 */

import { mailContext } from '#api/mail-outbox.ts';
import { type MailContent, mailText } from '#api/mail-texts.ts';
import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from '#common/durations.ts';
import type { Encryption } from '#common/encryption.ts';
import type { Log } from '#common/process/telemetry.ts';
import { Worker, type WorkerTime } from '#common/process/worker.ts';
import type { Postgres } from '#common/stores/postgres.ts';
import type { SendMail } from './smtp.ts';

const lookMs = 2_000;
const forgetMs = 10 * MINUTE_MS;
const atOnce = 4;
const leaseMs = 2 * MINUTE_MS;
/** Delay after each failed attempt; half a day in total. */
const delaysMs = [
  ...[30 * SECOND_MS, 2 * MINUTE_MS, 5 * MINUTE_MS, 15 * MINUTE_MS],
  ...[HOUR_MS, 3 * HOUR_MS, 8 * HOUR_MS],
];
export const attemptsMax = delaysMs.length + 1;
/** A later time was written by a Postgres whose clock was ahead: the mail is due. */
const dueMsMax = 2 * Math.max(leaseMs, ...delaysMs);
/** Longer than a link is valid, and longer than the period of any limit. */
const keptDays = 8;
const forgottenMax = 1_000;
/** Time that running attempts have when the process stops. */
const drainMs = 5_000;

interface ClaimedMail {
  readonly id: string;
  readonly recipient: string;
  readonly content_ciphertext: string;
  readonly attempts: number;
  readonly is_expired: boolean;
}

/** A mail that only now() calls expired waits: that clock may be ahead, and a dead link must not be sent. */
const claim = `
  UPDATE mails SET attempts = attempts + 1, due_at = now() + interval '${leaseMs} milliseconds'
   WHERE id IN (SELECT id FROM mails WHERE state = 'waiting' AND (due_at <= now() OR due_at > now() + interval '${dueMsMax} milliseconds')
                   AND (expires_at > now() OR expires_at <= signpost_deletion_time())
                 ORDER BY due_at LIMIT $1 FOR UPDATE SKIP LOCKED)
  RETURNING id, recipient, content_ciphertext, attempts, expires_at <= signpost_deletion_time() AS is_expired`;
/** Applies only to the latest attempt, so that a process whose lease has ended changes nothing. */
const mine = `WHERE id = $1 AND attempts = $2 AND state = 'waiting'`;
const end = `UPDATE mails SET state = $3, failure = $4, content_ciphertext = NULL ${mine}`;
const retry = `UPDATE mails SET due_at = now() + $3 * interval '1 millisecond', failure = $4 ${mine}`;
const expire = `
  UPDATE mails SET state = 'failed', failure = 'expired', content_ciphertext = NULL
   WHERE id IN (SELECT id FROM mails WHERE state = 'waiting' AND expires_at <= signpost_deletion_time() AND due_at <= now()
                 LIMIT ${forgottenMax} FOR UPDATE SKIP LOCKED)`;
const forget = `
  DELETE FROM mails WHERE id IN (SELECT id FROM mails WHERE created_at < signpost_deletion_time() - interval '${keptDays * DAY_MS} milliseconds'
                                  LIMIT ${forgottenMax} FOR UPDATE SKIP LOCKED)`;

export interface MailerParts {
  readonly db: Postgres;
  readonly encryption: Encryption;
  readonly log: Pick<Log, 'warn' | 'info'>;
  /** Null if no mail server is configured: then old mail is only deleted. */
  readonly send: SendMail | null;
  /** Replaced in tests. */
  readonly time?: WorkerTime;
  /** False in a restored copy, and with a wrong SECRET_KEY: then mail waits, and none expires. */
  readonly maySend: () => boolean;
}

export class Mailer {
  readonly name = 'mail';
  /** Mails by outcome (`limited`: not added, because a limit was reached), and failed attempts by reason, since the start of the process. */
  readonly counters = { sent: 0, failed: 0, limited: 0, attempts: new Map<string, number>() };
  readonly #parts: MailerParts;
  readonly #stopping = new AbortController();
  readonly #worker: Worker;
  #isFailing = false;
  #forgotten = 0;

  constructor(parts: MailerParts) {
    this.#parts = parts;
    this.#worker = new Worker({
      ...{ name: this.name, pass: () => this.#pass(), everyMs: lookMs, log: parts.log, time: parts.time },
      ...{ failing: 'reading the mail outbox failed; retrying', working: 'the mail outbox can be read again' },
    });
  }

  start(): void {
    this.#worker.start();
  }

  async stop(): Promise<void> {
    const timer = setTimeout(() => this.#stopping.abort(), drainMs);
    await this.#worker.stop();
    clearTimeout(timer);
  }

  /** Looks for mail now, or once what is being sent is sent. */
  wake(): void {
    this.#worker.wake();
  }

  /** Sends due mail until none is left. Never rejects. */
  async look(): Promise<void> {
    await this.#worker.run();
  }

  async #pass(): Promise<void> {
    if (!this.#parts.maySend()) return;
    while (!this.#worker.isStopped && (await this.#sendSome()) === atOnce);
    if (performance.now() - this.#forgotten >= forgetMs || this.#forgotten === 0) {
      this.#forgotten = performance.now();
      await this.forget();
    }
  }

  /** Gives up expired mail, and deletes old mail. */
  async forget(): Promise<void> {
    await this.#parts.db.execute(expire, [], 'mail_expire');
    await this.#parts.db.execute(forget, [], 'mail_forget');
  }

  async #sendSome(): Promise<number> {
    const { db, send } = this.#parts;
    if (send === null) return 0;
    const mails = await db.query<ClaimedMail>(claim, [atOnce], 'mail_claim');
    await Promise.all(mails.map((mail) => this.#attempt(send, mail)));
    return mails.length;
  }

  async #attempt(send: SendMail, mail: ClaimedMail): Promise<void> {
    const { id, recipient, attempts } = mail;
    if (mail.is_expired) return this.#end(mail, 'failed', 'expired');
    if (attempts > attemptsMax) return this.#end(mail, 'failed', 'attempts');
    const content = this.#contentOf(mail);
    if (content === null) return this.#end(mail, 'failed', 'unreadable');
    const outcome = await send({ id, recipient, ...mailText(content) }, this.#stopping.signal);
    if (outcome.kind === 'sent') {
      if (this.#isFailing) this.#parts.log.info('mail can be sent again');
      this.#isFailing = false;
      return this.#end(mail, 'sent', null);
    }
    const { reason } = outcome;
    this.counters.attempts.set(reason, (this.counters.attempts.get(reason) ?? 0) + 1);
    const delayMs = delaysMs[attempts - 1];
    if (outcome.kind === 'refused' || delayMs === undefined) return this.#end(mail, 'failed', reason);
    if (!this.#isFailing) this.#parts.log.warn({ reason, mail: id }, 'sending a mail failed; retrying');
    this.#isFailing = true;
    await this.#parts.db.execute(retry, [id, attempts, delayMs, reason], 'mail_retry');
  }

  #contentOf({ id, content_ciphertext }: ClaimedMail): MailContent | null {
    try {
      return JSON.parse(this.#parts.encryption.decrypt(content_ciphertext, mailContext(id))) as MailContent;
    } catch {
      return null;
    }
  }

  async #end({ id, attempts }: ClaimedMail, state: 'sent' | 'failed', failure: string | null): Promise<void> {
    const changed = await this.#parts.db.execute(end, [id, attempts, state, failure], 'mail_end');
    if (changed === 0) return;
    this.counters[state]++;
    if (state === 'failed') this.#parts.log.warn({ reason: failure, mail: id }, 'a mail was given up');
  }
}
