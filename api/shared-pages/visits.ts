/**
 * What visitors of shared pages may do: their own turn for passwords, so that they do not delay logins, a limit for
 * each page, and tickets, so that a password is compared once and not for each period that is looked at.
 */
import { timingSafeEqual } from 'node:crypto';
import { HOUR_MS } from '#common/durations.ts';
import { KeyedHash, type SecretKey } from '#common/encryption.ts';
import type { Rejection } from '#common/http/rejection.ts';
import type { RateLimiter } from '#common/rate-limit.ts';

const TICKET_MS = 12 * HOUR_MS;

/** With a queue apart from that of logins. */
interface Passwords {
  /** Null if too many wait. */
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

  /** One visit, wherever it comes from. Null if the page has one left. */
  async charge(pageId: string): Promise<Rejection | null> {
    return (await this.#limiter.charge('general', pageId)).rejection ?? null;
  }

  /** For someone who has just entered the password. */
  newTicket(page: LockedPage, nowMs: number): string {
    const untilMs = nowMs + TICKET_MS;
    return `${untilMs}.${this.#hash.newest(contentOf(page, untilMs)).toString('base64url')}`;
  }

  /** False once it is too old, or made for another page or password. */
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
