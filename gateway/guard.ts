/**
 * Authenticates the caller and checks its rate limit. The key is sent in X-API-Key or as a bearer token; the endpoints
 * for other services' clients accept it where those clients put it. Malformed keys fail their checksum and cause no
 * lookup.
 */
import { isApiKey } from '#common/api-key.ts';
import type { Guard, GuardedRoute, Incoming } from '#common/http/mount.ts';
import { invalid, Rejection, unauthorized } from '#common/http/rejection.ts';
import type { RateLimiter } from '#common/rate-limit.ts';
import type { AppCaller } from './caller.ts';
import { foreignKeys, keyInPath } from './foreign-keys.ts';
import type { KeyCheck } from './key-check.ts';
import { readKeyInBody } from './key-in-body.ts';

export interface GatewayGuardParts {
  readonly check: KeyCheck;
  /** Rate-limits requests that name no app. */
  readonly limiter: RateLimiter;
}

/** The guard of the SDK endpoints. Its caller is an AppCaller. */
export function gatewayGuard(parts: GatewayGuardParts): Guard {
  return (route, incoming) => {
    if (route && foreignKeys[route.path] === undefined) {
      const key = keyOf(incoming.header, false);
      if (parts.check.hasSeen(key) || isApiKey(key)) return passed(parts, route, incoming, key, '');
    }
    return guardOther(parts, route, incoming);
  };
}

/** Handles requests whose key, if any, is not where our own SDKs send it. */
async function guardOther(parts: GatewayGuardParts, route: GuardedRoute | null, incoming: Incoming): ReturnType<Guard> {
  // A browser's preflight request, which cannot carry a key.
  if (!route && incoming.path === undefined) return preflight(parts, incoming);
  const place = route ? foreignKeys[route.path] : undefined;
  let key = keyOf(incoming.header, place !== undefined);
  let keyInBody = '';
  if (route && key === '') key = keyInPath(route.path, incoming.path ?? '');
  if (key === '' && place !== undefined && 'body' in place) {
    // Checked first, so that an address over its limit does not get its bodies decompressed.
    const spent = parts.limiter.spent('general', incoming.ip);
    if (spent) return spent;
    const body = await incoming.readBody();
    const read = body instanceof Rejection ? body : readKeyInBody(body, place.body);
    if (read instanceof Rejection) return charged(parts, incoming, read);
    keyInBody = read;
    key = read;
  }
  if (!route || !isApiKey(key)) return charged(parts, incoming, unauthorized());
  return passed(parts, route, incoming, key, keyInBody);
}

async function passed(
  parts: GatewayGuardParts,
  route: GuardedRoute,
  incoming: Incoming,
  key: string,
  keyInBody: string,
): ReturnType<Guard> {
  const verdict = await parts.check.check(key, route.limit, incoming.ip);
  if ('app' in verdict) {
    const caller: AppCaller = { kind: 'app', app: verdict.app, keyInBody };
    return { caller, quota: verdict.charge.quota };
  }
  if (!verdict.charge) return charged(parts, incoming, verdict.rejection);
  return { rejection: verdict.rejection, quota: verdict.charge.quota };
}

async function preflight({ limiter }: GatewayGuardParts, { ip }: Incoming): ReturnType<Guard> {
  const { rejection, quota } = await limiter.chargeAddress('general', ip);
  return rejection ? { rejection, quota } : { caller: null, quota };
}

/** Anonymous requests are rate-limited by IP address. */
async function charged(parts: GatewayGuardParts, incoming: Incoming, rejection: Rejection): ReturnType<Guard> {
  const charge = await parts.limiter.chargeAddress('general', incoming.ip);
  return { rejection: charge.rejection ?? rejection, quota: charge.quota };
}

/**
 * Rejects a body with a key other than the accepted one: its events could belong to either of two apps.
 * @param sent values of the body's fields that may contain a key.
 */
export function keyConflict(request: KeyCarrier, sent: Iterable<readonly [string, unknown]>): Rejection | null {
  const accepted = request.keyInBody === '' ? keyOf(request.header, true) : request.keyInBody;
  for (const [field, key] of sent) {
    if (typeof key !== 'string' || key === accepted || !isApiKey(key)) continue;
    return invalid(field, request.keyInBody === '' ? 'differs from the API key in the header' : twoKeys);
  }
  return null;
}

const twoKeys = 'is given twice, with different API keys';

interface KeyCarrier {
  readonly header: (name: string) => string;
  /**
   * The first key of the body, which was accepted. If a body has two members with one name, JSON parsers return the
   * last.
   */
  readonly keyInBody: string;
}

function keyOf(header: KeyCarrier['header'], takesBasic: boolean): string {
  const own = header('x-api-key');
  if (own !== '') return own;
  const authorization = header('authorization');
  const [, bearer] = /^Bearer +(\S+) *$/i.exec(authorization) ?? [];
  if (bearer !== undefined) return bearer;
  const [, basic] = takesBasic ? (/^Basic +([A-Za-z0-9+/_=-]{1,400}) *$/i.exec(authorization) ?? []) : [];
  if (basic === undefined) return '';
  const [user] = Buffer.from(basic, 'base64').toString('latin1').split(':', 1);
  return user ?? '';
}
