import { Type } from 'typebox';
import { forbidden, notFound, unauthorized, unavailable } from '#common/http/rejection.ts';
import { shownBindings } from './oauth-binding.ts';
import { route, TokenPairSchema, tag, tokenPairExample } from './parts.ts';
import { refusedSecondStep } from './second-step.ts';

export const oauthCallback = route({
  method: 'POST',
  path: '/auth/oauth/{provider}/callback',
  caller: 'public',
  limit: 'auth',
  tag,
  summary: 'Finish a login through a provider',
  description:
    'The first login of a person at a provider needs an account with an e-mail address that the provider has verified; without one it is a 403, or the account is made if OAUTH_SIGNUP is on. From then on the person is known by the provider’s own name for them, whatever their address is. Who has set up a second factor is answered 401 with details.reason totp_required until the same call comes with a totp_code too, and totp_invalid when that is not right; code and state stay good for it, for 10 minutes from the start.',
  params: Type.Object({ provider: Type.String({ description: 'google or github' }) }),
  body: Type.Object(
    {
      code: Type.String({ minLength: 1, maxLength: 4096 }),
      state: Type.String({ minLength: 1, maxLength: 1024 }),
      totp_code: Type.Optional(
        Type.String({
          minLength: 1,
          maxLength: 64,
          description: 'For who has set up a second factor: a code of the authenticator, or a recovery code.',
        }),
      ),
      code_verifier: Type.Optional(
        Type.String({ minLength: 43, maxLength: 128, description: 'Of the code_challenge that the login began with.' }),
      ),
    },
    { additionalProperties: false },
  ),
  bodyExample: { code: '4/0AbCdEf', state: 'b1kq0b8F7b3s0oYFvX1n5bK2bqJ8o1oPpZrYwq0c9uE' },
  answers: { 200: { description: 'A token pair.', schema: TokenPairSchema, example: tokenPairExample } },
  refuse: ({ auth }, params) => (auth.providers.has(params.provider) ? null : notFound()),
  async handle({ auth }, { params, body, header, ip }) {
    const provider = auth.providers.get(params.provider);
    if (!provider) return notFound();
    const shown = shownBindings(body.state, body.code_verifier, header('cookie'));
    const attempt = await auth.attempts.take(provider.name, body.state, body.code, shown);
    if (!attempt) return unauthorized('The login was not started here by you, has expired, or was finished before.');
    let { userId } = attempt;
    if (userId === null) {
      const identity = await provider.identity(attempt, body.code);
      if (identity === 'unavailable') return unavailable('The provider does not answer. Start the login again later.');
      if (identity === 'refused') return unauthorized('The provider does not vouch for this login.');
      userId = await auth.accounts.ofIdentity(identity, auth.allowsSignup);
    }
    const account = userId === null ? null : await auth.accounts.byId(userId);
    if (!account) return forbidden('There is no account for this login.');
    const refusal = await refusedSecondStep(auth, account, body.totp_code, ip);
    if (refusal) {
      await auth.attempts.putBack(provider.name, attempt, body.code, account.id);
      return refusal;
    }
    const pair = await auth.sessions.begin(account.id, null);
    return pair ? { status: 200, body: pair } : forbidden('There is no account for this login.');
  },
});
