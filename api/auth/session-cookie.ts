/**
 * The cookie of the dashboard: `<user id>.<256 random bits>.<MAC>`. The MAC, under a key derived from SECRET_KEY, lets
 * the guard reject junk and count the request against the user's limit without a query; Postgres decides whether the
 * session is active.
 */
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import { KeyedHash, type SecretKey } from '#common/encryption.ts';
import { isId } from '#common/ids.ts';

const name = '__Host-signpost';
const attributes = 'Path=/; Secure; HttpOnly; SameSite=Strict';
const shape = /^(usr_[0-9a-z]{26})\.([\w-]{43})\.([\w-]{43})$/;

/** A header that pages of other sites can send only after a preflight, which this origin rejects. */
export const SESSION_HEADER = 'x-signpost-session';

/** A cookie issued by this installation; its session may have ended. */
export interface SessionToken {
  readonly user_id: string;
  /** Hash of the random part, as stored in Postgres. */
  readonly hash: Buffer;
}

export class SessionCookies {
  readonly #mac: KeyedHash;

  constructor(secrets: readonly SecretKey[]) {
    this.#mac = new KeyedHash(secrets, 'browser-session');
  }

  issue(userId: string): { readonly value: string; readonly hash: Buffer } {
    const secret = randomBytes(32).toString('base64url');
    const mac = this.#mac.newest(`${userId}.${secret}`).toString('base64url');
    return { value: `${userId}.${secret}.${mac}`, hash: hashOf(secret) };
  }

  /** Reads a Cookie header; null if it has no cookie of this installation. */
  read(cookies: string): SessionToken | null {
    for (const pair of cookies.split(';')) {
      const text = pair.trim();
      if (!text.startsWith(`${name}=`)) continue;
      const [, user_id = '', secret = '', mac = ''] = shape.exec(text.slice(name.length + 1)) ?? [];
      if (!isId('usr', user_id)) continue;
      const given = Buffer.from(mac, 'base64url');
      const isOurs = this.#mac
        .all(`${user_id}.${secret}`)
        .some((expected) => given.length === expected.length && timingSafeEqual(given, expected));
      if (isOurs) return { user_id, hash: hashOf(secret) };
    }
    return null;
  }
}

/**
 * Whether the browser states that a page of this origin sent the request. Browsers set Sec-Fetch-Site themselves, and
 * no page can change it. A write also needs a custom header, so that no form can send it.
 */
export function isFromOwnPage(header: (name: string) => string, isWrite: boolean): boolean {
  return header('sec-fetch-site') === 'same-origin' && (!isWrite || header(SESSION_HEADER) !== '');
}

/** The value of Set-Cookie. */
export function setCookie(value: string, maxAgeSeconds: number): string {
  return `${name}=${value}; Max-Age=${maxAgeSeconds}; ${attributes}`;
}

export const clearedCookie = setCookie('', 0);

/** 256 random bits need no slow hash: they cannot be guessed. */
function hashOf(secret: string): Buffer {
  return createHash('sha256').update(secret).digest();
}
