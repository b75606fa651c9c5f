/**
 * Login through google (OpenID Connect) and github (OAuth 2.0): authorization code with PKCE (RFC 7636).
 * The only file that knows openid-client.
 */
import { createHash } from 'node:crypto';
import * as oauth from 'openid-client';
import type { Config } from '#common/config.ts';
import { type Identity, plainEmail } from './accounts.ts';

export type ProviderName = 'google' | 'github';

const TIMEOUT_SECONDS = 5;
/** How long a provider's published metadata is used before it is read again. */
const METADATA_MS = 60 * 60 * 1000;

/** What is kept between start and callback. */
export interface LoginAttempt {
  readonly state: string;
  readonly verifier: string;
  readonly redirectUri: string;
}

/** `refused`: the provider did not accept the code, or vouches for no e-mail address. `unavailable`: it can't be asked. */
export type IdentityOutcome = Identity | 'refused' | 'unavailable';

export interface OAuthProvider {
  readonly name: ProviderName;
  authorizationUrl(attempt: LoginAttempt): Promise<string | 'unavailable'>;
  identity(attempt: LoginAttempt, code: string): Promise<IdentityOutcome>;
}

/** The providers that are configured: a client id each, and at least one address to return to. @throws on a bad URL. */
export function oauthProviders(config: Config): ReadonlyMap<string, OAuthProvider> {
  const providers = new Map<string, OAuthProvider>();
  if (config.OAUTH_REDIRECT_URIS.length === 0) return providers;
  if (config.OAUTH_GOOGLE_CLIENT_ID !== '') providers.set('google', new Google(config));
  if (config.OAUTH_GITHUB_CLIENT_ID !== '') providers.set('github', new Github(config));
  return providers;
}

class Google implements OAuthProvider {
  readonly name = 'google';
  readonly #issuer: URL;
  readonly #clientId: string;
  readonly #clientSecret: string;
  #known: { client: oauth.Configuration; untilMs: number } | null = null;

  constructor(config: Config) {
    this.#issuer = providerUrl('OAUTH_GOOGLE_ISSUER', config.OAUTH_GOOGLE_ISSUER);
    this.#clientId = config.OAUTH_GOOGLE_CLIENT_ID;
    this.#clientSecret = config.OAUTH_GOOGLE_CLIENT_SECRET;
  }

  async authorizationUrl(attempt: LoginAttempt): Promise<string | 'unavailable'> {
    try {
      const more = { scope: 'openid email profile', nonce: nonceOf(attempt) };
      return await authorizationUrl(await this.#client(), attempt, more);
    } catch {
      return 'unavailable';
    }
  }

  async identity(attempt: LoginAttempt, code: string): Promise<IdentityOutcome> {
    try {
      const answer = await oauth.authorizationCodeGrant(await this.#client(), callbackUrl(attempt, code), {
        pkceCodeVerifier: attempt.verifier,
        expectedState: attempt.state,
        expectedNonce: nonceOf(attempt),
        idTokenExpected: true,
      });
      const claims = answer.claims();
      const email = claims?.['email'];
      if (typeof email !== 'string' || email === '' || claims?.['email_verified'] !== true) return 'refused';
      const name = claims['name'];
      return { emails: [plainEmail(email)], name: typeof name === 'string' ? name : '' };
    } catch (error) {
      return outcomeOf(error);
    }
  }

