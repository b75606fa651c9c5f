/**
 * Answers a match request: gets evidence and candidates from Redis, applies the rules, and claims the click in
 * Postgres. If another device has already claimed the click, it is excluded and the rules run again.
 *
 * Invariant: Redis only has copies of the claims. If a copy is lost, evicted or never written, this costs a lookup, but
 * changes no answer.
 */
import type { AddressWriter } from '#common/address-writer.ts';
import type { Gathered, RecentClicks } from '#common/attribution/recent-clicks.ts';
import type { Clock } from '#common/clock.ts';
import { HOUR_MS } from '#common/durations.ts';
import { Rejection, unavailable } from '#common/http/rejection.ts';
import { newId, timeOfId } from '#common/ids.ts';
import type { AppSnapshot } from '#common/links/app-snapshot.ts';
import { decide, type MatchInput } from '#common/match/rules.ts';
import { deviceSignals } from '#common/match/signals.ts';
import { PostgresUnavailable } from '#common/stores/postgres.ts';
import { isRedisUnavailable } from '#common/stores/redis.ts';
import type { AppOpens } from './app-opens.ts';
import type { Asker } from './asker.ts';
import type { ClickClaim } from './claim-store.ts';
import { type ClaimOutcome, type Claims, holderOf, isFirstOf } from './claims.ts';
import type { ClickLookup } from './click-archive.ts';
import { namedClicks } from './evidence.ts';
import type { LinkOpens } from './link-opens.ts';
import type { Decided, MatchLog } from './match-log.ts';
import { candidateOf, matchOf, namedCandidate, noMatch, unclaimed } from './match-of-decision.ts';
import { type Match, parseMatch } from './match-result.ts';
import type { MatchFields } from './match-schema.ts';
import { isNewEvidence, isNothingNew, newFirst } from './new-evidence.ts';
import { hasYoung, isYoungClick, YoungClicks } from './young-clicks.ts';

/** Maximum clicks that a match may lose to other devices before it gives up. */
const CLAIMS_MAX = 8;
/** If the same device reports the same link again within this time, it is the same opening, sent twice. */
const REPEATED_OPEN_MS = 10_000;

