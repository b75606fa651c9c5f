/**
 * The authorization-code flow with PKCE (RFC 6749, RFC 7636), as the providers use it. The only file that uses
 * openid-client.
 */
import * as oauth from 'openid-client';

const TIMEOUT_SECONDS = 5;

/** State stored between start and callback. */
export interface LoginAttempt {
  readonly state: string;
  readonly verifier: string;
  readonly redirectUri: string;
}

/** This service's registration at a provider. */
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

/** Its methods throw; `outcomeOf` classifies the errors. */
export class OAuthClient {
  readonly #client: oauth.Configuration;

  private constructor(metadata: oauth.ServerMetadata, { id, secret }: ClientCredentials) {
    this.#client = new oauth.Configuration(metadata, id, undefined, oauth.ClientSecretPost(secret));
    this.#client.timeout = TIMEOUT_SECONDS;
    if (isInsecure(new URL(metadata.issuer))) oauth.allowInsecureRequests(this.#client);
  }

  /** A provider with known endpoints. */
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

  /** @param nonce if given, a valid id token with this nonce is required. */
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

/** The provider's API answered with something other than success. */
class ProviderAnswer extends Error {
  readonly status: number;
  constructor(status: number) {
    super(`the provider answered ${status}`);
    this.status = status;
  }
}

/**
 * The part of a provider's metadata that a login needs. It deliberately omits that the provider sends `iss` with the
 * code. Our callback gets only `code` and `state`; providers can't be mixed up, because a state belongs to one
 * provider.
 */
function codeFlowMetadata(found: Readonly<oauth.ServerMetadata>): oauth.ServerMetadata {
  const { issuer, authorization_endpoint, token_endpoint, jwks_uri } = found;
  if (!authorization_endpoint || !token_endpoint || !jwks_uri)
    throw new Error(`the metadata of ${issuer} lacks endpoints`);
  const id_token_signing_alg_values_supported = found.id_token_signing_alg_values_supported ?? ['RS256'];
  return { issuer, authorization_endpoint, token_endpoint, jwks_uri, id_token_signing_alg_values_supported };
}

/** The address to which the browser returned, before its page removed code and state. */
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

/** Classifies a failure: the login is not trustworthy, or the provider is unavailable. */
export function outcomeOf(error: unknown): 'refused' | 'unavailable' {
  if (error instanceof ProviderAnswer) return outcomeOfStatus(error.status);
  if (error instanceof oauth.ResponseBodyError) return outcomeOfStatus(error.status);
  if (error instanceof oauth.AuthorizationResponseError) return 'refused';
  if (error instanceof oauth.WWWAuthenticateChallengeError) return outcomeOfStatus(error.status);
  if (!(error instanceof oauth.ClientError)) return 'unavailable';
  if (error.cause instanceof Response) return outcomeOfStatus(error.cause.status);
  return disbelief.has(error.code ?? '') ? 'refused' : 'unavailable';
}

/** GitHub rejects a code with a 200 response that contains an error. */
function outcomeOfStatus(status: number): 'refused' | 'unavailable' {
  return status < 500 && status !== 429 ? 'refused' : 'unavailable';
}

/** A provider's URL from a setting. Tokens are sent to it, so without TLS it must be on this machine. @throws */
export function providerUrl(setting: string, text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : null;
  if (url && (url.protocol === 'https:' || isInsecure(url))) return url;
  throw new Error(`${setting} must be a URL with https:// (http:// only on loopback)`);
}

function isInsecure(url: URL): boolean {
  return url.protocol === 'http:' && ['127.0.0.1', '[::1]', 'localhost'].includes(url.hostname);
}
