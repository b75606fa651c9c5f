/**
 * Access tokens: JWTs (RFC 7519, profile of RFC 9068: `typ` is `at+jwt`) signed with HS256 only. Each key of SECRET_KEY
 * gives a signing key by HKDF; `kid` names it. The newest signs, all verify, so a key can be rotated while tokens of
 * the previous one are still valid.
 */
import { createDecoder, createSigner, createVerifier } from 'fast-jwt';
import { type Clock, systemClock } from './clock.ts';
import { deriveKey, type SecretKey } from './encryption.ts';
import { isId } from './ids.ts';

/** Part of the API: access tokens expire after 15 minutes. */
export const ACCESS_TOKEN_SECONDS = 900;
/** Maximum clock difference between two processes. */
const CLOCK_SKEW_SECONDS = 60;
const TYP = 'at+jwt';
const ISSUER = 'signpost';
const AUDIENCE = 'signpost-api';
/** Our tokens are about 300 characters; anything much longer is rejected unread. */
const TOKEN_CHARACTERS_MAX = 2048;
/** A number beyond this is not a time that can be passed to Postgres. */
const EPOCH_MS_MAX = 1e14;

/** The content of a verified token. */
export interface AccessClaims {
  readonly user_id: string;
  /** Epoch milliseconds; an account may reject tokens issued before some moment. */
  readonly issued_ms: number;
}

export class AccessTokens {
  readonly #sign: (payload: Record<string, unknown>) => string;
  readonly #verifiers: ReadonlyMap<string, (token: string) => unknown>;
  readonly #decode = createDecoder({ complete: true });
  readonly #clock: Clock;

  /** @param secrets newest first; at least one. */
  constructor(secrets: readonly SecretKey[], clock: Clock = systemClock) {
    const [newest] = secrets;
    if (!newest) throw new Error('access tokens need at least one key');
    this.#clock = clock;
    this.#sign = createSigner({
      key: signingKey(newest),
      algorithm: 'HS256',
      kid: newest.id,
      header: { alg: 'HS256', typ: TYP },
    });
    this.#verifiers = new Map(secrets.map((secret) => [secret.id, verifierOf(secret)]));
  }

  /**
   * A token for this user id, valid for 900 s. `iat` is in whole seconds; `issued_ms` is needed after a reset in the
   * same second.
   */
  issue(userId: string, issued_ms: number = this.#clock()): string {
    const exp = Math.floor(this.#clock() / 1000) + ACCESS_TOKEN_SECONDS;
    return this.#sign({ iss: ISSUER, aud: AUDIENCE, sub: userId, iat: Math.floor(issued_ms / 1000), exp, issued_ms });
  }

  /** The content of a valid, unexpired token; null for anything else, without a reason. */
  verify(token: string): AccessClaims | null {
    if (token.length > TOKEN_CHARACTERS_MAX) return null;
    try {
      const kid = kidOf(this.#decode(token));
      const verify = kid === null ? undefined : this.#verifiers.get(kid);
      if (!verify) return null;
      const claims = verify(token);
      if (typeof claims !== 'object' || claims === null) return null;
      if (!('sub' in claims) || !('exp' in claims) || !('iat' in claims)) return null;
      const { sub, exp, iat } = claims;
      const issued_ms = 'issued_ms' in claims ? claims.issued_ms : Number(iat) * 1000;
      if (typeof exp !== 'number' || !this.#isWithinItsTime(exp * 1000)) return null;
      if (typeof issued_ms !== 'number' || !(Math.abs(issued_ms) < EPOCH_MS_MAX)) return null;
      return typeof sub === 'string' && isId('usr', sub) ? { user_id: sub, issued_ms } : null;
    } catch {
      return null;
    }
  }

  /** A token that ends later than any that is issued now was issued by a clock that was ahead. */
  #isWithinItsTime(endMs: number): boolean {
    const restMs = endMs - this.#clock();
    return restMs > 0 && restMs <= (ACCESS_TOKEN_SECONDS + CLOCK_SKEW_SECONDS) * 1000;
  }
}

function signingKey(secret: SecretKey): Buffer {
  return deriveKey(secret, 'access-token');
}

/** The expiry is checked above, by our own clock; this checks everything else. */
function verifierOf(secret: SecretKey): (token: string) => unknown {
  return createVerifier({
    key: signingKey(secret),
    algorithms: ['HS256'],
    allowedIss: ISSUER,
    allowedAud: AUDIENCE,
    checkTyp: TYP,
    requiredClaims: ['iss', 'aud', 'sub', 'exp', 'iat'],
    ignoreExpiration: true,
    cache: false,
  });
}

function kidOf(decoded: unknown): string | null {
  if (typeof decoded !== 'object' || decoded === null || !('header' in decoded)) return null;
  const { header } = decoded;
  if (typeof header !== 'object' || header === null || !('kid' in header)) return null;
  return typeof header.kid === 'string' ? header.kid : null;
}