export interface MatchingParts {
  readonly clicks: RecentClicks;
  readonly claims: Claims;
  readonly opens: LinkOpens;
  readonly appOpens: AppOpens;
  readonly addresses: AddressWriter;
  readonly archive: ClickLookup;
  readonly log: MatchLog;
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
    refused: 0,
    ambiguous: 0,
  };
  readonly #parts: MatchingParts;
  /**
   * Named clicks that Redis did not have, by the result of the lookup in ClickHouse; since the start of the process.
   */
  readonly lookups = { found: 0, unknown: 0, pending: 0, unavailable: 0 };
  readonly #young = new YoungClicks();

  constructor(parts: MatchingParts) {
    this.#parts = parts;
  }

  async match(fields: MatchFields, asker: Asker): Promise<Match | Rejection> {
    const { log, clock } = this.#parts;
    if (!log.isOpen) return this.#refuse();
    const question = { fields, asker, startedMs: performance.now() };
    let isLinkUnusable = false;
    if (fields.url) {
      const sinceMs = clock();
      const opened = await this.#open(fields.url, fields, asker);
      isLinkUnusable = opened === 'unusable';
      if (opened !== null && opened !== 'unusable') {
        const isNew = 'match_id' in opened && timeOfId(opened.match_id) >= sinceMs;
        if (isNew && !(await log.write(question, opened, null))) return this.#refuse();
        return opened;
      }
    }
    try {
      const answered = await this.#matchClick(fields, asker, isLinkUnusable);
      if (answered instanceof Rejection) return answered;
      const { match, decided } = answered;
      if (decided && !(await log.write(question, match, decided))) return this.#refuse();
      this.counters[match.match_type]++;
      if (match.competing_links > 0) this.counters.ambiguous++;
      return match;
    } catch (error) {
      if (error instanceof PostgresUnavailable)
        return unavailable('Clicks cannot be claimed at the moment. Send the request again later.');
      if (!isRedisUnavailable(error)) throw error;
      return unavailable('Clicks cannot be looked up at the moment. Send the request again later.');
    }
  }

  #refuse(): Rejection {
    this.counters.refused++;
    return unavailable('Matches cannot be recorded at the moment. Send the request again later.');
  }

  /** The match by its id, if it is this app's and still known. @throws if Redis or Postgres is unavailable. */
  async byId(matchId: string, appId: string): Promise<Match | null> {
    const { clicks, claims } = this.#parts;
    const answer = (await clicks.answerOf(matchId)) ?? (await claims.byMatchId(matchId))?.answer;
    const match = answer === undefined ? null : parseMatch(answer);
    return match?.app_id === appId ? match : null;
  }

  /** `unusable` if the URL is a short link that cannot be followed; null if it is not a short link. */
  async #open(url: string, fields: MatchFields, asker: Asker): Promise<Match | Rejection | 'unusable' | null> {
    const { clicks, clock, opens, appOpens } = this.#parts;
    const name = `${asker.app.app_id}:${asker.device}:${opens.recorded(url)}`;
    if (asker.device !== '') {
      const before = await clicks.keptAnswer(name).catch(() => null);
      if (before !== null) return parseMatch(before);
    }
    const open = await opens.record(url, fields, asker);
    if (open === null || open === 'unusable' || !('click_id' in open)) return open;
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
    if (!(await appOpens.byUrl(match, open.link, fields, asker))) return openNotKept();
    // Without Redis, the answer is still right, but later requests cannot refer to it by its id.
    const answer = JSON.stringify(match);
    await Promise.all([
      clicks.keepAnswer(match.match_id, answer, attributionWindowMs(asker.app)),
      asker.device === '' ? null : clicks.keepOpen(name, answer, REPEATED_OPEN_MS),
    ]).catch(() => undefined);
    return match;
  }

  /**
   * Rejected if a named click can't be looked up now, or if it is a re-engagement with an opening that can't be
   * recorded.
   */
  async #matchClick(fields: MatchFields, asker: Asker, isLinkUnusable: boolean): Promise<Answered | Rejection> {
    const { clicks, addresses, clock } = this.#parts;
    const { app, device } = asker;
    const given = namedClicks(fields);
    const { probabilistic_window_hours, privacy_mode } = app.settings;
    const address = probabilistic_window_hours > 0 ? addresses.ofDevice(asker.ip, privacy_mode) : '';
    const ids = given.map(({ click_id }) => click_id);
    const gathered = await clicks.gather(app.app_id, device, address, ids);
    let first = gathered.answer === '' ? null : parseMatch(gathered.answer);
    if (first && isNothingNew(first, device, given, gathered)) return { match: first, decided: null };
    const named = await this.#named(app, ids, gathered.named);
    if (named === null) return lookupUnavailable();
    let { found } = named;
    const match_id = newId('mat', clock());
    const queries = new Map(gathered.near.map(({ click_id, query }) => [click_id, query]));
    /** The holder of each click, as far as it was read from Postgres. */
    const holders = new Map<string, string>();
    let decided: Decided | null = null;
    for (let attempt = 0, isLookedUp = false, isAwaited = false; attempt < CLAIMS_MAX; attempt++) {
      for (const one of found) if (one) queries.set(one.click.click_id, one.click.query);
      const evidence = given.map(({ type }, at) => ({ type, click: namedCandidate(found[at] ?? null, holders) }));
      const input: MatchInput = {
        app_id: app.app_id,
        claimant: device || match_id,
        device: deviceSignals(fields, asker.ip),
        evidence: newFirst(evidence, device, first),
        isLinkUnusable,
        candidates: gathered.near.map((click) => candidateOf(app.app_id, asker.ip, click, holders)),
        settings: app.settings,
        nowMs: clock(),
      };
      const decision = decide(input);
      decided = { given, input, decision, near: gathered.near };
      const match = matchOf(decision, match_id, app.app_id, queries);
      if (!decision.matched) {
        const isYoung = hasYoung(ids, found, clock());
        if (decision.reason === 'click_unknown' && (isYoung || named.isPending)) {
          const now: Named | null = isYoung && !isAwaited ? await this.#awaited(app.app_id, ids, found) : null;
          if (now === null) return { match: { ...match, reason: 'click_pending' }, decided };
          [found, isAwaited] = [now, true];
          continue;
        }
        if (first) return { match: first, decided: null };
        if (isLookedUp) return { match, decided };
        isLookedUp = true;
        const competitors = decision.competing_links > 0 ? unclaimed(gathered) : [];
        const known = await this.#knownClaims(app, device, competitors);
        const own = known.find((claim) => isFirstOf(claim, app.app_id, device));
        if (own) return { match: parseMatch(own.answer), decided: null };
        if (known.length === 0) return { match, decided };
        for (const claim of known) holders.set(claim.click_id, holderOf(claim));
        continue;
      }
      if (first && !isNewEvidence(decision, first)) return { match: first, decided: null };
      const { state, claim } = await this.#claim(match, asker, first === null);
      // Redis does not have the first answer yet: evidence other than its click may be new.
      const isLate = state === 'answered' || (state === 'kept' && first === null && given.length > 1);
      if (isLate) first = parseMatch(claim.answer);
      else if (state === 'claimed' || state === 'kept') {
        const answer = state === 'claimed' ? match : parseMatch(claim.answer);
        const opened = await this.#opened(claim, answer, fields, asker);
        return opened ? { match: opened, decided: state === 'claimed' ? decided : null } : openNotKept();
      } else holders.set(decision.click.click_id, holderOf(claim));
    }
    return first ? { match: first, decided: null } : { match: { match_id, app_id: app.app_id, ...noMatch }, decided };
  }

  async #claim(match: Match, { app, device, install_name }: Asker, is_first: boolean): Promise<ClaimOutcome> {
    const { claims } = this.#parts;
    const { click_id, app_id, match_id, clicked_at } = match;
    const hours = app.settings.attribution_window_hours;
    const answer = JSON.stringify(match);
    const claim = {
      click_id,
      app_id,
      device,
      match_id,
      answer,
      is_first,
      hours,
      clicked_at,
      install_name: install_name ?? '',
    };
    const outcome = await claims.claim(claim);
    this.#copy([outcome.claim], app);
    return outcome;
  }

  /** The answer of a claim; null if it is a re-engagement with an opening that can't be recorded now. */
  async #opened(claim: ClickClaim, match: Match, fields: MatchFields, asker: Asker): Promise<Match | null> {
    if (!claim.is_open_due) return match;
    if (!(await this.#parts.appOpens.byClick(match, fields, asker))) return null;
    // If this fails, the opening is recorded again with the device's next request, and counted once.
    const isTold = await this.#parts.claims.opened(claim.click_id).then(
      () => true,
      () => false,
    );
    if (isTold) this.#copy([{ ...claim, is_open_due: false }], asker.app);
    return match;
  }

  /**
   * The device's own claim and those on the clicks, if Redis does not have them. Empty while Postgres is unavailable: a
   * match that claims nothing is still answered.
   */
  async #knownClaims(app: AppSnapshot, device: string, clickIds: readonly string[]): Promise<readonly ClickClaim[]> {
    if (device === '' && clickIds.length === 0) return [];
    try {
      const found = await this.#parts.claims.find({ app_id: app.app_id, device }, clickIds);
      this.#copy(found, app);
      return found;
    } catch (error) {
      if (!(error instanceof PostgresUnavailable)) throw error;
      return [];
    }
  }

  /**
   * Copies claims to Redis, where the next request looks first. A claim with a due opening is not copied: only Postgres
   * records that the opening is due.
   */
  #copy(claims: readonly ClickClaim[], app: AppSnapshot): void {
    for (const claim of claims) {
      if (!claim.is_open_due) this.#parts.clicks.copyClaim(claim, attributionWindowMs(app));
    }
  }

  /** Looks up clicks that Redis does not have in ClickHouse, which has all of them. Null if that fails now. */
  async #named(app: AppSnapshot, ids: readonly string[], known: Named): Promise<LookedUp | null> {
    const { archive, clock } = this.#parts;
    const { organization_id, app_id } = app;
    let [isPending, isUnavailable] = [false, false];
    const find = async (click_id: string) => {
      const answer = await archive.find({ organization_id, app_id, click_id });
      this.lookups[typeof answer === 'string' ? answer : 'found']++;
      if (typeof answer !== 'string') return answer;
      isPending ||= answer === 'pending';
      // A recent click is waited for in Redis, and one that is too old can't be matched whatever the answer.
      const isNeeded = !isYoungClick(click_id, clock()) && clock() - timeOfId(click_id) <= attributionWindowMs(app);
      isUnavailable ||= answer === 'unavailable' && isNeeded;
      return null;
    };
    const found = await Promise.all(known.map((one, at) => (one ? Promise.resolve(one) : find(ids[at] ?? ''))));
    return isUnavailable ? null : { found, isPending };
  }

  /** The named clicks after one more of them arrives; null if none arrives within the wait. */
  #awaited(appId: string, ids: readonly string[], before: Named): Promise<Named | null> {
    return this.#young.wait(async () => {
      const { named } = await this.#parts.clicks.gather(appId, '', '', ids);
      return named.some((one, at) => one && !before[at]) ? named.map((one, at) => one ?? before[at] ?? null) : null;
    });
  }
}

type Named = Gathered['named'];

interface LookedUp {
  readonly found: Named;
  /** Whether one that was not found may still arrive. */
  readonly isPending: boolean;
}

/** `decided` is null for a repeated answer, which was recorded the first time. */
interface Answered {
  readonly match: Match;
  readonly decided: Decided | null;
}

function lookupUnavailable(): Rejection {
  return unavailable('The named click cannot be looked up at the moment. Send the request again later.');
}

function openNotKept(): Rejection {
  return unavailable('The opening cannot be recorded at the moment. Send the request again later.');
}

/** How long a click may be matched, in milliseconds. */
export function attributionWindowMs(app: AppSnapshot): number {
  return app.settings.attribution_window_hours * HOUR_MS;
}
