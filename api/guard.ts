/**
 * Authenticates callers and applies rate limits, before a body is read. Ordered by cost: the limit per address,
 * checks on the headers, the token's signature, and only then Postgres. A rejected request costs no query.
 */
import type { AccessClaims, AccessTokens } from '#common/access-token.ts';
import { isApiKey } from '#common/api-key.ts';
import type { Guard, GuardedRoute, Incoming } from '#common/http/mount.ts';
import { forbidden, type Rejection, unauthorized, unavailable } from '#common/http/rejection.ts';
import type { Charge, RateLimiter } from '#common/rate-limit.ts';
import { type Postgres, PostgresUnavailable } from '#common/stores/postgres.ts';
import { onlyViewing } from './access.ts';
import type { Membership, UserCaller } from './route.ts';

export interface GuardParts {
  readonly db: Postgres;
  readonly limiter: RateLimiter;
  readonly tokens: AccessTokens;
}

type Credential = { readonly kind: 'api_key' | 'nothing' } | { readonly kind: 'token'; readonly token: string };

/**
 * The guard of dashboard and public routes. Its caller is a UserCaller, or null on a public route. A route that creates
 * links is charged to its user, or to the address if there is no user.
 */
export function apiGuard(parts: GuardParts): Guard {
  return async (route, incoming) => {
    const credential = credentialOf(incoming);
    if (route?.limit !== 'links') {
      const charge = await chargeAddress(parts, route, incoming);
      if (charge.rejection) return { rejection: charge.rejection, quota: charge.quota };
      if (!route) return { caller: null, quota: charge.quota };
      return passed(parts, route, identify(route, credential, parts.tokens), charge);
    }
    const claims = identify(route, credential, parts.tokens);
    const charge =
      claims !== null && 'user_id' in claims
        ? await parts.limiter.charge('links', claims.user_id)
        : await parts.limiter.chargeAddress('general', incoming.ip);
    if (charge.rejection) return { rejection: charge.rejection, quota: charge.quota };
    return passed(parts, route, claims, charge);
  };
}

function chargeAddress(parts: GuardParts, route: GuardedRoute | null, incoming: Incoming): Promise<Charge> {
  const limitClass = route?.limit ?? (incoming.path?.startsWith('/auth/') ? 'auth' : 'general');
  if (limitClass !== 'auth' && limitClass !== 'general') {
    throw new Error(
      `${route?.method} ${route?.path} is charged to ${limitClass}, which is not a class of the dashboard`,
    );
  }
  if (limitClass === 'auth') return parts.limiter.chargeNetworks(limitClass, incoming.ip);
  return parts.limiter.chargeAddress(limitClass, incoming.ip);
}

/** The content of a verified token, null on a public route. */
function identify(route: GuardedRoute, credential: Credential, tokens: AccessTokens): AccessClaims | null | Rejection {
  if (credential.kind === 'api_key') return forbidden('An API key may be used on /sdk endpoints only.');
  switch (route.caller) {
    case 'public':
      return null;
    case 'user':
      return (credential.kind === 'token' ? tokens.verify(credential.token) : null) ?? unauthorized();
    case 'app':
      throw new Error(`${route.method} ${route.path} is for apps and needs the guard of the SDK endpoints`);
  }
}

async function passed(
  parts: GuardParts,
  route: GuardedRoute,
  claims: AccessClaims | null | Rejection,
  { quota }: Charge,
): ReturnType<Guard> {
  if (claims === null) return { caller: null, quota };
  if (!('user_id' in claims)) return { rejection: claims, quota };
  try {
    const known = await membershipsOf(parts.db, claims);
    if (!known) return { rejection: unauthorized(), quota };
    const memberships = known.filter((one) => !one.lacks_totp);
    // Every user may change their own account, whatever their role.
    const isOwnAccount = route.path === '/me' || route.path.startsWith('/me/');
    if (!isOwnAccount) {
      if (known.length > 0 && memberships.length === 0) return { rejection: lacksTotp(), quota };
      if (route.method !== 'GET' && isViewerOnly(memberships)) return { rejection: onlyViewing(), quota };
    }
    const caller: UserCaller = { kind: 'user', user_id: claims.user_id, memberships };
    return { caller, quota };
  } catch (error) {
    if (error instanceof PostgresUnavailable) return { rejection: unavailable(), quota };
    throw error;
  }
}

/**
 * Queried on every request, so that the end of an account, a membership or a login takes effect with the next one. Null
 * if the user is deleted or disabled, or the token is older than what the account still accepts.
 */
async function membershipsOf(db: Postgres, { user_id, issued_ms }: AccessClaims): Promise<KnownMembership[] | null> {
  const rows = await db.query<KnownMembership | { organization_id: null; role: null; lacks_totp: null }>(
    `SELECT m.organization_id, m.role, o.requires_totp AND NOT EXISTS (
              SELECT FROM user_totp t WHERE t.user_id = u.id AND t.confirmed_at IS NOT NULL) AS lacks_totp
       FROM users u LEFT JOIN memberships m ON m.user_id = u.id LEFT JOIN organizations o ON o.id = m.organization_id
      WHERE u.id = $1 AND u.deleted_at IS NULL AND u.disabled_at IS NULL AND (u.not_before IS NULL OR u.not_before <= $2)`,
    [user_id, new Date(issued_ms)],
    'guard_memberships',
  );
  if (rows.length === 0) return null;
  return rows.filter((row): row is KnownMembership => row.organization_id !== null);
}

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

/** Text in place of a key that is not well-formed, by its checksum, does not count as a credential. */
function credentialOf(incoming: Incoming): Credential {
  const key = incoming.header('x-api-key');
  if (key !== '') return { kind: isApiKey(key) ? 'api_key' : 'nothing' };
  const [, token] = /^Bearer +(\S+) *$/i.exec(incoming.header('authorization')) ?? [];
  if (token === undefined) return { kind: 'nothing' };
  return isApiKey(token) ? { kind: 'api_key' } : { kind: 'token', token };
}
