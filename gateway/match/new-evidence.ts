/** Determines what is new in the request of a device that already has an answer. */
import type { Gathered } from '#common/attribution/recent-clicks.ts';
import { timeOfId } from '#common/ids.ts';
import type { CandidateClick, Evidence, MatchDecision } from '#common/match/rules.ts';
import type { NamedClick } from './evidence.ts';
import type { Match } from './match-result.ts';

/** Whether a device that already has an answer names no other click, and no click was made at its address since. */
export function isNothingNew(first: Match, device: string, given: readonly NamedClick[], { near }: Gathered): boolean {
  if (given.length > 0) return given.every(({ click_id }) => click_id === first.click_id);
  const isFree = (holder: string) => holder === '' || holder === device;
  return !near.some((click) => isFree(click.claimed_by) && isNewer(click, first));
}

function isNewer({ time }: Pick<CandidateClick, 'time'>, { match_id }: Match): boolean {
  return time > timeOfId(match_id);
}

/**
 * For a device that already has an answer: whether it names a click that it did not get before, or one was made since
 * then.
 */
export function isNewEvidence({ type, click }: Extract<MatchDecision, { matched: true }>, first: Match): boolean {
  return click.click_id !== first.click_id && (type !== 'probabilistic' || isNewer(click, first));
}

/**
 * The Play Store referrer and the clipboard keep their content, so new clicks take precedence over those the device
 * already got.
 */
export function newFirst(evidence: readonly Evidence[], device: string, first: Match | null): readonly Evidence[] {
  const isUsed = ({ click }: Evidence) =>
    click !== null && (click.click_id === first?.click_id || (device !== '' && click.claimed_by === device));
  return [...evidence.filter((one) => !isUsed(one)), ...evidence.filter(isUsed)];
}
