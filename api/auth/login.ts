import { Type } from 'typebox';
import { rateLimited, unauthorized, unavailable } from '#common/http/rejection.ts';
import { authRoute, TokenPairSchema, tag, tokenPairExample } from './parts.ts';
import { codeInvalid, codeRequired } from './second-step.ts';

/** A full queue of passwords drains in about this time. */
const BUSY_SECONDS = 2;

export const login = authRoute({
  method: 'POST',
  path: '/auth/login',
  caller: 'public',
  limit: 'auth',
  tag,
  summary: 'Log in with an e-mail address and a password',
  description:
    'An unknown e-mail address and a wrong password get the same answer. After a few failures, further attempts at the same account are delayed (429 with Retry-After), except from networks with an earlier successful login. If the user has a second factor, the answer is 401 with details.reason totp_required while totp_code is missing, and totp_invalid while it is wrong.',
  body: Type.Object(
    {
      email: Type.String({ minLength: 1, maxLength: 320 }),
      password: Type.String({ minLength: 1, maxLength: 1024 }),
      totp_code: Type.Optional(
        Type.String({
          minLength: 1,
          maxLength: 64,
          description:
            'Required if the user has a second factor: a code from the authenticator app, or a recovery code.',
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
    return pair ? { status: 200, body: pair } : unauthorized('The e-mail address or the password is wrong.');
  },
});
