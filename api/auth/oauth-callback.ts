import { Type } from 'typebox';
import { forbidden, notFound, unauthorized, unavailable } from '#common/http/rejection.ts';
import { route, TokenPairSchema, tag, tokenPairExample } from './parts.ts';

export const oauthCallback = route({
  method: 'POST',
  path: '/auth/oauth/{provider}/callback',
  caller: 'public',
  limit: 'auth',
  tag,
  summary: 'Finish a login through a provider',
  description:
    'Needs an account with an e-mail address that the provider has verified; without one it is a 403, or the account is made if OAUTH_SIGNUP is on.',
  params: Type.Object({ provider: Type.String({ description: 'google or github' }) }),
  body: Type.Object(
    { code: Type.String({ minLength: 1, maxLength: 4096 }), state: Type.String({ minLength: 1, maxLength: 1024 }) },
    { additionalProperties: false },
  ),
  bodyExample: { code: '4/0AbCdEf', state: 'b1kq0b8F7b3s0oYFvX1n5bK2bqJ8o1oPpZrYwq0c9uE' },
  answers: { 200: { description: 'A token pair.', schema: TokenPairSchema, example: tokenPairExample } },
  refuse: ({ auth }, params) => (auth.providers.has(params.provider) ? null : notFound()),
  async handle({ auth }, { params, body }) {
    const provider = auth.providers.get(params.provider);
    if (!provider) return notFound();
    const attempt = await auth.attempts.take(provider.name, body.state);
    if (!attempt) return unauthorized('The login was not started here, has expired, or was finished before.');
    const identity = await provider.identity(attempt, body.code);
    if (identity === 'unavailable') return unavailable('The provider does not answer. Start the login again later.');
    if (identity === 'refused') return unauthorized('The provider does not vouch for this login.');
    const known = await auth.accounts.byIdentity(identity);
    if (!known && !auth.allowsSignup) return forbidden('There is no account for this login.');
    const account = known ?? (await auth.accounts.signUp(identity));
    const pair = await auth.sessions.begin(account.id, null);
    return pair ? { status: 200, body: pair } : forbidden('There is no account for this login.');
  },
});
