/**
 * Limits for visitors of shared pages: a separate queue for passwords, so that they do not delay logins, a rate limit
 * for each page, and tickets, so that a password is compared only once.
 */
import { timingSafeEqual } from 'node:crypto';
import { HOUR_MS } from '#common/durations.ts';
import { KeyedHash, type SecretKey } from '#common/encryption.ts';
import type { Rejection } from '#common/http/rejection.ts';
import type { RateLimiter } from '#common/rate-limit.ts';

const TICKET_MS = 12 * HOUR_MS;

/** With a queue separate from that of logins. */
interface Passwords {
  /** Null if too many are waiting. */
  hash(password: string, ip: string): Promise<string | null>;
  check(phc: string, password: string, ip: string): Promise<'right' | 'wrong' | 'busy'>;
}

interface LockedPage {
  readonly id: string;
  readonly password_hash: string;
}

export class SharedPageVisits {
  readonly passwords: Passwords;
  readonly #limiter: RateLimiter;
  readonly #hash: KeyedHash;

  constructor(limiter: RateLimiter, secrets: readonly SecretKey[], passwords: Passwords) {
    this.passwords = passwords;
    this.#limiter = limiter;
    this.#hash = new KeyedHash(secrets, 'shared-page');
  }

  /** Counts one visit from any address. Null if the limit is not exceeded. */
  async charge(pageId: string): Promise<Rejection | null> {
    return (await this.#limiter.charge('general', pageId)).rejection ?? null;
  }

  /** Issued after the password was entered. */
  newTicket(page: LockedPage, nowMs: number): string {
    const untilMs = nowMs + TICKET_MS;
    return `${untilMs}.${this.#hash.newest(contentOf(page, untilMs)).toString('base64url')}`;
  }

  /** False if it is too old, or was issued for another page or password. */
  isTicket(page: LockedPage, ticket: string, nowMs: number): boolean {
    const [until = '', signature = ''] = ticket.split('.');
    const untilMs = Number(until);
    if (!(untilMs > nowMs && untilMs <= nowMs + TICKET_MS)) return false;
    const given = Buffer.from(signature, 'base64url');
    return this.#hash
      .all(contentOf(page, untilMs))
      .some((hash) => hash.length === given.length && timingSafeEqual(hash, given));
  }
}

function contentOf({ id, password_hash }: LockedPage, untilMs: number): string {
  return `${id} ${untilMs} ${password_hash}`;
}
