/**
 * Authenticates the caller and checks its rate limit. The key is sent in X-API-Key or as the bearer value; the two
 * endpoints for other services' clients accept it where those clients put it. Malformed keys fail their checksum and
 * cost no look-up.
 */
import { isApiKey } from '#common/api-key.ts';
import type { Guard, GuardedRoute, Incoming } from '#common/http/mount.ts';
import { invalid, Rejection, unauthorized } from '#common/http/rejection.ts';
import type { RateLimiter } from '#common/rate-limit.ts';
import type { AppCaller } from './caller.ts';
import type { KeyCheck } from './key-check.ts';
import { readKeyInBody } from './key-in-body.ts';

export interface GatewayGuardParts {
  readonly check: KeyCheck;
  /** Rate-limits requests that name no app. */
  readonly limiter: RateLimiter;
}

/** Where other services' clients put the key: a member of the body, or the user name of Basic authentication. */
const keysInBody: Readonly<Record<string, string>> = {
  '/sdk/segment/v1/batch': 'writeKey',
  '/sdk/posthog/batch/': 'api_key',
};

/** The guard of the SDK endpoints. Its caller is an AppCaller. */
export function gatewayGuard(parts: GatewayGuardParts): Guard {
  return async (route, incoming) => {
    const bodyField = route ? keysInBody[route.path] : undefined;
    let key = keyOf((name) => incoming.header(name), bodyField !== undefined);
    let keyInBody = '';
    if (route && key === '' && bodyField !== undefined) {
      // An address over its limit must not get its bodies decompressed.
      const spent = parts.limiter.spent('general', incoming.ip);
      if (spent) return spent;
      const body = await incoming.readBody();
      const read = body instanceof Rejection ? body : readKeyInBody(body, bodyField);
      if (read instanceof Rejection) return charged(parts, incoming, read);
      keyInBody = read;
      key = read;
    }
    if (!route || !isApiKey(key)) return charged(parts, incoming, unauthorized());
    return passed(parts, route, incoming, key, keyInBody);
  };
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

/** Anonymous requests are rate-limited by IP address. */
async function charged(parts: GatewayGuardParts, incoming: Incoming, rejection: Rejection): ReturnType<Guard> {
  const charge = await parts.limiter.chargeAddress('general', incoming.ip);
  return { rejection: charge.rejection ?? rejection, quota: charge.quota };
}

/** The body has another key than the one that was accepted: its events could belong to either of two apps. */
export function keyConflict(request: KeyCarrier, body: Readonly<Record<string, unknown>>): Rejection | null {
  const field = keysInBody[request.path];
  const inBody = field === undefined ? null : body[field];
  if (field === undefined || typeof inBody !== 'string' || !isApiKey(inBody)) return null;
  if (request.keyInBody !== '')
    return inBody === request.keyInBody ? null : invalid(field, 'is given twice, with different API keys');
  return inBody === keyOf(request.header, true) ? null : invalid(field, 'differs from the API key in the header');
}

interface KeyCarrier {
  /** From the route. */
  readonly path: string;
  readonly header: (name: string) => string;
  /** The first key of the body, the one that was accepted; of two members with one name, a parser takes the last. */
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
