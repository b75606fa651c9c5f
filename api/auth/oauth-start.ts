import { Type } from 'typebox';
import { invalid, notFound, unavailable } from '#common/http/rejection.ts';
import { ATTEMPT_SECONDS } from './oauth-attempts.ts';
import { isOwnPage, newBinding } from './oauth-binding.ts';
import { authRoute, tag } from './parts.ts';

export const oauthStart = authRoute({
  method: 'POST',
  path: '/auth/oauth/{provider}/start',
  operationId: 'startOAuthLogin',
  caller: 'public',
  limit: 'auth',
  tag,
  summary: 'Start a login through an identity provider',
  description:
    'Send the browser to authorization_url. A provider that is not configured gives 404. A page on this origin gets a cookie that binds the login to its browser. Other clients send a code_challenge, or compare the returned state with the one in this answer.',
  params: Type.Object({ provider: Type.String({ description: 'Name of the provider: google or github.' }) }),
  body: Type.Object(
    {
      redirect_uri: Type.Optional(
        Type.String({ maxLength: 2048, description: 'One of OAUTH_REDIRECT_URIS. Default: the first one.' }),
      ),
      code_challenge: Type.Optional(
        Type.String({
          pattern: '^[A-Za-z0-9_-]{43}$',
          description:
            'base64url of the SHA-256 of a code_verifier. The callback must send that code_verifier, which binds the login to the client that started it.',
        }),
      ),
    },
    { additionalProperties: false },
  ),
  bodyExample: { redirect_uri: 'https://dashboard.example.com/callback' },
  answers: {
    200: {
      description: 'The URL to send the browser to.',
      schema: Type.Object({
        authorization_url: Type.String({ format: 'uri' }),
        state: Type.String({ description: 'Returned with the code; single use.' }),
        expires_in: Type.Integer({ description: 'Lifetime of the state in seconds.' }),
      }),
      example: {
        authorization_url: 'https://accounts.google.com/o/oauth2/v2/auth?client_id=signpost',
        state: 'b1kq0b8F7b3s0oYFvX1n5bK2bqJ8o1oPpZrYwq0c9uE',
        expires_in: ATTEMPT_SECONDS,
      },
    },
  },
  refuse: ({ auth }, params) => (auth.providers.has(params.provider) ? null : notFound()),
  async handle({ auth }, { params, body, header }) {
    const provider = auth.providers.get(params.provider);
    if (!provider) return notFound();
    const redirectUri = auth.redirectUris.find((allowed) => allowed === (body.redirect_uri ?? auth.redirectUris[0]));
    if (redirectUri === undefined) return invalid('redirect_uri', 'is not one of OAUTH_REDIRECT_URIS');
    const binding = newBinding(body.code_challenge, isOwnPage(header, auth.publicOrigin));
    const attempt = await auth.attempts.begin(provider.name, redirectUri, binding.hash);
    const url = await provider.authorizationUrl(attempt);
    if (url === 'unavailable') return unavailable('The identity provider is not responding. Try again later.');
    return {
      status: 200,
      body: { authorization_url: url, state: attempt.state, expires_in: ATTEMPT_SECONDS },
      headers: binding.cookie ? { 'Set-Cookie': binding.cookie(attempt.state) } : {},
    };
  },
});
