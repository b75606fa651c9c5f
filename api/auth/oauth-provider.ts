/** A person's identity from Google (OpenID Connect) or GitHub (OAuth 2.0 and an API). */
import { createHash } from 'node:crypto';
import { isEmailAddress, plainEmail } from '#common/email-address.ts';
import type { ProcessConfig } from '#common/process/config-roles.ts';
import { isPlainLine, plainName } from '#common/visible-text.ts';
import type { Identity } from './accounts.ts';
import { type ClientCredentials, type LoginAttempt, OAuthClient, outcomeOf, providerUrl } from './oauth-client.ts';

export type ProviderName = 'google' | 'github';

/** How long a provider's published metadata is used before it is read again. */
const METADATA_MS = 60 * 60 * 1000;

/**
 * `refused`: the provider did not accept the code, confirmed no e-mail address, or says what cannot be. `unavailable`: it
 * does not respond.
 */
export type IdentityOutcome = Identity | 'refused' | 'unavailable';

export interface OAuthProvider {
  readonly name: ProviderName;
  authorizationUrl(attempt: LoginAttempt): Promise<string | 'unavailable'>;
  identity(attempt: LoginAttempt, code: string): Promise<IdentityOutcome>;
}

/**
 * The configured providers: those with a client id, if there is at least one redirect URL. @throws if a setting of one
 * of them is missing or not a usable URL.
 */
export function oauthProviders(config: ProcessConfig<'api'>): ReadonlyMap<string, OAuthProvider> {
  const providers = new Map<string, OAuthProvider>();
  if (config.OAUTH_REDIRECT_URIS.length === 0) return providers;
  for (const uri of config.OAUTH_REDIRECT_URIS) checkRedirectUri(uri);
  if (config.OAUTH_GOOGLE_CLIENT_ID !== '') providers.set('google', new Google(config));
  if (config.OAUTH_GITHUB_CLIENT_ID !== '') providers.set('github', new Github(config));
  return providers;
}

class Google implements OAuthProvider {
  readonly name = 'google';
  readonly #issuer: URL;
  readonly #credentials: ClientCredentials;
  #known: { client: OAuthClient; untilMs: number } | null = null;

  constructor(config: ProcessConfig<'api'>) {
    this.#issuer = providerUrl('OAUTH_GOOGLE_ISSUER', config.OAUTH_GOOGLE_ISSUER);
    this.#credentials = credentialsOf(config, 'OAUTH_GOOGLE_CLIENT');
  }

  async authorizationUrl(attempt: LoginAttempt): Promise<string | 'unavailable'> {
    try {
      const client = await this.#client();
      return await client.authorizationUrl(attempt, { scope: 'openid email profile', nonce: nonceOf(attempt) });
    } catch {
      return 'unavailable';
    }
  }

  async identity(attempt: LoginAttempt, code: string): Promise<IdentityOutcome> {
    try {
      const client = await this.#client();
      const { claims } = await client.exchange(attempt, code, nonceOf(attempt));
      const { sub, email, email_verified, name } = claims;
      return identityOf(this.name, sub, email_verified === true ? [email] : [], name);
    } catch (error) {
      return outcomeOf(error);
    }
  }

  async #client(): Promise<OAuthClient> {
    if (this.#known && this.#known.untilMs > Date.now()) return this.#known.client;
    const client = await OAuthClient.discover(this.#issuer, this.#credentials);
    this.#known = { client, untilMs: Date.now() + METADATA_MS };
    return client;
  }
}

/** GitHub supports OAuth 2.0 without OpenID Connect, so the identity comes from its API. Also GitHub Enterprise Server. */
class Github implements OAuthProvider {
  readonly name = 'github';
  readonly #client: OAuthClient;
  readonly #api: string;

  constructor(config: ProcessConfig<'api'>) {
    const root = withoutSlash(providerUrl('OAUTH_GITHUB_URL', config.OAUTH_GITHUB_URL));
    const endpoints = {
      issuer: root,
      authorization_endpoint: `${root}/login/oauth/authorize`,
      token_endpoint: `${root}/login/oauth/access_token`,
    };
    this.#client = OAuthClient.at(endpoints, credentialsOf(config, 'OAUTH_GITHUB_CLIENT'));
    this.#api = withoutSlash(providerUrl('OAUTH_GITHUB_API_URL', config.OAUTH_GITHUB_API_URL));
  }

