/**
 * Simulates a population with a known truth: people with phones at home, in offices, behind carriers, relays and VPNs,
 * who click links in browsers and apps and install an app, or install it without any click. The result of the rules is
 * compared with the truth.
 */
import { PER_ADDRESS_MAX } from '#common/attribution/recent-clicks.ts';
import { MINUTE_MS } from '#common/durations.ts';
import { limitAddress } from '#common/http/peer.ts';
import { decide, type Evidence, type ScoredClick } from '#common/match/rules.ts';
import { type ClickFields, clickSignals, deviceSignals } from '#common/match/signals.ts';
import { seededRandom } from '#common/seeded-random.ts';
import { browserOf } from './simulated-browsers.ts';
import {
  addressAt,
  type Person,
  type Place,
  POPULATION_PER_CLICK,
  personOf,
  placeOf,
  type Random,
  STRANGERS,
} from './simulated-people.ts';

const HOUR = 60 * MINUTE_MS;
const DAYS = 7;
const WINDOW = 6 * HOUR;
/** Share of installs after a tap page for which the copied link is still in the clipboard and may be read. */
const CLIPBOARD_SHARE = 0.88;
const UPDATE_SHARE = 0.003;

export type TapPage = 'off' | 'ios' | 'mobile';

export interface Band {
  readonly from: number;
  matches: number;
  right: number;
  /** Someone else's click, but on the link that the person clicked. */
  rightLink: number;
  wrongLink: number;
}

export interface Recall {
  /** Installs of people who clicked within the window. */
  findable: number;
  found: number;
}

export interface SimulationResult {
  /** Matches by score. */
  readonly bands: readonly Band[];
  readonly installs: number;
  readonly all: Recall;
  readonly ios: Recall;
  readonly android: Recall;
  /** Installs that have the same address as their click. */
  readonly sameAddress: Recall;
  readonly byBrowser: ReadonlyMap<string, Recall>;
  readonly certain: number;
  readonly refused: Readonly<Record<string, number>>;
}

interface Click {
  readonly person: number;
  readonly link: number;
  readonly time: number;
  readonly ip: string;
  readonly browser: string;
  readonly fields: ClickFields;
}

interface Install {
  readonly person: number;
  readonly time: number;
  readonly ip: string;
  /** Whether the clipboard of an iPhone can be read: an earlier tap page would have put the click there. */
  readonly hasClipboard: boolean;
  readonly isUpdated: boolean;
}

export interface SimulationOptions {
  readonly installs: number;
  readonly clicks: number;
  readonly seed: number;
  readonly tapPage: TapPage;
  readonly strangers?: number;
}

const settings = {
  attribution_window_hours: 168,
  probabilistic_window_hours: 6,
  min_confidence: 0.6,
  privacy_mode: 'anonymize_ip' as const,
  conversion_events: [],
};

type PersonBy = (n: number) => Person;

/** Processes installs in order, with claims. The same seed gives the same history with and without a tap page. */
export function simulate(options: SimulationOptions): SimulationResult {
  const { installs, clicks, seed, tapPage, strangers = STRANGERS } = options;
  const random = seededRandom(seed);
  const population = clicks * POPULATION_PER_CLICK;
  const people = new Map<number, Person>();
  const personBy = (n: number): Person => {
    const person = people.get(n) ?? personOf(seededRandom(seed + n), n, { population, strangers });
    people.set(n, person);
    return person;
  };
  const { allClicks, allInstalls } = history(random, { installs, clicks, population, tapPage }, personBy);
  return judge(allClicks, allInstalls, personBy, tapPage);
}

/**
 * 7 of 10 installs follow a click, three quarters of them within an hour; a quarter of the clickers clicked several
 * links; one click in ten is shared: someone in the same place opens the same link.
 */
