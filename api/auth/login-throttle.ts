/**
 * Throttles password guesses per account, from any number of addresses: after a few failures each further attempt waits twice
 * as long as the previous one. Networks with a successful login to the account are counted separately, so strangers who
 * guess do not lock the owner out. Accounts that do not exist are treated the same.
 *
 * All state is in Redis: an attempt counts as a failure when it starts, so that concurrent attempts are counted, and is
 * uncounted if it succeeds. Bounds: a counter lives for 15 minutes below the free attempts and a day above them; an
 * account has at most `knownMax` known networks, for `knownMs` after the last login from each.
 */
import type { Clock } from '#common/clock.ts';
import { DAY_MS } from '#common/durations.ts';
import { plainEmail } from '#common/email-address.ts';
import { KeyedHash, type SecretKey } from '#common/encryption.ts';
import { limitNetworks } from '#common/http/peer.ts';
import type { Redis, Script } from '#common/stores/redis.ts';

const delayFirstMs = 1_000;
const delayMaxMs = 900_000;
const knownMax = 16;
const knownMs = 90 * DAY_MS;

/** KEYS: counter of strangers, counter of this network, known networks. ARGV: network, now, free attempts, oldest known. */
const beginScript = `
redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', ARGV[4])
local is_known = redis.call('ZSCORE', KEYS[3], ARGV[1]) and 1 or 0
local key = KEYS[1 + is_known]
local now, free = tonumber(ARGV[2]), tonumber(ARGV[3])
local until_ms = tonumber(redis.call('HGET', key, 'until_ms') or '0')
if until_ms > now then return {0, is_known, math.min(until_ms - now, ${delayMaxMs})} end
local count = redis.call('HINCRBY', key, 'count', 1)
if count <= free then
  redis.call('PEXPIRE', key, 900000)
else
  local delay = math.min(${delayFirstMs} * 2 ^ math.min(count - free - 1, 30), ${delayMaxMs})
  redis.call('HSET', key, 'until_ms', string.format('%.0f', now + delay))
  redis.call('PEXPIRE', key, 86400000)
end
return {1, is_known, 0}
`;

/**
 * Uncounts an attempt whose password was not compared, or that succeeded from an unknown network, and removes its
 * delay. KEYS: counter.
 */
const takeBackScript = `
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
local count = redis.call('HINCRBY', KEYS[1], 'count', -1)
redis.call('HDEL', KEYS[1], 'until_ms')
if count <= 0 then redis.call('DEL', KEYS[1]) end
return count
`;

/** KEYS: counter of this network, known networks. ARGV: network, now. */
const knowScript = `
redis.call('DEL', KEYS[1])
redis.call('ZADD', KEYS[2], ARGV[2], ARGV[1])
redis.call('ZREMRANGEBYRANK', KEYS[2], 0, -${knownMax + 1})
redis.call('PEXPIRE', KEYS[2], ${knownMs})
return 1
`;

export interface LoginThrottleOptions {
  readonly redis: Redis;
  readonly secrets: readonly SecretKey[];
  readonly clock: Clock;
  /** Number of wrong passwords for one account before delays start. */
  readonly freeAttempts: number;
}

/** An attempt that is allowed to continue. */
export interface LoginAttemptPass {
  /** The password was right, and the login is complete. */
  succeeded(): Promise<void>;
  /** The password was not compared. */
  takeBack(): Promise<void>;
}

export class LoginThrottle {
  readonly #options: LoginThrottleOptions;
  readonly #hash: KeyedHash;
  readonly #begin: Script;
  readonly #takeBack: Script;
  readonly #know: Script;

  constructor(options: LoginThrottleOptions) {
    this.#options = options;
    this.#hash = new KeyedHash(options.secrets, 'login');
    this.#begin = options.redis.script(beginScript);
    this.#takeBack = options.redis.script(takeBackScript);
    this.#know = options.redis.script(knowScript);
  }

  /**
   * @param name of the account, an e-mail address; or the id of something else that has a password.
   * @returns the seconds to wait if it is too early for another attempt. @throws if Redis is unavailable.
   */
  async begin(name: string, ip: string): Promise<LoginAttemptPass | { readonly retryAfterSeconds: number }> {
    const { clock, freeAttempts } = this.#options;
    const account = this.#nameOf(plainEmail(name));
    const network = this.#networkOf(ip);
    const keys = [`login:failed:${account}`, `login:failed:${account}:${network}`, `login:known:${account}`] as const;
    const nowMs = clock();
    const answer = await this.#begin(keys, [network, nowMs, freeAttempts, nowMs - knownMs]);
    if (!Array.isArray(answer)) throw new Error('the login script answered no list');
    const [mayGoOn, isKnown, waitMs] = answer.map(Number);
    if (mayGoOn !== 1) return { retryAfterSeconds: Math.max(1, Math.ceil((waitMs ?? 0) / 1000)) };
    const counter = isKnown === 1 ? keys[1] : keys[0];
    const takeBack = async () => {
      await this.#takeBack([counter], []);
    };
    return {
      takeBack,
      succeeded: async () => {
        if (isKnown !== 1) await takeBack();
        await this.#know([keys[1], keys[2]], [network, clock()]);
      },
    };
  }

  /** A name of the network that sends a request, and whether the account has logged in from there. */
  async requester(name: string, ip: string): Promise<{ readonly network: string; readonly isKnown: boolean }> {
    const network = this.#networkOf(ip);
    const oldest = this.#options.clock() - knownMs;
    const key = `login:known:${this.#nameOf(plainEmail(name))}`;
    // Without Redis, it counts as unknown.
    const score = await this.#options.redis.commands.zscore(key, network).catch(() => null);
    return { network, isKnown: Number(score ?? 0) > oldest };
  }

  #networkOf(ip: string): string {
    return this.#nameOf(limitNetworks(ip).at(-1)?.subject ?? ip);
  }

  /** Redis must not reveal who tried to log in or from where. */
  #nameOf(text: string): string {
    return this.#hash.newest(text).toString('base64url');
  }
}
