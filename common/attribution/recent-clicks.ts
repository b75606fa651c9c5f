/**
 * Clicks and claims in Redis: what ingest writes as clicks come in and the SDK edge matches devices against.
 *
 *   clicks:<time of the id>       clicks by id: a line for each click of that millisecond (click-lines.ts), until ClickHouse has had them for
 *                                 long (KEPT_BY_ID_MS); after that they are looked up there (click-archive.ts)
 *   near:<app_id>:<address>       clicks of people from one address (its name, see address-writer.ts) that matching compares, a line
 *                                 each, for the app's probabilistic window; the newest PER_ADDRESS_MAX
 *   signals:<click_id>            what its tap page sent, written by the redirector (see tap-page.ts)
 *   claim:<click_id>              a copy: the device that has it, for the attribution window
 *   match:<app_id>:<device>       the first answer a device got
 *   match_id:<match_id>           the same answer, by its id
 *
 * All of it can be lost: claims and their answers are in Postgres, clicks are in ClickHouse.
 */
import { MINUTE_MS } from '#common/durations.ts';
import { readTapSignals, signalsKey, type TapSignals } from '#common/links/tap-page.ts';
import type { BrowserTexts } from '#common/match/click-traces.ts';
import type { Redis, Script } from '#common/stores/redis.ts';
import { systemTime, type Time } from '#common/time.ts';
import {
  clickInLines,
  clicksAtAddress,
  lineAtAddress,
  lineById,
  type RecentClick,
  type TracedClick,
  timePartOf,
} from './click-lines.ts';

export const PER_ADDRESS_MAX = 100;
/**
 * How long a click is found by its id here. ClickHouse normally has it after two seconds; it may be down for this long,
 * and devices that name a click still get it.
 */
export const KEPT_BY_ID_MS = 15 * MINUTE_MS;
/** Maximum lines and bytes of one key. Beyond the bytes, only the newest lines stay. */
const ADDRESS_BYTES_MAX = 24_576;
const BY_ID_LINES_MAX = 2_000;
const BY_ID_BYTES_MAX = 524_288;
const CLICKS_PER_WRITE_MAX = 400;
const COPIES_PER_CALL_MAX = 200;
const COPY_DELAY_MS = 10;
/** Copies that may wait; beyond it they are dropped, as if Redis were unavailable. */
const COPIES_WAITING_MAX = 20_000;

/** A click as it is stored: the same object may be click and browser. */
export interface ClickToPut {
  readonly click: Omit<RecentClick, 'is_bot'>;
  readonly is_bot: boolean;
  /** Older than KEPT_BY_ID_MS: it is not stored by its id. */
  readonly isOld?: boolean;
  /** Null for a click that is not matched by its address. */
  readonly near: ClickPlace | null;
}

export interface ClickPlace {
  /** The name under which it is found (see address-writer.ts). */
  readonly address: string;
  readonly browser: BrowserTexts;
  readonly windowMs: number;
}

/** A click at an address, and who has already claimed it. */
export interface ClickAtAddress extends TracedClick {
  readonly claimed_by: string;
  /** What its tap page sent; null if there was none, and for a claimed click. */
  readonly signals: TapSignals | null;
}

function timeKey(clickId: string): string {
  return `clicks:${timePartOf(clickId)}`;
}
function addressKey(appId: string, address: string): string {
  return `near:${appId}:${address}`;
}
function claimKey(clickId: string): string {
  return `claim:${clickId}`;
}

/**
 * Adds lines to keys. KEYS: the keys. ARGV: most bytes and lines of one, then for each key its TTL in ms and the lines. Most keys are
 * new. A line that is there is not added again. Lines sort by time, or in no order that matters.
 */
const addScript = `
local bytesMax, linesMax = tonumber(ARGV[1]), tonumber(ARGV[2])
local function newest(text)
  local lines = {}
  for line in string.gmatch(text, '[^\\n]*\\n') do lines[#lines + 1] = line end
  table.sort(lines)
  local from, bytes = #lines + 1, 0
  while from > 1 and #lines - from + 1 < linesMax and bytes + #lines[from - 1] <= bytesMax do
    from = from - 1
    bytes = bytes + #lines[from]
  end
  return table.concat(lines, '', from)
end
for at, key in ipairs(KEYS) do
  local ttl, lines = ARGV[2 * at + 1], ARGV[2 * at + 2]
  if not redis.call('SET', key, lines, 'PX', ttl, 'NX') then
    local before = redis.call('GET', key) or ''
    local more = {before}
    for line in string.gmatch(lines, '[^\\n]*\\n') do
      if not string.find(before, line, 1, true) then more[#more + 1] = line end
    end
    if #more > 1 then
      local text = table.concat(more)
      if #text > bytesMax then text = newest(text) end
      redis.call('SET', key, text, 'PX', ttl)
    end
  end
end
return 1
`;

