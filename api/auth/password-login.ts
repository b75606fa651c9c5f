/** A login with e-mail address, password and, if the account has one, a second factor: for programs and for browsers. */
import { type Static, Type } from 'typebox';
import { type Rejection, rateLimited, unauthorized, unavailable } from '#common/http/rejection.ts';
import type { Answer } from '#common/http/route.ts';
import type { AuthParts } from './parts.ts';
import { codeInvalid, codeRequired } from './second-step.ts';

/** A full queue of passwords drains in about this time. */
const BUSY_SECONDS = 2;

export const PasswordLoginBody = Type.Object(
  {
    email: Type.String({ minLength: 1, maxLength: 320 }),
    password: Type.String({ minLength: 1, maxLength: 1024 }),
    totp_code: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 64,
        description: 'Required if the user has a second factor: a code from the authenticator app, or a recovery code.',
      }),
    ),
  },
  { additionalProperties: false },
);

export const passwordLoginExample = { email: 'ada@example.com', password: 'correct horse battery staple' };

/**
 * @param begin starts the login of a user whose password and code are right; null if the account has changed in the
 * meantime.
 */
export async function passwordLogin(
  auth: Pick<AuthParts, 'accounts' | 'passwords' | 'throttle' | 'secondFactor'>,
  body: Static<typeof PasswordLoginBody>,
  ip: string,
  begin: (userId: string, passwordHash: string) => Promise<Answer | null>,
): Promise<Answer | Rejection> {
  const attempt = await auth.throttle.begin(body.email, ip).catch(() => null);
  if (attempt === null) return unavailable();
  if ('retryAfterSeconds' in attempt) return rateLimited(attempt.retryAfterSeconds);
  const account = await auth.accounts.byEmail(body.email);
  const passwordHash = account?.password_hash ?? null;
  const verdict = await auth.passwords.check(passwordHash, body.password, ip);
  // If this write to Redis fails, a later attempt is delayed by some seconds at most.
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
  const begun = isRight ? await begin(account.id, passwordHash) : null;
  if (begun) await attempt.succeeded().catch(() => undefined);
  return begun ?? unauthorized('The e-mail address or the password is wrong.');
}
