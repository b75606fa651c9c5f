/** The endpoints with which users set up their second factor. Each asks for what a stolen access token does not have. */
import { Type } from 'typebox';
import type { UserCaller } from '#api/route.ts';
import { invalid, notFound, Rejection, unauthorized } from '#common/http/rejection.ts';
import { routesOf } from '#common/http/route.ts';
import { type AuthDeps, tag } from './parts.ts';
import { attempted } from './second-step.ts';

const route = routesOf<AuthDeps, UserCaller>();
const codeBody = Type.Object(
  { totp_code: Type.String({ minLength: 1, maxLength: 64, description: 'Of the authenticator, or a recovery code.' }) },
  { additionalProperties: false },
);
const shared = { method: 'POST', caller: 'user', limit: 'general', tag } as const;
const isOff = { status: 200, body: { totp_enabled: false } } as const;

export const beginTotp = route({
  ...shared,
  path: '/me/totp',
  summary: 'Begin to set up a second factor',
  description:
    'Gives a secret for an authenticator; it counts once POST /me/totp/confirm has shown a code of it. An account that has a password sends it.',
  body: Type.Object(
    { password: Type.Optional(Type.String({ minLength: 1, maxLength: 1024 })) },
    { additionalProperties: false },
  ),
  bodyExample: { password: 'correct horse battery staple' },
  answers: {
    200: {
      description: 'What the authenticator is given.',
      schema: Type.Object({ secret: Type.String(), otpauth_url: Type.String() }),
      example: {
        secret: 'JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP',
        otpauth_url: 'otpauth://totp/Signpost:ada%40example.com?secret=JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP',
      },
    },
  },
  async handle({ auth }, { caller, body, ip }) {
    const account = await auth.accounts.byId(caller.user_id);
    if (!account) return unauthorized();
    if (account.password_hash !== null) {
      const { password } = body;
      if (password === undefined) return invalid('password', 'is required');
      const isRight = await attempted(auth, account.email, ip, async () => {
        const verdict = await auth.passwords.check(account.password_hash, password, ip);
        return verdict === 'busy' ? 'busy' : verdict === 'right';
      });
      if (isRight instanceof Rejection) return isRight;
      if (!isRight) return invalid('password', 'is wrong');
    }
    const begun = await auth.secondFactor.begin(caller.user_id, account.email);
    return begun
      ? { status: 200, body: begun }
      : invalid('body', 'a second factor is set up already: disable it first');
  },
});

export const confirmTotp = route({
  ...shared,
  path: '/me/totp/confirm',
  summary: 'Finish setting up a second factor',
  description:
    'From now on every login asks for a code, with a password or through a provider. The recovery codes are shown this once; each is good once.',
  body: codeBody,
  bodyExample: { totp_code: '123456' },
  answers: {
    200: {
      description: 'It is set up.',
      schema: Type.Object({ totp_enabled: Type.Literal(true), recovery_codes: Type.Array(Type.String()) }),
      example: { totp_enabled: true, recovery_codes: ['abcd-efgh-ijkl-mnop'] },
    },
  },
  async handle({ auth }, { caller, body }) {
    const recovery_codes = await auth.secondFactor.confirm(caller.user_id, body.totp_code);
    if (!recovery_codes) return invalid('totp_code', 'is not the current code of a secret that waits to be confirmed');
    return { status: 200, body: { totp_enabled: true, recovery_codes } };
  },
});

export const disableTotp = route({
  ...shared,
  path: '/me/totp/disable',
  summary: 'Disable the second factor',
  body: codeBody,
  bodyExample: { totp_code: '123456' },
  answers: {
    200: {
      description: 'Logins ask for no code any more.',
      schema: Type.Object({ totp_enabled: Type.Literal(false) }),
      example: isOff.body,
    },
  },
  async handle({ auth }, { caller, body, ip }) {
    const { secondFactor } = auth;
    if (!(await secondFactor.isEnabled(caller.user_id))) return notFound('No second factor is set up.');
    const check = () => secondFactor.take(caller.user_id, body.totp_code);
    const isRight = await attempted(auth, `totp:${caller.user_id}`, ip, check);
    if (isRight instanceof Rejection) return isRight;
    if (!isRight) return invalid('totp_code', 'is not a current code, or was used before');
    await secondFactor.disable(caller.user_id);
    return isOff;
  },
});
