/**
 * Clicks and claims in Redis: what ingest writes as clicks come in and the SDK edge matches devices against.
 *
 *   click:<click_id>              the click as later events need it, for the app's attribution window
 *   recent:<app_id>:<address>     sorted by time: clicks from one address (its name, see address-writer.ts) with their user
 *                                 agents, for the app's probabilistic window; the newest PER_ADDRESS_MAX
 *   signals:<click_id>            what its tap page sent, written by the redirector (see tap-page.ts)
 *   claim:<click_id>              a copy: the device that has it, for the attribution window
 *   match:<app_id>:<device>       the first answer a device got
 *   match_id:<match_id>           the same answer, by its id
 *
 * All of it can be lost: claims and their answers are in Postgres, clicks are in ClickHouse.
 */
import { HOUR_MS } from '#common/durations.ts';
import type { Redis, Script } from '#common/stores/redis.ts';
import { systemTime, type Time } from '#common/time.ts';
import {
  type ClickAtAddress,
  type ClickToPut,
  clickIn,
  clickJsonOf,
  clicksAtAddress,
  memberOf,
  type RecentClick,
} from './recent-click.ts';

export const PER_ADDRESS_MAX = 100;
const CLICKS_PER_CALL_MAX = 200;
/**
 * For this many of the clicks at an address everything is returned at once: the wanted one is nearly always among them.
 */
const WHOLE_NEAR_MAX = 4;
const COPIES_PER_CALL_MAX = 200;
const COPY_DELAY_MS = 10;
/** Copies that may wait; beyond it they are dropped, as if Redis were unavailable. */
const COPIES_WAITING_MAX = 20_000;

function clickKey(clickId: string): string {
  return `click:${clickId}`;
}
function addressKey(appId: string, address: string): string {
  return `recent:${appId}:${address}`;
}

/** ARGV in groups of seven: click key, JSON, TTL in ms; address key or empty, member, TTL in ms, time. */
const putScript = `
for at = 1, #ARGV, 7 do
  redis.call('SET', ARGV[at], ARGV[at + 1], 'PX', ARGV[at + 2])
  local key = ARGV[at + 3]
  if key ~= '' then
    redis.call('ZADD', key, ARGV[at + 6], ARGV[at + 4])
    if redis.call('ZCARD', key) > ${PER_ADDRESS_MAX} then redis.call('ZREMRANGEBYRANK', key, 0, -${PER_ADDRESS_MAX + 1}) end
    redis.call('PEXPIRE', key, ARGV[at + 5])
  end
end
return 1
`;

/**
 * KEYS: answer of the device, address key, then click keys. ARGV: whether to look at the address, and for how many
 * unclaimed clicks there to return everything. Returns {answer, {member, owner, json, signals, ...}, {json, owner,
 * ...}}.
 */
const gatherScript = `
local answer = redis.call('GET', KEYS[1])
local near = {}
local whole = tonumber(ARGV[2])
if ARGV[1] == '1' then
  for _, member in ipairs(redis.call('ZREVRANGE', KEYS[2], 0, ${PER_ADDRESS_MAX - 1})) do
    local id = string.sub(member, 1, 30)
    local owner = redis.call('GET', 'claim:' .. id) or ''
    local json = ''
    local signals = ''
    if owner == '' then signals = redis.call('GET', 'signals:' .. id) or '' end
    if owner == '' and whole > 0 then
      json = redis.call('GET', 'click:' .. id) or ''
      whole = whole - 1
    end
    near[#near + 1] = member
    near[#near + 1] = owner
    near[#near + 1] = json
    near[#near + 1] = signals
  end
end
local named = {}
for at = 3, #KEYS do
  named[#named + 1] = redis.call('GET', KEYS[at]) or ''
  named[#named + 1] = redis.call('GET', 'claim:' .. string.sub(KEYS[at], 7)) or ''
end
return {answer or '', near, named}
`;

/**
 * ARGV in groups of six: keys of the claim, of the answer by id and by device (or empty); the holder of the click,
 * answer, TTL in ms.
 */
const copyScript = `
for at = 1, #ARGV, 6 do
  redis.call('SET', ARGV[at], ARGV[at + 3], 'PX', ARGV[at + 5])
  redis.call('SET', ARGV[at + 1], ARGV[at + 4], 'PX', ARGV[at + 5])
  if ARGV[at + 2] ~= '' then redis.call('SET', ARGV[at + 2], ARGV[at + 4], 'PX', ARGV[at + 5]) end
end
return 1
`;

export interface ClaimToCopy {
  readonly click_id: string;
  readonly app_id: string;
  readonly device: string;
  readonly match_id: string;
  readonly answer: string;
  /** This is the device's answer when it sends the request again. */
  readonly is_first: boolean;
}

export interface Gathered {
  /** The first answer this device got, or empty. */
  readonly answer: string;
  readonly near: readonly ClickAtAddress[];
  /** In the order of the arguments; null for an unknown click. */
  readonly named: readonly ({ readonly click: RecentClick; readonly claimed_by: string } | null)[];
}