  authorizationUrl(attempt: LoginAttempt): Promise<string> {
    return this.#client.authorizationUrl(attempt, { scope: 'read:user user:email' });
  }

  async identity(attempt: LoginAttempt, code: string): Promise<IdentityOutcome> {
    try {
      const { accessToken } = await this.#client.exchange(attempt, code);
      const [emails, user] = await Promise.all([
        this.#client.read(new URL(`${this.#api}/user/emails?per_page=100`), accessToken),
        this.#client.read(new URL(`${this.#api}/user`), accessToken),
      ]);
      return identityOf(this.name, idOf(user), verifiedEmails(emails), nameOf(user));
    } catch (error) {
      return outcomeOf(error);
    }
  }
}

/** Derived from the verifier, which only the server has, so that nothing else must be stored. */
function nonceOf(attempt: LoginAttempt): string {
  return createHash('sha256').update(`nonce:${attempt.verifier}`).digest('base64url');
}

const SUBJECT_CHARACTERS_MAX = 255;

/**
 * A provider may pass on whatever a person has written there, so nothing of it is taken for granted. Texts that are no
 * address are left out; without an address, or with an id or a name that is no text, the login is refused.
 */
function identityOf(
  provider: ProviderName,
  subject: unknown,
  addresses: readonly unknown[],
  name: unknown = '',
): IdentityOutcome {
  if (typeof subject !== 'string' || subject === '' || subject.length > SUBJECT_CHARACTERS_MAX) return 'refused';
  if (!isPlainLine(subject)) return 'refused';
  const [preferred, ...others] = addresses
    .filter((one): one is string => typeof one === 'string' && isEmailAddress(one))
    .map(plainEmail);
  if (preferred === undefined) return 'refused';
  if (typeof name !== 'string' && name !== null) return 'refused';
  if (name !== null && /[\0\p{Cs}]/u.test(name)) return 'refused';
  return { provider, subject, emails: [preferred, ...others], name: plainName(name ?? '') };
}

/** The preferred one first. */
function verifiedEmails(answer: unknown): unknown[] {
  if (!Array.isArray(answer)) return [];
  const found: { email: unknown; isPrimary: boolean }[] = [];
  for (const entry of answer as unknown[]) {
    if (typeof entry !== 'object' || entry === null || !('email' in entry)) continue;
    if (!('verified' in entry) || entry.verified !== true) continue;
    found.push({ email: entry.email, isPrimary: 'primary' in entry && entry.primary === true });
  }
  return found.sort((a, b) => Number(b.isPrimary) - Number(a.isPrimary)).map(({ email }) => email);
}

/** GitHub's numeric user id. A login name can be changed and then be taken by someone else. */
function idOf(user: unknown): string | null {
  if (typeof user !== 'object' || user === null || !('id' in user)) return null;
  return Number.isSafeInteger(user.id) ? String(user.id) : null;
}

/** GitHub's users need not have a name. */
function nameOf(user: unknown): unknown {
  if (typeof user !== 'object' || user === null) return '';
  if ('name' in user && user.name !== '' && user.name !== null) return user.name;
  return 'login' in user ? user.login : '';
}

/** Both calls of a login must use exactly the same URL, and the client sends it without a query. */
function checkRedirectUri(text: string): void {
  const url = URL.canParse(text) ? new URL(text) : null;
  if (url && url.href === text && url.search === '' && url.hash === '') return;
  const right = url ? url.origin + url.pathname : 'https://dashboard.example.com/callback';
  throw new Error(`OAUTH_REDIRECT_URIS: ${JSON.stringify(text)} must be a complete URL without a query, like ${right}`);
}

function credentialsOf(
  config: ProcessConfig<'api'>,
  prefix: 'OAUTH_GOOGLE_CLIENT' | 'OAUTH_GITHUB_CLIENT',
): ClientCredentials {
  const secret = config[`${prefix}_SECRET`];
  if (secret === '') throw new Error(`${prefix}_ID is set and ${prefix}_SECRET is not: set both or neither`);
  return { id: config[`${prefix}_ID`], secret };
}

function withoutSlash(url: URL): string {
  return url.href.replace(/\/$/, '');
}