  async #client(): Promise<oauth.Configuration> {
    if (this.#known && this.#known.untilMs > Date.now()) return this.#known.client;
    const found = await oauth.discovery(
      this.#issuer,
      this.#clientId,
      undefined,
      oauth.ClientSecretPost(this.#clientSecret),
      { timeout: TIMEOUT_SECONDS, ...(isInsecure(this.#issuer) ? { execute: [oauth.allowInsecureRequests] } : {}) },
    );
    const metadata = codeFlowMetadata(found.serverMetadata());
    const client = clientOf(metadata, this.#clientId, this.#clientSecret, this.#issuer);
    this.#known = { client, untilMs: Date.now() + METADATA_MS };
    return client;
  }
}

/** GitHub speaks OAuth 2.0 without OpenID Connect: who somebody is, its API says. Also GitHub Enterprise Server. */
class Github implements OAuthProvider {
  readonly name = 'github';
  readonly #client: oauth.Configuration;
  readonly #api: string;

  constructor(config: Config) {
    const base = providerUrl('OAUTH_GITHUB_URL', config.OAUTH_GITHUB_URL);
    const root = base.href.replace(/\/$/, '');
    const metadata = {
      issuer: root,
      authorization_endpoint: `${root}/login/oauth/authorize`,
      token_endpoint: `${root}/login/oauth/access_token`,
    };
    this.#client = clientOf(metadata, config.OAUTH_GITHUB_CLIENT_ID, config.OAUTH_GITHUB_CLIENT_SECRET, base);
    this.#api = providerUrl('OAUTH_GITHUB_API_URL', config.OAUTH_GITHUB_API_URL).href.replace(/\/$/, '');
  }

  authorizationUrl(attempt: LoginAttempt): Promise<string> {
    return authorizationUrl(this.#client, attempt, { scope: 'read:user user:email' });
  }

  async identity(attempt: LoginAttempt, code: string): Promise<IdentityOutcome> {
    try {
      const answer = await oauth.authorizationCodeGrant(this.#client, callbackUrl(attempt, code), {
        pkceCodeVerifier: attempt.verifier,
        expectedState: attempt.state,
      });
      const [emails, user] = await Promise.all([
        this.#ask('/user/emails?per_page=100', answer.access_token),
        this.#ask('/user', answer.access_token),
      ]);
      const [preferred, ...others] = verifiedEmails(emails);
      if (preferred === undefined) return 'refused';
      return { emails: [preferred, ...others], name: nameOf(user) };
    } catch (error) {
      return outcomeOf(error);
    }
  }

  async #ask(path: string, accessToken: string): Promise<unknown> {
    const headers = new Headers({ Accept: 'application/vnd.github+json', 'User-Agent': 'signpost' });
    const url = new URL(this.#api + path);
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

function clientOf(metadata: oauth.ServerMetadata, id: string, secret: string, base: URL): oauth.Configuration {
  const client = new oauth.Configuration(metadata, id, undefined, oauth.ClientSecretPost(secret));
  client.timeout = TIMEOUT_SECONDS;
  if (isInsecure(base)) oauth.allowInsecureRequests(client);
  return client;
}

async function authorizationUrl(
  client: oauth.Configuration,
  attempt: LoginAttempt,
  more: Record<string, string>,
): Promise<string> {
  const url = oauth.buildAuthorizationUrl(client, {
    ...more,
    redirect_uri: attempt.redirectUri,
    state: attempt.state,
    code_challenge: await oauth.calculatePKCECodeChallenge(attempt.verifier),
    code_challenge_method: 'S256',
  });
  return url.href;
}

/** The address to which the browser came back, as it was before the page behind it took code and state out of it. */
function callbackUrl(attempt: LoginAttempt, code: string): URL {
  const url = new URL(attempt.redirectUri);
  url.searchParams.set('code', code);
  url.searchParams.set('state', attempt.state);
  return url;
}

/** Made from the verifier, which only the server has, so that nothing more must be kept. */
function nonceOf(attempt: LoginAttempt): string {
  return createHash('sha256').update(`nonce:${attempt.verifier}`).digest('base64url');
}

/** Refusals name a fault in the code or the answer; all else (sockets, time-outs, 5xx) is the provider being away. */
function outcomeOf(error: unknown): 'refused' | 'unavailable' {
  if (error instanceof ProviderAnswer) return error.status < 500 && error.status !== 429 ? 'refused' : 'unavailable';
  if (error instanceof oauth.ResponseBodyError) return error.status < 500 ? 'refused' : 'unavailable';
  if (error instanceof oauth.AuthorizationResponseError || error instanceof oauth.WWWAuthenticateChallengeError) {
    return 'refused';
  }
  if (error instanceof oauth.ClientError) return error.code === 'OAUTH_TIMEOUT' ? 'unavailable' : 'refused';
  return 'unavailable';
}

function verifiedEmails(answer: unknown): string[] {
  if (!Array.isArray(answer)) return [];
  const found: { email: string; isPrimary: boolean }[] = [];
  for (const entry of answer as unknown[]) {
    if (typeof entry !== 'object' || entry === null) continue;
    if (!('email' in entry) || typeof entry.email !== 'string' || entry.email === '') continue;
    if (!('verified' in entry) || entry.verified !== true) continue;
    found.push({ email: plainEmail(entry.email), isPrimary: 'primary' in entry && entry.primary === true });
  }
  return found.sort((a, b) => Number(b.isPrimary) - Number(a.isPrimary)).map(({ email }) => email);
}

function nameOf(user: unknown): string {
  if (typeof user !== 'object' || user === null) return '';
  if ('name' in user && typeof user.name === 'string' && user.name !== '') return user.name;
  return 'login' in user && typeof user.login === 'string' ? user.login : '';
}

/** Tokens travel over this address: without TLS it may only be this very machine. */
function providerUrl(setting: string, text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : null;
  if (url && (url.protocol === 'https:' || isInsecure(url))) return url;
  throw new Error(`${setting} must be a URL with https:// (http:// only on loopback)`);
}

function isInsecure(url: URL): boolean {
  return url.protocol === 'http:' && ['127.0.0.1', '[::1]', 'localhost'].includes(url.hostname);
}