function history(
  random: Random,
  { installs, clicks, population, tapPage }: { installs: number; clicks: number; population: number; tapPage: TapPage },
  personBy: PersonBy,
) {
  const allClicks: Click[] = [];
  const allInstalls: Install[] = [];
  const clickAt = (n: number, time: number, place: Place, link: number): void => {
    const person = personBy(n);
    const { name, agent } = browserOf(random, person);
    const ip = addressAt(random, person, place, name === 'Safari');
    const isAsked = tapPage === 'mobile' || (tapPage === 'ios' && person.isIos);
    allClicks.push({ person: n, link, time, ip, browser: name, fields: fieldsOf(person, agent, ip, isAsked) });
  };
  const installAt = (n: number, time: number, place: Place): void => {
    const ip = addressAt(random, personBy(n), place, false);
    allInstalls.push({
      person: n,
      time,
      ip,
      hasClipboard: random() < CLIPBOARD_SHARE,
      isUpdated: random() < UPDATE_SHARE,
    });
  };
  const anyLink = () => Math.floor(random() ** 3 * 500);
  while (allClicks.length < clicks) {
    const n = Math.floor(random() * population);
    const person = personBy(n);
    const time = random() * DAYS * 24 * HOUR;
    const place = placeOf(random, person);
    const link = anyLink();
    clickAt(n, time, place, link);
    while (random() < 0.25) {
      clickAt(n, time - random() * 24 * HOUR, random() < 0.5 ? place : placeOf(random, person), anyLink());
    }
    if (random() < 0.1) clickAt(n - (n % 5) + Math.floor(random() * 5), time + random() * HOUR, 'home', link);
    if (allInstalls.length < installs * 0.7 && random() < (installs * 0.7) / (clicks * 0.72)) {
      const delay = Math.max(15_000, Math.exp(Math.log(5.3 * MINUTE_MS) + 3.6 * gauss(random)));
      const moved = delay < 10 * MINUTE_MS ? 0.05 : delay < HOUR ? 0.15 : 0.45;
      installAt(n, time + delay, random() < moved ? placeOf(random, person) : place);
    }
  }
  while (allInstalls.length < installs) {
    const n = Math.floor(random() * population);
    installAt(n, random() * DAYS * 24 * HOUR, placeOf(random, personBy(n)));
  }
  return { allClicks, allInstalls };
}

function fieldsOf(
  { languages, isIos, timezone, screen, scale }: Person,
  user_agent: string,
  ip: string,
  isAsked: boolean,
): ClickFields {
  // Safari and its web views send one language, others the list.
  const language = isIos ? `${languages[0]},${languages[0]?.split('-')[0]};q=0.9` : `${languages.join(',')};q=0.8`;
  const tap = { timezone, screen, pixel_ratio: scale, languages };
  return { ip, user_agent, language, tap: isAsked ? tap : null };
}

function gauss(random: Random): number {
  return Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
}

function judge(clicks: Click[], installs: Install[], personBy: PersonBy, tapPage: TapPage): SimulationResult {
  clicks.sort((a, b) => a.time - b.time);
  installs.sort((a, b) => a.time - b.time);
  const world = new World(clicks);
  const tally = new Tally(installs.length);
  for (const install of installs) {
    world.advance(install.time);
    const person = personBy(install.person);
    const own = world.ownClicks(install);
    const near = world.near(install);
    const last = own.at(-1);
    const isCertain = tapPage !== 'off' && person.isIos && install.hasClipboard && last !== undefined;
    const evidence: Evidence[] = isCertain ? [{ type: 'clipboard', click: last.scored }] : [];
    const decision = decide({
      app_id: 'a',
      claimant: `p${install.person}`,
      device: deviceSignals(deviceAt(person, install), install.ip),
      evidence,
      candidates: near.map(({ scored }) => ({ ...scored, claimed_by: world.claimed.get(scored.click_id) ?? '' })),
      settings,
      nowMs: install.time,
    });
    const matched = decision.matched ? world.claim(decision.click.click_id, install) : null;
    tally.add({ person, install, own, matched, decision });
  }
  return tally.result();
}

/** A phone whose system was updated since the click has a later minor version. */
function deviceAt({ device }: Person, { isUpdated }: Install) {
  if (!isUpdated || device.platform !== 'ios' || !device.os_version) return device;
  const [major, minor] = device.os_version.split('.').map(Number);
  return { ...device, os_version: `${major}.${(minor ?? 0) + 1}` };
}

interface Known {
  readonly click: Click;
  readonly scored: ScoredClick;
}

