/** The users of the server: `signpost` for everything that Signpost sends, `reader` only for queries. */
import { createHash, timingSafeEqual } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import { join } from 'node:path';
import { storedPassword } from '#deploy/local/stored-password.ts';

export type ClickHouseRole = 'signpost' | 'reader';
const roles: readonly ClickHouseRole[] = ['signpost', 'reader'];

export type ClickHousePasswords = Readonly<Record<ClickHouseRole, string>>;

/** The passwords stored in the server's folder. */
export function clickhousePasswords(folder: string): ClickHousePasswords {
  const of = (role: ClickHouseRole) => storedPassword(join(folder, `password-${role}`));
  return { signpost: of('signpost'), reader: of('reader') };
}

const digest = (text: string) => createHash('sha256').update(text).digest();

export class Users {
  readonly #expected: readonly (readonly [ClickHouseRole, Buffer])[];

  constructor(passwords: ClickHousePasswords) {
    this.#expected = roles.map((role) => [role, digest(`${role}:${passwords[role]}`)]);
  }

  /**
   * The user whose name and password are in the headers, as ClickHouse reads them; null if there is none. Credentials
   * in URLs are ignored.
   */
  roleOf(headers: IncomingHttpHeaders): ClickHouseRole | null {
    const given = digest(credentialsOf(headers));
    let found: ClickHouseRole | null = null;
    for (const [role, expected] of this.#expected) if (timingSafeEqual(given, expected)) found = role;
    return found;
  }
}

function credentialsOf(headers: IncomingHttpHeaders): string {
  const [scheme = '', text = ''] = (headers.authorization ?? '').split(' ');
  if (scheme.toLowerCase() === 'basic') return Buffer.from(text, 'base64').toString();
  return `${headers['x-clickhouse-user'] ?? ''}:${headers['x-clickhouse-key'] ?? ''}`;
}
