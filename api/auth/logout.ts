import { Type } from 'typebox';
import { unauthorized } from '#common/http/rejection.ts';
import { RefreshTokenBody, route, tag, tokenPairExample } from './parts.ts';

export const logout = route({
  method: 'POST',
  path: '/auth/logout',
  caller: 'public',
  limit: 'auth',
  tag,
  summary: 'Log out',
  description: 'Revokes every refresh token that came from the same login. The access token lives on until it expires.',
  body: RefreshTokenBody,
  bodyExample: { refresh_token: tokenPairExample.refresh_token },
  answers: {
    200: {
      description: 'Revoked; also when it had been before.',
      schema: Type.Object({ revoked: Type.Literal(true) }),
      example: { revoked: true },
    },
  },
  async handle({ auth }, { body }) {
    return (await auth.sessions.end(body.refresh_token)) ? { status: 200, body: { revoked: true } } : unauthorized();
  },
});
