/**
 * Authenticates callers and applies rate limits, before a body is read. Ordered by cost: checks of the headers, the
 * signature of the token or cookie, the limit of the user or otherwise of the address, and only then Postgres. A
 * rejected request needs no query. A cookie is accepted only on requests from this origin's own pages.
 */
import type { AccessClaims, AccessTokens } from '#common/access-token.ts';
import { isApiKey, isKey } from '#common/api-key.ts';
import type { Clock } from '#common/clock.ts';
import type { Quota } from '#common/http/exchange.ts';
import type { Guard, GuardedRoute, Incoming } from '#common/http/mount.ts';
import { forbidden, type Rejection, unauthorized, unavailable } from '#common/http/rejection.ts';
import type { Charge, RateLimiter } from '#common/rate-limit.ts';
import { type Postgres, PostgresUnavailable } from '#common/stores/postgres.ts';
import { onlyViewing, rightsOf } from './access.ts';
import type { BrowserSessions } from './auth/browser-sessions.ts';
import { isFromOwnPage, type SessionCookies, type SessionToken } from './auth/session-cookie.ts';
import { allows, ServerKeys } from './keys/server-keys.ts';
import type { CallerSession, Membership, UserCaller } from './route.ts';

export interface GuardParts {
  readonly db: Postgres;
  readonly limiter: RateLimiter;
  readonly tokens: AccessTokens;
  readonly cookies: SessionCookies;
  readonly browserSessions: BrowserSessions;
  readonly clock: Clock;
}

type Credential =
  | { readonly kind: 'api_key' | 'nothing' }
  | { readonly kind: 'token'; readonly token: string }
  | { readonly kind: 'server_key'; readonly key: string }
  | { readonly kind: 'cookie'; readonly cookies: string };
type Claims = AccessClaims | SessionToken;
/** A well-formed server key, not looked up yet. */
interface KeyClaim {
  readonly server_key: string;
}

/**
 * The guard of dashboard and public routes. Its caller is a UserCaller, or null on a public route. A request counts
 * against the limit of its user or server key, wherever it comes from, and against its address only if it has neither.
 */
export function apiGuard(parts: GuardParts): Guard {
  const keys = new ServerKeys(parts.db, parts.clock);
  return async (route, incoming) => {
    if (!route) {
      const { quota, rejection } = await chargeUnknown(parts, incoming);
      return rejection ? { rejection, quota } : { caller: null, quota };
    }
    const claims = identify(route, credentialOf(incoming, route), parts);
    const limitClass = classOf(route);
    if (limitClass === 'auth') {
      if (isKeyClaim(claims))
        throw new Error(`${route.method} ${route.path} is charged to addresses and accepts a key`);
      const charge = await parts.limiter.chargeNetworks(limitClass, incoming.ip);
      return charge.rejection
        ? { rejection: charge.rejection, quota: charge.quota }
        : passed(parts, route, claims, charge);
    }
    if (isKeyClaim(claims)) return passedWithKey(parts, keys, route, claims, incoming);
    const charge =
      claims !== null && 'user_id' in claims
        ? await parts.limiter.charge(limitClass, claims.user_id)
        : await parts.limiter.chargeAddress('general', incoming.ip);
    if (charge.rejection) return { rejection: charge.rejection, quota: charge.quota };
    return passed(parts, route, claims, charge);
  };
}

/** Authenticates a long-running request again, without counting it. Null if it would now be rejected. */
export function rightsNow(
  parts: GuardParts,
): (route: GuardedRoute, header: Incoming['header']) => Promise<string | null> {
  const keys = new ServerKeys(parts.db, parts.clock);
  return async (route, header) => {
    const claims = identify(route, credentialOf({ header }, route), parts);
    const found = isKeyClaim(claims)
      ? await keyCaller(keys, route, claims)
      : await passed(parts, route, claims, { quota: null });
    return 'caller' in found && found.caller !== null ? rightsOf(found.caller as UserCaller) : null;
  };
}

function chargeUnknown({ limiter }: GuardParts, { path, ip }: Incoming): Promise<Charge> {
  return path?.startsWith('/auth/') ? limiter.chargeNetworks('auth', ip) : limiter.chargeAddress('general', ip);
}

function classOf({ limit, method, path }: GuardedRoute): 'auth' | 'general' | 'links' {
  if (limit === 'auth' || limit === 'general' || limit === 'links') return limit;
  throw new Error(`${method} ${path} is charged to ${limit}, which is not a class of the dashboard`);
}

