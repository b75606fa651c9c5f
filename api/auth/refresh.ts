import { unauthorized } from '#common/http/rejection.ts';
import { authRoute, RefreshTokenBody, TokenPairSchema, tag, tokenPairExample } from './parts.ts';

export const refresh = authRoute({
  method: 'POST',
  path: '/auth/refresh',
  operationId: 'refreshTokens',
  caller: 'public',
  limit: 'auth',
  tag,
  summary: 'Renew the tokens',
  description: 'Each refresh token works once. Using one again revokes every token of the same login.',
  body: RefreshTokenBody,
  bodyExample: { refresh_token: tokenPairExample.refresh_token },
  answers: { 200: { description: 'A new token pair.', schema: TokenPairSchema, example: tokenPairExample } },
  async handle({ auth }, { body }) {
    const pair = await auth.sessions.renew(body.refresh_token);
    return pair ? { status: 200, body: pair } : unauthorized();
  },
});
