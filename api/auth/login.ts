import { Type } from 'typebox';
import { rateLimited, unauthorized, unavailable } from '#common/http/rejection.ts';
import { route, TokenPairSchema, tag, tokenPairExample } from './parts.ts';
import { codeInvalid, codeRequired } from './second-step.ts';

/** A full queue of passwords drains in about this time. */
const BUSY_SECONDS = 2;

export const login = route({
  method: 'POST',
  path: '/auth/login',
  caller: 'public',
  limit: 'auth',
  tag,
  summary: 'Log in with e-mail and password',
  description:
    'An unknown e-mail and a wrong password are answered alike. After a few failures further attempts at the same account have to wait (429, Retry-After), but for those from networks that it was logged in to from before. Who has set up a second factor is answered 401 with details.reason totp_required until a totp_code comes along, and totp_invalid when it is not right.',
  body: Type.Object(
    {
      email: Type.String({ minLength: 1, maxLength: 320 }),
      password: Type.String({ minLength: 1, maxLength: 1024 }),
      totp_code: Type.Optional(
        Type.String({
          minLength: 1,
          maxLength: 64,
          description: 'For who has set up a second factor: a code of the authenticator, or a recovery code.',
        }),
      ),
    },
    { additionalProperties: false },
  ),
  bodyExample: { email: 'ada@example.com', password: 'correct horse battery staple' },
  answers: { 200: { description: 'A token pair.', schema: TokenPairSchema, example: tokenPairExample } },
  async handle({ auth }, { body, ip }) {
    const attempt = await auth.throttle.begin(body.email, ip).catch(() => null);
    if (attempt === null) return unavailable();
    if ('retryAfterSeconds' in attempt) return rateLimited(attempt.retryAfterSeconds);
    const account = await auth.accounts.byEmail(body.email);
    const passwordHash = account?.password_hash ?? null;
    const verdict = await auth.passwords.check(passwordHash, body.password, ip);
    // What Redis does not take here costs a later attempt some seconds at most.
    if (verdict === 'busy') {
      await attempt.takeBack().catch(() => undefined);
      return rateLimited(BUSY_SECONDS);
    }
    const isRight = verdict === 'right' && account !== null && passwordHash !== null;
    if (isRight && (await auth.secondFactor.isEnabled(account.id))) {
      if (body.totp_code === undefined) {
        await attempt.takeBack().catch(() => undefined);
        return codeRequired();
      }
      const isTaken = await auth.secondFactor.take(account.id, body.totp_code);
      if (!isTaken) return codeInvalid();
    }
    const pair = isRight ? await auth.sessions.begin(account.id, passwordHash) : null;
    if (pair) await attempt.succeeded().catch(() => undefined);
    return pair ? { status: 200, body: pair } : unauthorized('The e-mail or the password is wrong.');
  },
});
