/**
 * Password hashing: argon2id with m=19456 KiB, t=2, p=1 (OWASP Password Storage Cheat Sheet). One costs about 70 ms of
 * a core and 19 MiB, off the event loop.
 */
import { randomBytes } from 'node:crypto';
import { hash, verify } from '@node-rs/argon2';
import { FairQueue, type FairQueueLimits } from '#api/fair-queue.ts';
import { limitNetworks } from '#common/http/peer.ts';
import { normalizedPassword } from '#common/links/link-password.ts';

/** The package uses argon2id if no algorithm is named. */
const cost = { memoryCost: 19_456, timeCost: 2, parallelism: 1 } as const;

/**
 * Length limits for passwords that users set. The operator may choose a weaker one for the first user, and gets a
 * warning. The maximum prevents hashing megabytes.
 */
export const PASSWORD_LENGTH = { min: 12, minOfFirst: 8, max: 1024 } as const;

/** The PHC string to store: `$argon2id$v=19$m=19456,t=2,p=1$…`. */
export function hashPassword(password: string): Promise<string> {
  return hash(normalizedPassword(password), cost);
}

/** Whether the password matches this PHC string. A string that is not an argon2 hash matches none. */
export async function verifyPassword(phc: string, password: string): Promise<boolean> {
  const normalized = normalizedPassword(password);
  try {
    if (await verify(phc, normalized, cost)) return true;
    // A hash from before passwords were normalized.
    return password !== normalized && (await verify(phc, password, cost));
  } catch {
    return false;
  }
}

export type PasswordVerdict = 'right' | 'wrong' | 'busy';

/** At most one password per network is compared at a time, so that a client that sends many delays only itself. */
const queueLimits: FairQueueLimits = { runningMax: 2, perKeyMax: 1, waitingMax: 32, keysMax: 256 };
/** A request that has waited this long is rejected, because its client has probably disconnected. */
const patienceMs = 10_000;

/**
 * The only place where a login's password is compared, in a queue that is fair by network. An account that does not
 * exist or has no password takes as long as a wrong password.
 */
export class PasswordCheck {
  readonly #queue: FairQueue;
  readonly #decoy: Promise<string>;

  readonly #verify: typeof verifyPassword;

  constructor(limits: FairQueueLimits = queueLimits, verify = verifyPassword) {
    this.#queue = new FairQueue(limits);
    this.#verify = verify;
    this.#decoy = hashPassword(randomBytes(32).toString('base64url'));
  }

  /** The hash of a new password, in the same queue as comparisons; null if the queue is full. */
  async hash(password: string, ip: string): Promise<string | null> {
    const place = await this.#queue.enter(limitNetworks(ip).at(-1)?.subject ?? ip, patienceMs);
    if (place === null) return null;
    try {
      return await hashPassword(password);
    } finally {
      place.leave();
    }
  }

  /**
   * @param phc the stored hash, or null if the account does not exist. @param ip key of the queue: the address, or the
   * widest network that one IPv6 customer has.
   */
  async check(phc: string | null, password: string, ip: string): Promise<PasswordVerdict> {
    const place = await this.#queue.enter(limitNetworks(ip).at(-1)?.subject ?? ip, patienceMs);
    if (place === null) return 'busy';
    try {
      const isSame = await this.#verify(phc ?? (await this.#decoy), password);
      return isSame && phc !== null ? 'right' : 'wrong';
    } finally {
      place.leave();
    }
  }
}
