/** Endpoints to set up a second factor. Each requires a proof that a stolen access token does not provide. */
import { Type } from 'typebox';
import type { Changes, UserCaller } from '#api/route.ts';
import { invalid, notFound, Rejection, unauthorized } from '#common/http/rejection.ts';
import { routesOf } from '#common/http/route.ts';
import { type AuthDeps, tag } from './parts.ts';
import { attempted } from './second-step.ts';

const changingRoute = routesOf<AuthDeps, UserCaller, Changes>();
const codeBody = Type.Object(
  {
    totp_code: Type.String({
      minLength: 1,
      maxLength: 64,
      description: 'A code from the authenticator app, or a recovery code.',
    }),
  },
  { additionalProperties: false },
);
const shared = { method: 'POST', caller: 'user', scope: null, limit: 'general', tag } as const;
const isOff = { status: 200, body: { totp_enabled: false } } as const;

export const beginTotp = changingRoute({
  ...shared,
  path: '/me/totp',
  operationId: 'setUpTotp',
  showsSecret: true,
  summary: 'Start setting up a second factor',
  description:
    'Returns a secret for an authenticator app. The second factor becomes active when POST /me/totp/confirm receives a code generated from it. An account with a password must send the password.',
  body: Type.Object(
    { password: Type.Optional(Type.String({ minLength: 1, maxLength: 1024 })) },
    { additionalProperties: false },
  ),
  bodyExample: { password: 'correct horse battery staple' },
  answers: {
    200: {
      description: 'The secret for the authenticator app.',
      schema: Type.Object({ secret: Type.String(), otpauth_url: Type.String() }),
      example: {
        secret: 'JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP',
        otpauth_url: 'otpauth://totp/Signpost:ada%40example.com?secret=JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP',
      },
    },
  },
  async handle({ auth }, { caller, note, body, ip }) {
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
    const begun = await auth.secondFactor.begin(caller.user_id, account.email, note);
    return begun
      ? { status: 200, body: begun.pending, noted: begun.noted }
      : invalid('body', 'a second factor is already set up: disable it first');
  },
});

export const confirmTotp = changingRoute({
  ...shared,
  path: '/me/totp/confirm',
  operationId: 'confirmTotp',
  showsSecret: true,
  summary: 'Confirm the second factor',
  description:
    'After this call, every login requires a code, both with a password and through a provider. The recovery codes are shown only in this answer; each can be used once.',
  body: codeBody,
  bodyExample: { totp_code: '123456' },
  answers: {
    200: {
      description: 'The second factor is active.',
      schema: Type.Object({ totp_enabled: Type.Literal(true), recovery_codes: Type.Array(Type.String()) }),
      example: { totp_enabled: true, recovery_codes: ['abcd-efgh-ijkl-mnop'] },
    },
  },
  async handle({ auth }, { caller, note, body }) {
    const confirmed = await auth.secondFactor.confirm(caller.user_id, body.totp_code, note);
    if (!confirmed) return invalid('totp_code', 'is not the current code of a second factor that is being set up');
    const { recovery_codes, noted } = confirmed;
    return { status: 200, body: { totp_enabled: true, recovery_codes }, noted };
  },
});

export const disableTotp = changingRoute({
  ...shared,
  path: '/me/totp/disable',
  operationId: 'disableTotp',
  summary: 'Disable the second factor',
  body: codeBody,
  bodyExample: { totp_code: '123456' },
  answers: {
    200: {
      description: 'The second factor is disabled.',
      schema: Type.Object({ totp_enabled: Type.Literal(false) }),
      example: isOff.body,
    },
  },
  async handle({ auth }, { caller, note, body, ip }) {
    const { secondFactor } = auth;
    if (!(await secondFactor.isEnabled(caller.user_id))) return notFound('No second factor is set up.');
    const check = () => secondFactor.take(caller.user_id, body.totp_code);
    const isRight = await attempted(auth, `totp:${caller.user_id}`, ip, check);
    if (isRight instanceof Rejection) return isRight;
    if (!isRight) return invalid('totp_code', 'has expired or was already used: wait for the next code');
    return { ...isOff, noted: await secondFactor.disable(caller.user_id, note) };
  },
});
