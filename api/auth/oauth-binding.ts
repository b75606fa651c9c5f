/**
 * Binds a login through a provider to the client that started it, so that a victim can't be made to finish an
 * attacker's login and use the attacker's account (RFC 9700, section 4.7). A page of this origin is bound by a cookie,
 * without which it completes no login. Other clients send a challenge and its verifier at the end (as in RFC 7636, between the client and this API); clients
 * without one must compare the state themselves.
 */
import { createHash, randomBytes } from 'node:crypto';
import { ATTEMPT_SECONDS } from './oauth-attempts.ts';

const cookiePrefix = '__Host-signpost-login-';

/** One cookie per login in progress, so that two tabs do not overwrite each other's. */
function cookieName(state: string): string {
  return cookiePrefix + hashOf(state).toString('hex').slice(0, 16);
}

function hashOf(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}

export interface Binding {
  readonly hash: Buffer | null;
  /** The value of Set-Cookie, once the state is known. */
  readonly cookie: ((state: string) => string) | null;
}

type HeaderOf = (name: string) => string;

/**
 * Whether the browser states that a page of this origin calls (Fetch Metadata). Old browsers state only the page's origin, which
 * no page can change either.
 */
export function isOwnPage(header: HeaderOf, publicOrigin: string): boolean {
  const site = header('sec-fetch-site');
  if (site !== '') return site === 'same-origin';
  const origin = header('origin');
  if (!URL.canParse(origin)) return false;
  return origin === publicOrigin || new URL(origin).host === header('host').toLowerCase();
}

/** @param isOwn whether a page of this origin calls. */
export function newBinding(codeChallenge: string | undefined, isOwn: boolean): Binding {
  if (codeChallenge !== undefined) return { hash: Buffer.from(codeChallenge, 'base64url'), cookie: null };
  if (!isOwn) return { hash: null, cookie: null };
  const value = randomBytes(32).toString('base64url');
  const attributes = `Max-Age=${ATTEMPT_SECONDS}; Path=/; Secure; HttpOnly; SameSite=Lax`;
  return { hash: hashOf(value), cookie: (state) => `${cookieName(state)}=${value}; ${attributes}` };
}

/** Hashes of all the caller's proofs that it started this login. */
export function shownBindings(state: string, codeVerifier: string | undefined, cookies: string): Buffer[] {
  const name = cookieName(state);
  const values = cookies
    .split(';')
    .map((pair) => pair.trim())
    .filter((pair) => pair.startsWith(`${name}=`))
    .map((pair) => pair.slice(name.length + 1));
  return [...values, ...(codeVerifier === undefined ? [] : [codeVerifier])].map(hashOf);
}