/** The content of a verified token or cookie, null on a public route. */
function identify(
  route: GuardedRoute,
  credential: Credential,
  { tokens, cookies }: GuardParts,
): Claims | KeyClaim | null | Rejection {
  if (credential.kind === 'api_key') return forbidden('An API key may be used on /sdk endpoints only.');
  switch (route.caller) {
    case 'public':
      return null;
    case 'user':
      if (credential.kind === 'server_key') return claimOf(route, credential.key);
      if (credential.kind === 'cookie') return cookies.read(credential.cookies) ?? unauthorized();
      return (credential.kind === 'token' ? tokens.verify(credential.token) : null) ?? unauthorized();
    case 'app':
      throw new Error(`${route.method} ${route.path} is for apps and needs the guard of the SDK endpoints`);
  }
}

/** Decided without a query: keys are accepted only on endpoints with a scope. */
function claimOf(route: GuardedRoute, server_key: string): KeyClaim | Rejection {
  if (route.scope) return { server_key };
  return forbidden('A server key cannot be used on this endpoint.', 'server_key_not_accepted');
}

function isKeyClaim(claims: Claims | KeyClaim | null | Rejection): claims is KeyClaim {
  return claims !== null && 'server_key' in claims;
}

/**
 * Counted against the key, or against the address if there is no such key; then no query is needed once the address has
 * no requests left. A key that this process has found before is counted before it is looked up again.
 */
async function passedWithKey(
  { limiter }: GuardParts,
  keys: ServerKeys,
  route: GuardedRoute,
  claim: KeyClaim,
  incoming: Incoming,
): ReturnType<Guard> {
  const limitClass = classOf(route) === 'links' ? 'links' : 'general';
  const knownId = keys.idOfKnown(claim.server_key);
  if (knownId !== undefined) {
    const { quota, rejection } = await limiter.charge(limitClass, knownId);
    return rejection ? { rejection, quota } : { ...(await keyCaller(keys, route, claim)), quota };
  }
  const spent = limiter.spent('general', incoming.ip);
  if (spent) return spent;
  const found = await keyCaller(keys, route, claim);
  const { quota, rejection } =
    'caller' in found
      ? await limiter.charge(limitClass, found.caller.user_id)
      : await limiter.chargeAddress('general', incoming.ip);
  return rejection ? { rejection, quota } : { ...found, quota };
}

async function keyCaller(
  keys: ServerKeys,
  { scope }: GuardedRoute,
  { server_key }: KeyClaim,
): Promise<{ readonly caller: UserCaller } | { readonly rejection: Rejection }> {
  try {
    const key = await keys.find(server_key);
    if (!key || !scope) return { rejection: unauthorized() };
    const { id, organization_id, scopes, app_ids } = key;
    if (!allows(scopes, scope))
      return { rejection: forbidden(`This server key lacks the scope ${scope}.`, 'scope_missing') };
    // Members can see an app's API key, so a read-only server key counts as a viewer.
    const isWriter =
      scope.endsWith(':write') || ['webhooks', 'import'].includes(scope) || scopes.includes('apps:write');
    const memberships = [{ organization_id, role: isWriter ? 'member' : 'viewer' } as const];
    return { caller: { kind: 'user', user_id: id, memberships, key: { app_ids } } };
  } catch (error) {
    if (error instanceof PostgresUnavailable) return { rejection: unavailable() };
    throw error;
  }
}

const ownAccount = /^\/(me|session|sessions)(\/|$)/;

async function passed(
  parts: GuardParts,
  route: GuardedRoute,
  claims: Claims | null | Rejection,
  { quota }: { readonly quota: Quota | null },
): ReturnType<Guard> {
  if (claims === null) return { caller: null, quota };
  if (!('user_id' in claims)) return { rejection: claims, quota };
  try {
    const found = await membershipsOf(parts, claims);
    if (!found) return { rejection: unauthorized(), quota };
    const { known, session } = found;
    const memberships = known.filter((one) => !one.lacks_totp);
    // Every user may change their own account, whatever their role.
    const isOwnAccount = ownAccount.test(route.path);
    if (!isOwnAccount) {
      if (known.length > 0 && memberships.length === 0) return { rejection: lacksTotp(), quota };
      const isWrite = route.method !== 'GET' && !route.isRead && !route.isForViewers;
      if (isWrite && isViewerOnly(memberships)) return { rejection: onlyViewing(), quota };
    }
    const caller: UserCaller = { kind: 'user', user_id: claims.user_id, memberships, ...(session ? { session } : {}) };
    return { caller, quota };
  } catch (error) {
    if (error instanceof PostgresUnavailable) return { rejection: unavailable(), quota };
    throw error;
  }
}