/** Every method throws if Redis is unavailable. */
export class RecentClicks {
  readonly #redis: Redis;
  readonly #time: Pick<Time, 'after'>;
  readonly #put: Script;
  readonly #gather: Script;
  readonly #copy: Script;
  #copies: { readonly claim: ClaimToCopy; readonly ttlMs: number }[] = [];

  constructor(redis: Redis, time: Pick<Time, 'after'> = systemTime) {
    this.#redis = redis;
    this.#time = time;
    this.#put = redis.script(putScript);
    this.#gather = redis.script(gatherScript);
    this.#copy = redis.script(copyScript);
  }

  /** Writing the same click again changes nothing. */
  async put(clicks: readonly ClickToPut[]): Promise<void> {
    for (let from = 0; from < clicks.length; from += CLICKS_PER_CALL_MAX) {
      const args: (string | number)[] = [];
      for (const { click, is_bot, traces, address, windows } of clicks.slice(from, from + CLICKS_PER_CALL_MAX)) {
        const { click_id, app_id, time } = click;
        args.push(clickKey(click_id), clickJsonOf(click, is_bot), windows.attribution_window_hours * HOUR_MS);
        if (traces && address !== '' && windows.probabilistic_window_hours > 0) {
          args.push(
            addressKey(app_id, address),
            memberOf(click, traces),
            windows.probabilistic_window_hours * HOUR_MS,
            time,
          );
        } else {
          args.push('', '', 0, 0);
        }
      }
      await this.#put([], args);
    }
  }

  /**
   * Everything that decides a match, in one round trip. An empty device has no earlier answer. @param address the name
   * of the device's address; empty to look for no clicks there.
   */
  async gather(appId: string, device: string, address: string, clickIds: readonly string[]): Promise<Gathered> {
    const keys = [answerKey(appId, device), addressKey(appId, address), ...clickIds.map(clickKey)];
    const whole = clickIds.length === 0 ? WHOLE_NEAR_MAX : 0;
    const reply = await this.#gather(keys, [address === '' ? '0' : '1', whole]);
    const [answer, near, named] = Array.isArray(reply) ? reply : [];
    return {
      answer: typeof answer === 'string' && device !== '' ? answer : '',
      near: clicksAtAddress(near),
      named: pairs(named).map(([json, owner], at) =>
        json === '' ? null : { click: clickIn(clickIds[at] ?? '', json), claimed_by: owner },
      ),
    };
  }

  /**
   * Copies a claim from Postgres with a short delay: claims of a few milliseconds share a command. Until then, and if
   * it fails, the next request costs a look-up in Postgres.
   */
  copyClaim(claim: ClaimToCopy, ttlMs: number): void {
    if (this.#copies.length >= COPIES_WAITING_MAX) return;
    if (this.#copies.length === 0) this.#time.after(COPY_DELAY_MS, () => this.#copyAll());
    this.#copies.push({ claim, ttlMs });
  }

  #copyAll(): void {
    const copies = this.#copies;
    this.#copies = [];
    for (let from = 0; from < copies.length; from += COPIES_PER_CALL_MAX) {
      const args: (string | number)[] = [];
      for (const { claim, ttlMs } of copies.slice(from, from + COPIES_PER_CALL_MAX)) {
        const { click_id, app_id, device, match_id, answer, is_first } = claim;
        const ofDevice = device === '' || !is_first ? '' : answerKey(app_id, device);
        args.push(`claim:${click_id}`, matchKey(match_id), ofDevice, device || match_id, answer, ttlMs);
      }
      this.#copy([], args).catch(() => undefined);
    }
  }

  /** The answer by its match_id; null if it is not known (any more). */
  answerOf(matchId: string): Promise<string | null> {
    return this.#redis.commands.get(matchKey(matchId));
  }

  /** Stores an answer that claims no click, by its match_id, for as long as an install may refer to it. */
  async keepAnswer(matchId: string, answer: string, ttlMs: number): Promise<void> {
    await this.#redis.commands.set(matchKey(matchId), answer, 'PX', ttlMs);
  }

  /** Stores the same answer under another name, for a while. */
  async keepOpen(name: string, answer: string, ttlMs: number): Promise<void> {
    await this.#redis.commands.set(`open:${name}`, answer, 'PX', ttlMs);
  }

  keptAnswer(name: string): Promise<string | null> {
    return this.#redis.commands.get(`open:${name}`);
  }

  /** Clicks by id, in the order of the arguments. */
  async byIds(clickIds: readonly string[]): Promise<(RecentClick | null)[]> {
    if (clickIds.length === 0) return [];
    const found = await this.#redis.commands.mget(clickIds.map(clickKey));
    return found.map((json, at) => (json === null ? null : clickIn(clickIds[at] ?? '', json)));
  }
}

function answerKey(appId: string, device: string): string {
  return `match:${appId}:${device}`;
}
function matchKey(matchId: string): string {
  return `match_id:${matchId}`;
}

function pairs(list: unknown): [string, string][] {
  if (!Array.isArray(list)) return [];
  const found: [string, string][] = [];
  for (let at = 0; at + 1 < list.length; at += 2) found.push([String(list[at]), String(list[at + 1])]);
  return found;
}
