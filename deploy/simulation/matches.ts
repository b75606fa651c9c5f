/** Checks the responses to devices: while its claim is stored, a click is matched to one device, by one match. */
import { HOUR_MS } from '#common/durations.ts';
import type { Match } from '#gateway/match/match-result.ts';
import { windowHours } from './click-line.ts';

interface Given {
  readonly device: string;
  readonly match_id: string;
  readonly at: number;
}

/** A repeated match by another id is a fault only within this time: a claim may be deleted around its expiry. */
const claimKeptMs = (windowHours.attribution_window_hours - 1) * HOUR_MS;

export class Matches {
  readonly faults: string[] = [];
  given = 0;
  #isJudged = true;
  readonly #byClick = new Map<string, Given>();

  /** @param device empty for a device without a name. */
  note({ match_type, match_id, click_id }: Match, device: string, now: number): void {
    if (match_type === 'none' || !this.#isJudged) return;
    this.given++;
    const other = this.#byClick.get(click_id);
    const holder = device || match_id;
    if (other !== undefined && other.device !== holder)
      this.faults.push(`click ${click_id} was given to ${other.device} at ${other.at} and to ${holder} at ${now}`);
    if (other?.match_id !== match_id) this.#byClick.set(click_id, { device: holder, match_id, at: now });
    if (device !== '' && other !== undefined && other.match_id !== match_id && now - other.at < claimKeptMs)
      this.faults.push(
        `${device} was given ${click_id} by ${other.match_id} at ${other.at} and by ${match_id} at ${now}`,
      );
  }

  /** Postgres has lost claims: from now on, a click may be matched a second time, so matches are no longer checked. */
  forget(): void {
    this.#isJudged = false;
  }
}
