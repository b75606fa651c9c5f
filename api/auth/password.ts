/**
 * Passwords at rest: argon2id with m=19456 KiB, t=2, p=1 (OWASP Password Storage Cheat Sheet). One costs about 70 ms
 * of a core and 19 MiB, off the event loop.
 */
import { randomBytes } from 'node:crypto';
import { hash, verify } from '@node-rs/argon2';

/** Argon2id is what the package takes when no algorithm is named. */
const cost = { memoryCost: 19_456, timeCost: 2, parallelism: 1 } as const;

/** Characters of a password that anyone may set. The upper bound keeps hashing from being fed megabytes. */
export const PASSWORD_LENGTH = { min: 8, max: 1024 } as const;

/** The PHC string to keep: `$argon2id$v=19$m=19456,t=2,p=1$…`. */
export function hashPassword(password: string): Promise<string> {
  return hash(password, cost);
}

/** Whether the password made this PHC string. A string that is no argon2 hash is a wrong password. */
export async function verifyPassword(phc: string, password: string): Promise<boolean> {
  try {
    return await verify(phc, password, cost);
  } catch {
    return false;
  }
}

export type PasswordVerdict = 'right' | 'wrong' | 'busy';

/**
 * The one place where a login's password is compared: at most `atOnceMax` at a time, at most `waitingMax` waiting.
 * An account that does not exist, or has no password, costs the same as one whose password is wrong.
 */
export class PasswordCheck {
  readonly #atOnceMax: number;
  readonly #waitingMax: number;
  readonly #decoy: Promise<string>;
  readonly #waiting: (() => void)[] = [];
  #running = 0;

  constructor(bounds: { atOnceMax: number; waitingMax: number } = { atOnceMax: 2, waitingMax: 32 }) {
    this.#atOnceMax = bounds.atOnceMax;
    this.#waitingMax = bounds.waitingMax;
    this.#decoy = hashPassword(randomBytes(32).toString('base64url'));
  }

  /** @param phc what is kept for the account, or null when there is no such account. */
  async check(phc: string | null, password: string): Promise<PasswordVerdict> {
    if (!(await this.#enter())) return 'busy';
    try {
      const isSame = await verifyPassword(phc ?? (await this.#decoy), password);
      return isSame && phc !== null ? 'right' : 'wrong';
    } finally {
      this.#leave();
    }
  }

  async #enter(): Promise<boolean> {
    if (this.#running < this.#atOnceMax) {
      this.#running++;
      return true;
    }
    if (this.#waiting.length >= this.#waitingMax) return false;
    await new Promise<void>((admitted) => {
      this.#waiting.push(admitted);
    });
    return true;
  }

  /** A place that becomes free is handed to the one who waited longest, so it is never taken twice. */
  #leave(): void {
    const next = this.#waiting.shift();
    if (next) next();
    else this.#running--;
  }
}
