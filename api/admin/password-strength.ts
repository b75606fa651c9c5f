/** Which passwords may be set: long enough, and not what a guesser tries first. */
import { PASSWORD_LENGTH } from '#api/auth/password.ts';

/** Of 0 to 4; below 3 a guesser needs fewer than 10⁸ attempts. */
const SCORE_MIN = 3;

/** Why a password may not be set, null when it may. `hints`: what else is known of the user, and easy to guess therefore. */
export type PasswordRule = (password: string, hints?: readonly string[]) => string | null;

/** Loads the lists of common passwords (20 ms, 8 MB), which only those need who set one. */
export async function passwordRule(): Promise<PasswordRule> {
  const [{ ZxcvbnFactory }, { adjacencyGraphs, dictionary }] = await Promise.all([
    import('@zxcvbn-ts/core'),
    import('@zxcvbn-ts/language-common'),
  ]);
  const guesser = new ZxcvbnFactory({ dictionary, graphs: adjacencyGraphs });
  return (password, hints = []) => {
    const { min, max } = PASSWORD_LENGTH;
    if (password.length < min || password.length > max) return `must have ${min} to ${max} characters`;
    const words = ['signpost', ...hints.flatMap((hint) => hint.toLowerCase().split(/[^\p{L}\p{N}]+/u))];
    const known = [...hints, ...words].filter((word) => word.length > 2);
    return guesser.check(password, known).score < SCORE_MIN
      ? 'is easy to guess: take several words that have nothing to do with each other'
      : null;
  };
}
