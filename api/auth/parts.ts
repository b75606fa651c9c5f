/** Dependencies of the authentication endpoints. */
import { Type } from 'typebox';
import type { AccessTokens } from '#common/access-token.ts';
import type { Clock } from '#common/clock.ts';
import { Encryption, type SecretKey } from '#common/encryption.ts';
import { routesOf } from '#common/http/route.ts';
import type { ProcessConfig } from '#common/process/config-roles.ts';
import type { Postgres } from '#common/stores/postgres.ts';
import type { Redis } from '#common/stores/redis.ts';
import { Accounts } from './accounts.ts';
import { BrowserSessions } from './browser-sessions.ts';
import { LoginThrottle } from './login-throttle.ts';
import { OAuthAttempts } from './oauth-attempts.ts';
import { type OAuthProvider, oauthProviders } from './oauth-provider.ts';
import { PasswordCheck } from './password.ts';
import { SecondFactor } from './second-factor.ts';
import { SessionCookies } from './session-cookie.ts';
import { Sessions } from './sessions.ts';

export interface AuthParts {
  readonly accounts: Accounts;
  readonly passwords: PasswordCheck;
  readonly throttle: LoginThrottle;
  readonly secondFactor: SecondFactor;
  readonly sessions: Sessions;
  readonly browserSessions: BrowserSessions;
  readonly cookies: SessionCookies;
  readonly providers: ReadonlyMap<string, OAuthProvider>;
  readonly attempts: OAuthAttempts;
  /** Addresses to which a login through a provider may return; the first is the default. */
  readonly redirectUris: readonly string[];
  /** Of the pages that the API serves; empty if API_PUBLIC_URL is. */
  readonly publicOrigin: string;
  /** Whether a login through a provider creates a missing account. */
  readonly allowsSignup: boolean;
}

/** The part of the API's dependencies that these endpoints use. */
export interface AuthDeps {
  readonly auth: AuthParts;
}

export interface AuthOptions {
  readonly db: Postgres;
  readonly redis: Redis;
  readonly secrets: readonly SecretKey[];
  readonly tokens: AccessTokens;
  readonly config: ProcessConfig<'api'>;
  readonly clock: Clock;
}

/** @throws when an OAuth setting is not an https URL. */
export function authParts({ db, redis, secrets, tokens, config, clock }: AuthOptions): AuthParts {
  return {
    accounts: new Accounts(db, clock),
    passwords: new PasswordCheck(),
    secondFactor: new SecondFactor(db, new Encryption(secrets), clock),
    throttle: new LoginThrottle({ redis, secrets, clock, freeAttempts: config.LOGIN_FAILURES_FREE }),
    sessions: new Sessions(db, tokens, clock),
    browserSessions: new BrowserSessions(db, clock),
    cookies: new SessionCookies(secrets),
    providers: oauthProviders(config),
    attempts: new OAuthAttempts(db, clock),
    redirectUris: config.OAUTH_REDIRECT_URIS,
    publicOrigin: config.API_PUBLIC_URL === '' ? '' : new URL(config.API_PUBLIC_URL).origin,
    allowsSignup: config.OAUTH_SIGNUP,
  };
}

/** Route builder of this folder: public routes without a caller. */
export const authRoute = routesOf<AuthDeps, null>();

export const tag = 'Authentication';

/** The response of login, refresh and OAuth callback. */
export const TokenPairSchema = Type.Object(
  {
    access_token: Type.String({ description: 'Send it as Authorization: Bearer.' }),
    refresh_token: Type.String({ description: 'Single use; valid for 24 hours.' }),
    expires_in: Type.Integer({ description: 'Lifetime of the access token in seconds.' }),
    token_type: Type.Literal('Bearer'),
  },
  { title: 'TokenPair' },
);

export const tokenPairExample = {
  access_token: 'eyJhbGciOiJIUzI1NiIsInR5cCI6ImF0K2p3dCIsImtpZCI6IjEifQ.eyJzdWIiOiJ1c3JfMDFrIn0.c2lnbmF0dXJl',
  refresh_token: 'Zk3n0Vb2yJ8m4m0rYF2o9tq1xQb7n3uK5s6a0cWdEgA',
  expires_in: 900,
  token_type: 'Bearer',
};

/** A refresh token as sent; its format is not checked, so that a wrong one is a 401 like any other. */
export const RefreshTokenBody = Type.Object(
  { refresh_token: Type.String({ minLength: 1, maxLength: 1024 }) },
  { additionalProperties: false },
);