/**
 * Queried on every request, so that the end of an account, a membership or a login takes effect at the next request.
 * Null if the user is deleted or disabled, the token is too old for the account, or the session has ended.
 */
async function membershipsOf(parts: GuardParts, claims: Claims): Promise<Found | null> {
  const isSession = 'hash' in claims;
  const rows = isSession
    ? await parts.db.query<FoundRow>(
        `${selectMemberships}, s.id, s.created_at, s.expires_at, s.organization_id AS chosen
           FROM browser_sessions s JOIN users u ON u.id = s.user_id ${joinMemberships}
          WHERE s.token_hash = $2 AND s.expires_at > $3 AND ${isLive} AND (u.not_before IS NULL OR u.not_before <= s.created_at)`,
        [claims.user_id, claims.hash, new Date(parts.clock())],
        'guard_session',
      )
    : await parts.db.query<FoundRow>(
        `${selectMemberships} FROM users u ${joinMemberships} WHERE ${isLive} AND (u.not_before IS NULL OR u.not_before <= $2)`,
        [claims.user_id, new Date(claims.issued_ms)],
        'guard_memberships',
      );
  const [first] = rows;
  if (!first) return null;
  const all = rows.filter((row): row is FoundRow & KnownMembership => row.organization_id !== null);
  if (!isSession || !first.id || !first.created_at || !first.expires_at) return { known: all };
  // A user who has left the organization is no longer limited to it.
  const chosen = all.filter(({ organization_id }) => organization_id === first.chosen);
  const organization_id = chosen[0]?.organization_id ?? null;
  const known = organization_id === null ? all : chosen;
  const session = { id: first.id, created_at: first.created_at, expires_at: first.expires_at, organization_id };
  return { known, session: { ...session, expires_at: await parts.browserSessions.slide(claims, session) } };
}

const selectMemberships = `SELECT m.organization_id, m.role, o.requires_totp AND NOT EXISTS (
  SELECT FROM user_totp t WHERE t.user_id = u.id AND t.confirmed_at IS NOT NULL) AS lacks_totp`;
const joinMemberships = `LEFT JOIN memberships m ON m.user_id = u.id LEFT JOIN organizations o ON o.id = m.organization_id`;
const isLive = 'u.id = $1 AND u.deleted_at IS NULL AND u.disabled_at IS NULL';

interface Found {
  readonly known: readonly KnownMembership[];
  readonly session?: CallerSession;
}

type FoundRow = (KnownMembership | { organization_id: null; role: null; lacks_totp: null }) &
  Partial<Pick<CallerSession, 'id' | 'created_at' | 'expires_at'>> & { readonly chosen?: string | null };

interface KnownMembership extends Membership {
  /** The organization requires a second factor, which the user has not set up. */
  readonly lacks_totp: boolean;
}

const lacksTotp = () =>
  forbidden('Your organization requires a second factor: set one up with POST /me/totp.', 'totp_setup_required');

/** Such a user may write nothing, so the body is not read. */
function isViewerOnly(memberships: readonly Membership[]): boolean {
  return memberships.length > 0 && memberships.every(({ role }) => role === 'viewer');
}

/** Text that is not a well-formed key, judged by its checksum, does not count as a credential. */
function credentialOf(incoming: Pick<Incoming, 'header'>, route: GuardedRoute | null): Credential {
  const key = incoming.header('x-api-key');
  if (key !== '') return { kind: isApiKey(key) ? 'api_key' : 'nothing' };
  const [, token] = /^Bearer +(\S+) *$/i.exec(incoming.header('authorization')) ?? [];
  if (token === undefined) {
    const isOwn = isFromOwnPage(incoming.header, route?.method !== 'GET');
    return isOwn ? { kind: 'cookie', cookies: incoming.header('cookie') } : { kind: 'nothing' };
  }
  if (isKey('sk_', token)) return { kind: 'server_key', key: token };
  return isApiKey(token) ? { kind: 'api_key' } : { kind: 'token', token };
}
