import { Type } from 'typebox';
import { unauthorized } from '#common/http/rejection.ts';
import { authRoute, RefreshTokenBody, tag, tokenPairExample } from './parts.ts';

export const logout = authRoute({
  method: 'POST',
  path: '/auth/logout',
  operationId: 'logout',
  caller: 'public',
  limit: 'auth',
  tag,
  summary: 'Log out',
  description: 'Revokes every refresh token of the same login. The access token stays valid until it expires.',
  body: RefreshTokenBody,
  bodyExample: { refresh_token: tokenPairExample.refresh_token },
  answers: {
    200: {
      description: 'Revoked. Revoking again gives the same answer.',
      schema: Type.Object({ revoked: Type.Literal(true) }),
      example: { revoked: true },
    },
  },
  async handle({ auth }, { body }) {
    return (await auth.sessions.end(body.refresh_token)) ? { status: 200, body: { revoked: true } } : unauthorized();
  },
});
