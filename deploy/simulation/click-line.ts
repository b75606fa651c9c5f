/** Simulated clicks in the edge's format, for the code that parses them: the Redis feed and matching. */
import type { Scheduler } from './scheduler.ts';

export interface ClickFacts {
  /** Number of the record. */
  readonly n: number;
  readonly click_id: string;
  readonly time: number;
}

/** All clicks that were sent, and those that were accepted. A refused or unanswered click may be stored as well. */
export interface SentClicks {
  readonly sent: ClickFacts[];
  readonly kept: ClickFacts[];
}

const idChars = '0123456789abcdefghjkmnpqrstvwxyz';
const stampChars = 10;

/** A well-formed id that is the same in every run of a seed. */
export function idOf(prefix: string, ms: number, scheduler: Scheduler): string {
  let stamp = '';
  for (let left = ms; stamp.length < stampChars; left = Math.floor(left / 32))
    stamp = idChars.charAt(left % 32) + stamp;
  const chance = Array.from({ length: 16 }, (_, at) =>
    at === 0 ? 'e' : at === 3 ? '8' : idChars.charAt(Math.floor(scheduler.random.next() * 32)),
  );
  return `${prefix}_${stamp}${chance.join('')}`;
}

export const clickAddress = '198.51.100.7';
export const clickApp = 'app_01m3250v00e0g8000000000000';
export const clickLink = 'lnk_01m3250v00e0g8000000000000';
const organization = 'org_01m3250v00e0g8000000000000';
export const windowHours = { attribution_window_hours: 168, probabilistic_window_hours: 6 };
const user_agent =
  'Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.5 Mobile/15E148 Safari/604.1';

/** The fields of a click's record besides its number and time. */
export function clickFields(click_id: string): object {
  return {
    v: 1,
    click_id,
    organization_id: organization,
    app_id: clickApp,
    link_id: clickLink,
    privacy_mode: 'full_ip',
    trigger: 'link',
    ip: clickAddress,
    user_agent,
    language: 'en-US',
  };
}
