/** Password rules: long enough, and not easy to guess. */
import { PASSWORD_LENGTH } from '#api/auth/password.ts';
import { normalizedPassword } from '#common/links/link-password.ts';

/** Score from 0 to 4; below 3, fewer than 10⁸ guesses are needed. */
const SCORE_MIN = 3;

/** Why a password is rejected; null when it is accepted. `hints`: known facts about the user, which are easy to guess. */
export type PasswordRule = (password: string, hints?: readonly string[]) => string | null;

/** Loads the lists of common passwords (20 ms, 8 MB) on demand. */
export async function passwordRule(): Promise<PasswordRule> {
  const [{ ZxcvbnFactory }, { adjacencyGraphs, dictionary }] = await Promise.all([
    import('@zxcvbn-ts/core'),
    import('@zxcvbn-ts/language-common'),
  ]);
  const guesser = new ZxcvbnFactory({ dictionary, graphs: adjacencyGraphs });
  return (given, hints = []) => {
    const password = normalizedPassword(given);
    const { min, max } = PASSWORD_LENGTH;
    if (password.length < min || given.length > max) return `must have ${min} to ${max} characters`;
    const words = ['signpost', ...hints.flatMap((hint) => hint.toLowerCase().split(/[^\p{L}\p{N}]+/u))];
    const known = [...hints, ...words].filter((word) => word.length > 2);
    return guesser.check(password, known).score < SCORE_MIN ? 'is easy to guess: use several unrelated words' : null;
  };
}
