/** Converts clicks from Redis to the rules' input, and the rules' decision to a match. */
import type { ClickAtAddress, Gathered } from '#common/attribution/recent-clicks.ts';
import type { CandidateClick, MatchDecision, ScoredClick } from '#common/match/rules.ts';
import { signalsOfTraces } from '#common/match/signals.ts';
import type { Match } from './match-result.ts';

/** The holder of each click, as far as it was read from Postgres. */
type Holders = ReadonlyMap<string, string>;

export function namedCandidate(found: Gathered['named'][number], holders: Holders): CandidateClick | null {
  return found && { ...found.click, claimed_by: holders.get(found.click.click_id) ?? found.claimed_by };
}

/** @param ip the device's address, which is also the click's. */
export function candidateOf(app_id: string, ip: string, click: ClickAtAddress, holders: Holders): ScoredClick {
  return {
    click_id: click.click_id,
    app_id,
    link_id: click.link_id,
    time: click.time,
    is_bot: false,
    claimed_by: holders.get(click.click_id) ?? click.claimed_by,
    signals: signalsOfTraces(click.traces, ip, click.signals),
  };
}

export function unclaimed({ near }: Gathered): string[] {
  return near.flatMap(({ click_id, claimed_by }) => (claimed_by === '' ? [click_id] : []));
}

export const noMatch = {
  match_type: 'none',
  confidence: 0,
  matched_factors: [],
  competing_links: 0,
  click_id: '',
  clicked_at: 0,
  link_id: '',
  query: '',
} as const;

export function matchOf(
  decision: MatchDecision,
  match_id: string,
  app_id: string,
  queries: ReadonlyMap<string, string>,
): Match {
  if (!decision.matched) {
    const { competing_links, reason } = decision;
    return { match_id, app_id, ...noMatch, competing_links, reason };
  }
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
    query: queries.get(click.click_id) ?? '',
  };
}
