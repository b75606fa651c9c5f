/**
 * The authorization-code flow with PKCE (RFC 6749, RFC 7636), as the providers use it.
 * The only file that knows openid-client.
 */
import * as oauth from 'openid-client';

const TIMEOUT_SECONDS = 5;

/** State stored between start and callback. */
export interface LoginAttempt {
  readonly state: string;
  readonly verifier: string;
  readonly redirectUri: string;
}

/** What a provider knows this service by. */
export interface ClientCredentials {
  readonly id: string;
  readonly secret: string;
}

/** The result of a code exchange. Without OpenID Connect there are no claims. */
export interface Grant {
  readonly accessToken: string;
  readonly claims: Readonly<Record<string, unknown>>;
}

interface Endpoints {
  readonly issuer: string;
  readonly authorization_endpoint: string;
  readonly token_endpoint: string;
}

/** Its methods throw; `outcomeOf` says what an error means. */
export class OAuthClient {
  readonly #client: oauth.Configuration;

  private constructor(metadata: oauth.ServerMetadata, { id, secret }: ClientCredentials) {
    this.#client = new oauth.Configuration(metadata, id, undefined, oauth.ClientSecretPost(secret));
    this.#client.timeout = TIMEOUT_SECONDS;
    if (isInsecure(new URL(metadata.issuer))) oauth.allowInsecureRequests(this.#client);
  }

  /** A provider whose endpoints are known. */
  static at(endpoints: Endpoints, credentials: ClientCredentials): OAuthClient {
    return new OAuthClient({ ...endpoints }, credentials);
  }

  /** A provider that publishes its endpoints (OpenID Connect Discovery 1.0). */
  static async discover(issuer: URL, credentials: ClientCredentials): Promise<OAuthClient> {
    const auth = oauth.ClientSecretPost(credentials.secret);
    const found = await oauth.discovery(issuer, credentials.id, undefined, auth, {
      timeout: TIMEOUT_SECONDS,
      ...(isInsecure(issuer) ? { execute: [oauth.allowInsecureRequests] } : {}),
    });
    return new OAuthClient(codeFlowMetadata(found.serverMetadata()), credentials);
  }

  /** The URL to send the browser to. */
  async authorizationUrl(attempt: LoginAttempt, more: Readonly<Record<string, string>>): Promise<string> {
    const url = oauth.buildAuthorizationUrl(this.#client, {
      ...more,
      redirect_uri: attempt.redirectUri,
      state: attempt.state,
      code_challenge: await oauth.calculatePKCECodeChallenge(attempt.verifier),
      code_challenge_method: 'S256',
    });
    return url.href;
  }

  /** @param nonce if given, an id token must come along, be valid, and carry it. */
  async exchange(attempt: LoginAttempt, code: string, nonce?: string): Promise<Grant> {
    const answer = await oauth.authorizationCodeGrant(this.#client, callbackUrl(attempt, code), {
      pkceCodeVerifier: attempt.verifier,
      expectedState: attempt.state,
      ...(nonce === undefined ? {} : { expectedNonce: nonce, idTokenExpected: true }),
    });
    return { accessToken: answer.access_token, claims: answer.claims() ?? {} };
  }

  /** JSON from the provider's API. */
  async read(url: URL, accessToken: string): Promise<unknown> {
    const headers = new Headers({ Accept: 'application/json', 'User-Agent': 'signpost' });
    const answer = await oauth.fetchProtectedResource(this.#client, accessToken, url, 'GET', null, headers);
    if (!answer.ok) throw new ProviderAnswer(answer.status);
    return answer.json();
  }
}

/** The provider's API answered with something else than a success. */
class ProviderAnswer extends Error {
  readonly status: number;
  constructor(status: number) {
    super(`the provider answered ${status}`);
    this.status = status;
  }
}

/**
 * The few lines of a provider's metadata that a login needs. Left out on purpose: that it sends `iss` with the code.
 * Our callback is given `code` and `state` only; providers can't be mixed up, since a state belongs to one of them.
 */
function codeFlowMetadata(found: Readonly<oauth.ServerMetadata>): oauth.ServerMetadata {
  const { issuer, authorization_endpoint, token_endpoint, jwks_uri } = found;
  if (!authorization_endpoint || !token_endpoint || !jwks_uri)
    throw new Error(`the metadata of ${issuer} lacks endpoints`);
  const id_token_signing_alg_values_supported = found.id_token_signing_alg_values_supported ?? ['RS256'];
  return { issuer, authorization_endpoint, token_endpoint, jwks_uri, id_token_signing_alg_values_supported };
}

/** The address to which the browser came back, as it was before the page behind it took code and state out of it. */
function callbackUrl(attempt: LoginAttempt, code: string): URL {
  const url = new URL(attempt.redirectUri);
  url.searchParams.set('code', code);
  url.searchParams.set('state', attempt.state);
  return url;
}

/** openid-client error codes for an untrustworthy answer or id token. Any other code means that the provider is unavailable. */
const disbelief = new Set([
  'OAUTH_INVALID_RESPONSE',
  'OAUTH_JWT_CLAIM_COMPARISON_FAILED',
  'OAUTH_JSON_ATTRIBUTE_COMPARISON_FAILED',
  'OAUTH_JWT_TIMESTAMP_CHECK_FAILED',
  'OAUTH_KEY_SELECTION_FAILED',
]);

/** What a failure means: the login is not to be believed, or the provider can't be asked. */
export function outcomeOf(error: unknown): 'refused' | 'unavailable' {
  if (error instanceof ProviderAnswer) return outcomeOfStatus(error.status);
  if (error instanceof oauth.ResponseBodyError) return outcomeOfStatus(error.status);
  if (error instanceof oauth.AuthorizationResponseError) return 'refused';
  if (error instanceof oauth.WWWAuthenticateChallengeError) return outcomeOfStatus(error.status);
  if (!(error instanceof oauth.ClientError)) return 'unavailable';
  if (error.cause instanceof Response) return outcomeOfStatus(error.cause.status);
  return disbelief.has(error.code ?? '') ? 'refused' : 'unavailable';
}

/** GitHub refuses a code with a 200 that holds an error. */
function outcomeOfStatus(status: number): 'refused' | 'unavailable' {
  return status < 500 && status !== 429 ? 'refused' : 'unavailable';
}

/** A provider's address from a setting. Tokens travel over it: without TLS it may only be this very machine. @throws */
export function providerUrl(setting: string, text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : null;
  if (url && (url.protocol === 'https:' || isInsecure(url))) return url;
  throw new Error(`${setting} must be a URL with https:// (http:// only on loopback)`);
}

function isInsecure(url: URL): boolean {
  return url.protocol === 'http:' && ['127.0.0.1', '[::1]', 'localhost'].includes(url.hostname);
}
