/**
 * From a device's question to its answer: evidence and candidates from Redis, the rules, the claim. A click that somebody
 * else claims in between is out, and the rules are asked again.
 */

import type { AppSnapshot } from '#common/app-snapshot.ts';
import type { AttributionWindows } from '#common/attribution-windows.ts';
import type { Clock } from '#common/clock.ts';
import { type Rejection, unavailable } from '#common/http/rejection.ts';
import { newId } from '#common/ids.ts';
import type { ClickAtAddress, Gathered, RecentClick, RecentClicks } from '#common/recent-clicks.ts';
import { isRedisUnavailable } from '#common/redis.ts';
import type { ClickArchive } from './click-archive.ts';
import { namedClicks } from './evidence.ts';
import type { LinkOpen, LinkOpens } from './link-opens.ts';
import type { MatchFields, MatchType } from './match-schema.ts';
import { type CandidateClick, type Decision, decide, type ScoredClick } from './rules.ts';
import { clickSignals, deviceSignals } from './signals.ts';

/** Clicks that may be lost to other devices before a match gives up. */
const CLAIMS_MAX = 8;
const WINDOWS_REMEMBERED_MAX = 10_000;
const WINDOWS_TOLD_MS = 60_000;
/** A link opened again within this time by the same device is the same opening, sent twice. */
const REPEATED_OPEN_MS = 10_000;
const HOUR_MS = 3_600_000;

/** A match as it is kept: by device and by match_id. */
export interface Match {
  readonly match_id: string;
  readonly app_id: string;
  readonly match_type: MatchType;
  readonly confidence: number;
  readonly matched_factors: readonly string[];
  readonly competing_links: number;
  readonly click_id: string;
  /** Epoch milliseconds; 0 without a click. */
  readonly clicked_at: number;
  readonly link_id: string;
  readonly query: string;
}

export interface Asker {
  readonly app: AppSnapshot;
  readonly ip: string;
  /** Who a click is claimed for: the device, or the install where no device is named. Empty for nobody in particular. */
  readonly device: string;
  readonly user_agent: string;
}

export interface MatchingParts {
  readonly clicks: RecentClicks;
  readonly windows: AttributionWindows;
  readonly opens: LinkOpens;
  readonly archive: ClickArchive;
  readonly clock: Clock;
}

export class Matching {
  /** Answers since the start of the process. */
  readonly counters = {
    url: 0,
    click_id: 0,
    install_referrer: 0,
    clipboard: 0,
    probabilistic: 0,
    none: 0,
    ambiguous: 0,
  };
  readonly #parts: MatchingParts;
  /** Of which version of an app ingest was told the windows, and when: Redis may lose them. */
  readonly #told = new Map<string, { version: number; atMs: number }>();

  constructor(parts: MatchingParts) {
    this.#parts = parts;
  }

  async match(fields: MatchFields, asker: Asker): Promise<Match | Rejection> {
    if (fields.url) {
      const opened = await this.#open(fields.url, fields, asker);
      if (opened) return opened;
    }
    try {
      const match = await this.#matchClick(fields, asker);
      this.counters[match.match_type]++;
      if (match.competing_links > 0) this.counters.ambiguous++;
      return match;
    } catch (error) {
      if (!isRedisUnavailable(error)) throw error;
      return unavailable('Clicks can not be looked up at the moment. Ask again later.');
    }
  }

  /** The match by its id, if it is this app's and still known. */
  async byId(matchId: string, appId: string): Promise<Match | null> {
    const answer = await this.#parts.clicks.answerOf(matchId);
    const match = answer === null ? null : parseMatch(answer);
    return match?.app_id === appId ? match : null;
  }