/** What Redis has at a given time. */
class World {
  readonly claimed = new Map<string, string>();
  readonly #clicks: readonly Click[];
  readonly #atAddress = new Map<string, Known[]>();
  readonly #ofPerson = new Map<number, Known[]>();
  readonly #byId = new Map<string, Known>();
  #next = 0;

  constructor(clicks: readonly Click[]) {
    this.#clicks = clicks;
  }

  advance(time: number): void {
    for (let click = this.#clicks[this.#next]; click && click.time <= time; click = this.#clicks[++this.#next]) {
      const ids = { click_id: `c${this.#next}`, app_id: 'a', link_id: `l${click.link}` };
      const signals = clickSignals(click.fields);
      const known = { click, scored: { ...ids, time: click.time, is_bot: false, claimed_by: '', signals } };
      push(this.#atAddress, limitAddress(click.ip), known);
      push(this.#ofPerson, click.person, known);
      this.#byId.set(ids.click_id, known);
    }
  }

  near({ ip, time }: Install): Known[] {
    const all = this.#atAddress.get(limitAddress(ip)) ?? [];
    return all.slice(-PER_ADDRESS_MAX).filter(({ click }) => time - click.time <= WINDOW);
  }

  ownClicks({ person, time }: Install): Known[] {
    return (this.#ofPerson.get(person) ?? []).filter(({ click }) => time - click.time <= WINDOW);
  }

  claim(clickId: string, { person }: Install): Click {
    this.claimed.set(clickId, `p${person}`);
    const known = this.#byId.get(clickId);
    if (!known) throw new Error('a match has a click');
    return known.click;
  }
}

interface Judged {
  readonly person: Person;
  readonly install: Install;
  readonly own: readonly Known[];
  readonly matched: Click | null;
  readonly decision: ReturnType<typeof decide>;
}

class Tally {
  readonly #bands: Band[] = [0.6, 0.7, 0.8, 0.9].map((from) => ({
    from,
    matches: 0,
    right: 0,
    rightLink: 0,
    wrongLink: 0,
  }));
  readonly #recall = { all: none(), ios: none(), android: none(), sameAddress: none() };
  readonly #byBrowser = new Map<string, Recall>();
  readonly #refused: Record<string, number> = {};
  readonly #installs: number;
  #certain = 0;

  constructor(installs: number) {
    this.#installs = installs;
  }

  add({ person, install, own, matched, decision }: Judged): void {
    const last = own.at(-1)?.click;
    if (last) {
      const isFound = matched?.person === install.person;
      const browser = this.#byBrowser.get(last.browser) ?? none();
      this.#byBrowser.set(last.browser, browser);
      const counted = [this.#recall.all, person.isIos ? this.#recall.ios : this.#recall.android, browser];
      if (own.some(({ click }) => limitAddress(click.ip) === limitAddress(install.ip)))
        counted.push(this.#recall.sameAddress);
      for (const one of counted) {
        one.findable++;
        if (isFound) one.found++;
      }
      if (!decision.matched) this.#refused[decision.reason] = (this.#refused[decision.reason] ?? 0) + 1;
    }
    if (!decision.matched || !matched) return;
    if (decision.type !== 'probabilistic') {
      this.#certain++;
      return;
    }
    const band = this.#bands.findLast(({ from }) => decision.confidence >= from);
    if (!band) throw new Error('a match has a confidence');
    band.matches++;
    if (matched.person === install.person) band.right++;
    else if (own.some(({ click }) => click.link === matched.link)) band.rightLink++;
    else band.wrongLink++;
  }

  result(): SimulationResult {
    const { all, ios, android, sameAddress } = this.#recall;
    const counts = { bands: this.#bands, installs: this.#installs, certain: this.#certain, refused: this.#refused };
    return { ...counts, all, ios, android, sameAddress, byBrowser: this.#byBrowser };
  }
}

function none(): Recall {
  return { findable: 0, found: 0 };
}

function push<K, V>(map: Map<K, V[]>, key: K, value: V): void {
  const list = map.get(key);
  if (list) list.push(value);
  else map.set(key, [value]);
}