/** KEYS: of claims and answers. ARGV: for each its value and its TTL in ms. */
const copyScript = `
for at, key in ipairs(KEYS) do redis.call('SET', key, ARGV[2 * at - 1], 'PX', ARGV[2 * at]) end
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
  readonly #add: Script;
  readonly #copy: Script;
  #copies: { readonly claim: ClaimToCopy; readonly ttlMs: number }[] = [];

  constructor(redis: Redis, time: Pick<Time, 'after'> = systemTime) {
    this.#redis = redis;
    this.#time = time;
    this.#add = redis.script(addScript);
    this.#copy = redis.script(copyScript);
  }

  /** Writing the same click again, in another call, changes nothing. */
  async put(clicks: readonly ClickToPut[]): Promise<void> {
    for (let from = 0; from < clicks.length; from += CLICKS_PER_WRITE_MAX) {
      const byTime = new Map<string, LinesToAdd>();
      const byAddress = new Map<string, LinesToAdd>();
      for (const { click, is_bot, isOld = false, near } of clicks.slice(from, from + CLICKS_PER_WRITE_MAX)) {
        if (!isOld) addLine(byTime, timeKey(click.click_id), lineById(click, is_bot), KEPT_BY_ID_MS);
        if (near === null || near.address === '' || near.windowMs <= 0) continue;
        addLine(byAddress, addressKey(click.app_id, near.address), lineAtAddress(click, near.browser), near.windowMs);
      }
      await Promise.all([
        this.#addAll(byTime, BY_ID_BYTES_MAX, BY_ID_LINES_MAX),
        this.#addAll(byAddress, ADDRESS_BYTES_MAX, PER_ADDRESS_MAX),
      ]);
    }
  }

  async #addAll(all: ReadonlyMap<string, LinesToAdd>, bytesMax: number, linesMax: number): Promise<void> {
    if (all.size === 0) return;
    const args: (string | number)[] = [bytesMax, linesMax];
    for (const { lines, ttlMs } of all.values()) args.push(ttlMs, lines);
    await this.#add([...all.keys()], args);
  }

  /**
   * Everything a match is decided by: what is known by name in one round trip, and who has the clicks at the address in another where there
   * are any. An empty device has no earlier answer.
   * @param address the name of the device's address; empty to look for no clicks there.
   */
  async gather(appId: string, device: string, address: string, clickIds: readonly string[]): Promise<Gathered> {
    const answer = device === '' ? [] : [answerKey(appId, device)];
    const place = address === '' ? [] : [addressKey(appId, address)];
    const found = await this.#texts([...answer, ...place, ...clickIds.map(timeKey), ...clickIds.map(claimKey)]);
    const [known, lines] = [found.splice(0, answer.length), found.splice(0, place.length)];
    return {
      answer: known[0] ?? '',
      near: await this.#nearIn(lines[0] ?? ''),
      named: clickIds.map((id, at) => {
        const click = clickInLines(found[at] ?? '', id);
        return click && { click, claimed_by: found[clickIds.length + at] ?? '' };
      }),
    };
  }

  async #nearIn(lines: string): Promise<ClickAtAddress[]> {
    const clicks = clicksAtAddress(lines, PER_ADDRESS_MAX);
    const ids = clicks.map(({ click_id }) => click_id);
    const found = await this.#texts([...ids.map(claimKey), ...ids.map(signalsKey)]);
    return clicks.map((click, at) => {
      const claimed_by = found[at] ?? '';
      return { ...click, claimed_by, signals: claimed_by === '' ? signalsOf(found[ids.length + at] ?? '') : null };
    });
  }

  /** Values of keys, in the order of the arguments; empty for a missing key. */
  async #texts(keys: readonly string[]): Promise<string[]> {
    if (keys.length === 0) return [];
    const found = await this.#redis.commands.mget([...keys]);
    return found.map((text) => text ?? '');
  }

  /**
   * Copies a claim from Postgres with a short delay: claims of a few milliseconds share a command. Until then, and if
   * it fails, the next request costs a lookup in Postgres.
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
      const keys: string[] = [];
      const args: (string | number)[] = [];
      for (const { claim, ttlMs } of copies.slice(from, from + COPIES_PER_CALL_MAX)) {
        const { click_id, app_id, device, match_id, answer, is_first } = claim;
        keys.push(claimKey(click_id), matchKey(match_id));
        args.push(device || match_id, ttlMs, answer, ttlMs);
        if (device === '' || !is_first) continue;
        keys.push(answerKey(app_id, device));
        args.push(answer, ttlMs);
      }
      this.#copy(keys, args).catch(() => undefined);
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

  /** Clicks by id, in the order of the arguments; null for one that is not known (any more). */
  async byIds(clickIds: readonly string[]): Promise<(RecentClick | null)[]> {
    const keys = [...new Set(clickIds.map(timeKey))];
    const found = await this.#texts(keys);
    const lines = new Map(keys.map((key, at) => [key, found[at] ?? '']));
    return clickIds.map((id) => clickInLines(lines.get(timeKey(id)) ?? '', id));
  }
}

interface LinesToAdd {
  lines: string;
  ttlMs: number;
}

function addLine(to: Map<string, LinesToAdd>, key: string, line: string, ttlMs: number): void {
  const known = to.get(key);
  if (known === undefined) to.set(key, { lines: line, ttlMs });
  else {
    known.lines += line;
    known.ttlMs = Math.max(known.ttlMs, ttlMs);
  }
}

function answerKey(appId: string, device: string): string {
  return `match:${appId}:${device}`;
}
function matchKey(matchId: string): string {
  return `match_id:${matchId}`;
}

function signalsOf(json: string): TapSignals | null {
  return json === '' ? null : readTapSignals(JSON.parse(json));
}
