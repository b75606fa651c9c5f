import { Type } from 'typebox';
import { nothingChanged } from '#api/audit-trail.ts';
import type { Changes } from '#api/route.ts';
import { forbidden, notFound, unauthorized, unavailable } from '#common/http/rejection.ts';
import { routesOf } from '#common/http/route.ts';
import { isOwnPage, shownBindings } from './oauth-binding.ts';
import { type AuthDeps, TokenPairSchema, tag, tokenPairExample } from './parts.ts';
import { refusedSecondStep } from './second-step.ts';

const changingRoute = routesOf<AuthDeps, null, Changes>();

export const oauthCallback = changingRoute({
  method: 'POST',
  path: '/auth/oauth/{provider}/callback',
  operationId: 'completeOAuthLogin',
  caller: 'public',
  limit: 'auth',
  tag,
  summary: 'Complete a login through an identity provider',
  description:
    'The first login through a provider is linked to the account with the same e-mail address, which the provider must have verified. If there is no such account, the answer is 403, or an account is created if OAUTH_SIGNUP is on. Later logins are recognized by the user ID that the provider assigns, even if the e-mail address changes. If the user has a second factor, the answer is 401 with details.reason totp_required until the call is repeated with a totp_code, and totp_invalid while that code is wrong. The code and the state stay valid for these repeats until 10 minutes after the start.',
  params: Type.Object({ provider: Type.String({ description: 'Name of the provider: google or github.' }) }),
  body: Type.Object(
    {
      code: Type.String({ minLength: 1, maxLength: 4096 }),
      state: Type.String({ minLength: 1, maxLength: 1024 }),
      totp_code: Type.Optional(
        Type.String({
          minLength: 1,
          maxLength: 64,
          description:
            'Required if the user has a second factor: a code from the authenticator app, or a recovery code.',
        }),
      ),
      code_verifier: Type.Optional(
        Type.String({
          minLength: 43,
          maxLength: 128,
          description: 'The code_verifier of the code_challenge that was sent to the start call.',
        }),
      ),
    },
    { additionalProperties: false },
  ),
  bodyExample: { code: '4/0AbCdEf', state: 'b1kq0b8F7b3s0oYFvX1n5bK2bqJ8o1oPpZrYwq0c9uE' },
  answers: { 200: { description: 'A token pair.', schema: TokenPairSchema, example: tokenPairExample } },
  refuse: ({ auth }, params) => (auth.providers.has(params.provider) ? null : notFound()),
  async handle({ auth }, { params, body, header, ip, note }) {
    const provider = auth.providers.get(params.provider);
    if (!provider) return notFound();
    const shown = shownBindings(body.state, body.code_verifier, header('cookie'));
    const mustShow = isOwnPage(header, auth.publicOrigin);
    const attempt = await auth.attempts.take({ provider: provider.name, ...body }, shown, mustShow);
    if (!attempt)
      return unauthorized(
        'This login was started by another client, has expired, or is already complete. Start again.',
      );
    let person = attempt.userId === null ? null : { userId: attempt.userId, noted: nothingChanged };
    if (person === null) {
      const identity = await provider.identity(attempt, body.code);
      if (identity === 'unavailable')
        return unavailable('The identity provider is not responding. Start the login again later.');
      if (identity === 'refused')
        return unauthorized('The identity provider rejected this login, or did not confirm an e-mail address.');
      person = await auth.accounts.ofIdentity(identity, auth.allowsSignup, note);
    }
    const account = person && (await auth.accounts.byId(person.userId));
    if (!person || !account)
      return forbidden('There is no account for this e-mail address. Ask an administrator to create one.');
    const refusal = await refusedSecondStep(auth, account, body.totp_code, ip);
    if (refusal) {
      await auth.attempts.putBack(provider.name, attempt, body.code, account.id);
      return refusal;
    }
    const pair = await auth.sessions.begin(account.id, null);
    return pair
      ? { status: 200, body: pair, noted: person.noted }
      : forbidden('There is no account for this e-mail address. Ask an administrator to create one.');
  },
});