  /** Null when the URL is no link of the app. */
  async #open(url: string, fields: MatchFields, asker: Asker): Promise<Match | Rejection | null> {
    const { clicks, clock, opens } = this.#parts;
    const name = `${asker.app.app_id}:${asker.device}:${url}`;
    if (asker.device !== '') {
      const before = await clicks.keptAnswer(name).catch(() => null);
      if (before !== null) return parseMatch(before);
    }
    const open: LinkOpen | Rejection | null = await opens.record(url, fields, asker);
    if (open === null || !('click_id' in open)) return open;
    this.counters.url++;
    const match: Match = {
      match_id: newId('mat', clock()),
      app_id: asker.app.app_id,
      match_type: 'url',
      confidence: 1,
      matched_factors: ['url'],
      competing_links: 0,
      click_id: open.click_id,
      clicked_at: open.time,
      link_id: open.link_id,
      query: open.query,
    };
    // Redis away: the answer is right all the same, it just can't be referred to by its id.
    const answer = JSON.stringify(match);
    await Promise.all([
      clicks.keepAnswer(match.match_id, answer, attributionWindowMs(asker.app)),
      asker.device === '' ? null : clicks.keepOpen(name, answer, REPEATED_OPEN_MS),
    ]).catch(() => undefined);
    return match;
  }

  async #matchClick(fields: MatchFields, asker: Asker): Promise<Match> {
    const { clicks, clock } = this.#parts;
    const { app, device } = asker;
    await this.#tellWindows(app);
    const named = namedClicks(fields);
    const ids = named.map(({ click_id }) => click_id);
    const withAddress = app.settings.probabilistic_window_hours > 0;
    const gathered = await clicks.gather(app.app_id, device, asker.ip, ids, withAddress);
    if (gathered.answer !== '') return parseMatch(gathered.answer);
    const found = await this.#named(app.app_id, ids, gathered);
    const match_id = newId('mat', clock());
    const claimant = device || match_id;
    const byId = new Map<string, RecentClick>();
    for (const one of found) if (one) byId.set(one.click.click_id, one.click);
    const lost = new Set<string>();
    for (let attempt = 0; attempt < CLAIMS_MAX; attempt++) {
      const decision = decide({
        app_id: app.app_id,
        claimant,
        device: deviceSignals(fields, asker.ip),
        evidence: named.map(({ type }, at) => ({ type, click: namedCandidate(found[at] ?? null, lost) })),
        candidates: gathered.near.map((click) => candidateOf(app.app_id, click, lost)),
        settings: app.settings,
        nowMs: clock(),
      });
      const decided = matchOf(decision, match_id, app.app_id, byId);
      if (!decision.matched) return decided;
      const match = await this.#withQuery(decided);
      const outcome = await clicks.claim(decision.click, { device, match_id }, JSON.stringify(match), app.settings);
      if (outcome.state === 'claimed') return match;
      if (outcome.state === 'kept') return parseMatch(outcome.answer);
      lost.add(decision.click.click_id);
    }
    return matchOf({ matched: false, competing_links: 0 }, match_id, app.app_id, byId);
  }

  /** Clicks that Redis has lost are looked up where all of them are. */
  async #named(appId: string, ids: readonly string[], gathered: Gathered): Promise<Gathered['named']> {
    return Promise.all(
      gathered.named.map((one, at) => (one ? Promise.resolve(one) : this.#parts.archive.find(appId, ids[at] ?? ''))),
    );
  }

  /**
   * A click that was found by its address is kept without its query there; it is looked up once it is the one, before the
   * claim, so that the answer that is kept is the whole answer.
   */
  async #withQuery(match: Match): Promise<Match> {
    if (match.match_type !== 'probabilistic') return match;
    const [click] = await this.#parts.clicks.byIds([match.click_id]).catch(() => []);
    return { ...match, query: click?.query ?? '' };
  }

  async #tellWindows(app: AppSnapshot): Promise<void> {
    const told = this.#told.get(app.app_id);
    const nowMs = this.#parts.clock();
    if (told?.version === app.version && nowMs - told.atMs < WINDOWS_TOLD_MS) return;
    await this.#parts.windows.put(app.app_id, app.settings);
    if (this.#told.size >= WINDOWS_REMEMBERED_MAX) this.#told.clear();
    this.#told.set(app.app_id, { version: app.version, atMs: nowMs });
  }
}

/** A match as it was kept; the shape was ours when it was written. */
export function parseMatch(json: string): Match {
  return JSON.parse(json) as Match;
}

function namedCandidate(found: Gathered['named'][number], lost: ReadonlySet<string>): CandidateClick | null {
  return found && !lost.has(found.click.click_id) ? { claimed_by: found.claimed_by, ...found.click } : null;
}

function candidateOf(app_id: string, click: ClickAtAddress, lost: ReadonlySet<string>): ScoredClick {
  return {
    click_id: click.click_id,
    app_id,
    link_id: click.link_id,
    time: click.time,
    is_bot: false,
    claimed_by: lost.has(click.click_id) ? 'somebody else' : click.claimed_by,
    signals: clickSignals(click),
  };
}

const noMatch = {
  match_type: 'none',
  confidence: 0,
  matched_factors: [],
  competing_links: 0,
  click_id: '',
  clicked_at: 0,
  link_id: '',
  query: '',
} as const;

function matchOf(decision: Decision, match_id: string, app_id: string, byId: ReadonlyMap<string, RecentClick>): Match {
  if (!decision.matched) return { match_id, app_id, ...noMatch, competing_links: decision.competing_links };
  const { click, type, confidence, factors } = decision;
  return {
    match_id,
    app_id,
    match_type: type,
    confidence,
    matched_factors: factors,
    competing_links: 0,
    click_id: click.click_id,
    clicked_at: click.time,
    link_id: click.link_id,
    query: byId.get(click.click_id)?.query ?? '',
  };
}

/** How long a click may be matched, in milliseconds. */
export function attributionWindowMs(app: AppSnapshot): number {
  return app.settings.attribution_window_hours * HOUR_MS;
}
