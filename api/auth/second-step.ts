/** The second-factor step of a login, after a password or a provider. */
import { Rejection, rateLimited, unauthorized, unavailable } from '#common/http/rejection.ts';
import type { AuthParts } from './parts.ts';

export const codeRequired = () =>
  unauthorized('A code from your authenticator app is required (totp_code).', 'totp_required');
export const codeInvalid = () =>
  unauthorized('This code has expired or was already used. Wait for the next one.', 'totp_invalid');

/** Counts the check as an attempt at the account, so that guesses are throttled. */
export async function attempted(
  { throttle }: Pick<AuthParts, 'throttle'>,
  name: string,
  ip: string,
  check: () => Promise<boolean | 'busy'>,
): Promise<boolean | Rejection> {
  const attempt = await throttle.begin(name, ip).catch(() => null);
  if (attempt === null) return unavailable();
  if ('retryAfterSeconds' in attempt) return rateLimited(attempt.retryAfterSeconds);
  const isRight = await check();
  if (isRight === 'busy') {
    // No guess was checked, so none is counted.
    await attempt.takeBack().catch(() => undefined);
    return rateLimited(2);
  }
  if (isRight) await attempt.succeeded().catch(() => undefined);
  return isRight;
}

/** The rejection of a provider login whose code is missing or wrong; null if it needs no code, or has a valid one. */
export async function refusedSecondStep(
  auth: Pick<AuthParts, 'throttle' | 'secondFactor'>,
  account: { readonly id: string; readonly email: string },
  code: string | undefined,
  ip: string,
): Promise<Rejection | null> {
  if (!(await auth.secondFactor.isEnabled(account.id))) return null;
  if (code === undefined) return codeRequired();
  const isRight = await attempted(auth, account.email, ip, () => auth.secondFactor.take(account.id, code));
  if (isRight instanceof Rejection) return isRight;
  return isRight ? null : codeInvalid();
}
