/**
 * One click, one device; one device, one answer. Claims of one turn of the event loop are stored by one statement, and while
 * enough statements are under way the next ones gather. Postgres decides; a claim is answered after its commit.
 */
import { PostgresUnavailable } from '#common/postgres.ts';
import { systemTime, type Time } from '#common/time.ts';
import type { Claim, ClaimStore, DeviceName, NewClaim } from './claim-store.ts';

const BATCH_MAX = 500;
const BATCHES_OPEN_MAX = 1;
const WAITING_MAX = 20_000;
/** A deadlock with the batch of another process ends one of the two; it is stored again. */
const TRIES_MAX = 3;

/** `taken` and `kept` carry the claim that was there first: another device's on the click, or the device's own. */
export type ClaimOutcome =
  | { readonly state: 'claimed' }
  | { readonly state: 'taken'; readonly claim: Claim }
  | { readonly state: 'kept'; readonly claim: Claim };

interface Waiting {
  readonly done: (outcome: never) => void;
  readonly failed: (error: unknown) => void;
}
interface WaitingClaim extends Waiting {
  readonly claim: NewClaim;
  readonly done: (outcome: ClaimOutcome) => void;
}
interface WaitingQuestion extends Waiting {
  readonly device: DeviceName;
  readonly clickIds: readonly string[];
  readonly done: (found: Claim[]) => void;
}

/** Who has a click by this claim. */
export function holderOf({ device, match_id }: Claim): string {
  return device || match_id;
}

export class Claims {
  readonly #claims: Batches<WaitingClaim>;
  readonly #questions: Batches<WaitingQuestion>;
  readonly #store: ClaimStore;

  constructor(store: ClaimStore, time: Pick<Time, 'atTurnEnd'> = systemTime) {
    this.#store = store;
    this.#claims = new Batches((batch) => this.#insert(batch), time);
    this.#questions = new Batches((batch) => this.#find(batch), time);
  }

  /** @throws PostgresUnavailable: whether the claim was stored is not known then; asked again, the device learns it. */
  claim(claim: NewClaim): Promise<ClaimOutcome> {
    return new Promise((done, failed) => this.#claims.add({ claim: storable(claim), done, failed }));
  }

  /** The device's own claim and those on the clicks. @throws PostgresUnavailable */
  find(device: DeviceName, clickIds: readonly string[]): Promise<Claim[]> {
    return new Promise((done, failed) => this.#questions.add({ device: storable(device), clickIds, done, failed }));
  }

  /** @throws PostgresUnavailable */
  byMatchId(matchId: string): Promise<Claim | null> {
    return this.#store.byMatchId(storableText(matchId)).then((claim) => claim);
  }

  async #insert(batch: readonly WaitingClaim[]): Promise<void> {
    for (let tries = 1, open = batch; open.length > 0; tries++) {
      try {
        open = await this.#insertOnce(open);
        // What stood in the way was deleted before it could be read: tried again.
        if (tries >= TRIES_MAX && open.length > 0) throw new PostgresUnavailable(new Error('claims change too fast'));
      } catch (error) {
        if (tries < TRIES_MAX && error instanceof PostgresUnavailable && error.code.startsWith('40')) continue;
        for (const { failed } of open) failed(error);
        return;
      }
    }
  }

  /** @returns those that are still undecided. */
  async #insertOnce(batch: readonly WaitingClaim[]): Promise<WaitingClaim[]> {
    const stored = await this.#store.insert(batch.map(({ claim }) => claim));
    const losers: WaitingClaim[] = [];
    for (const one of batch) {
      if (stored.has(one.claim.match_id)) one.done({ state: 'claimed' });
      else losers.push(one);
    }
    if (losers.length === 0) return [];
    const named = losers.filter(({ claim }) => claim.device !== '');
    const found = await this.#store.find(
      losers.map(({ claim }) => claim.click_id),
      named.map(({ claim }) => claim),
    );
    const byClick = new Map(found.map((claim) => [claim.click_id, claim]));
    const byDevice = new Map(found.map((claim) => [deviceKey(claim), claim]));
    return losers.filter(({ claim, done }) => {
      const own = claim.device === '' ? undefined : byDevice.get(deviceKey(claim));
      const other = byClick.get(claim.click_id);
      if (other?.match_id === claim.match_id) done({ state: 'claimed' });
      else if (own) done({ state: 'kept', claim: own });
      else if (other) done({ state: 'taken', claim: other });
      else return true;
      return false;
    });
  }

  async #find(batch: readonly WaitingQuestion[]): Promise<void> {
    try {
      const found = await this.#store.find(
        [...new Set(batch.flatMap(({ clickIds }) => clickIds))],
        batch.map(({ device }) => device).filter(({ device }) => device !== ''),
      );
      const byClick = new Map(found.map((claim) => [claim.click_id, claim]));
      const byDevice = new Map(found.map((claim) => [deviceKey(claim), claim]));
      for (const { device, clickIds, done } of batch) {
        const own = device.device === '' ? undefined : byDevice.get(deviceKey(device));
        const others = clickIds.flatMap((id) => byClick.get(id) ?? []);
        done(own && !others.includes(own) ? [own, ...others] : others);
      }
    } catch (error) {
      for (const { failed } of batch) failed(error);
    }
  }
}

/** Gathers what comes in one turn; runs a few batches at once, and bounds what waits. */
class Batches<T extends Waiting> {
  readonly #run: (batch: readonly T[]) => Promise<void>;
  readonly #time: Pick<Time, 'atTurnEnd'>;
  #waiting: T[] = [];
  #open = 0;
  #isDue = false;

  constructor(run: (batch: readonly T[]) => Promise<void>, time: Pick<Time, 'atTurnEnd'>) {
    this.#run = run;
    this.#time = time;
  }

  add(one: T): void {
    if (this.#waiting.length >= WAITING_MAX) {
      one.failed(new PostgresUnavailable(new Error(`${WAITING_MAX} claims wait already`)));
      return;
    }
    this.#waiting.push(one);
    if (this.#isDue) return;
    this.#isDue = true;
    this.#time.atTurnEnd(() => {
      this.#isDue = false;
      this.#send();
    });
  }

  #send(): void {
    while (this.#waiting.length > 0 && this.#open < BATCHES_OPEN_MAX) {
      const batch = this.#waiting.splice(0, BATCH_MAX);
      this.#open++;
      void this.#run(batch).finally(() => {
        this.#open--;
        this.#send();
      });
    }
  }
}

function deviceKey({ app_id, device }: DeviceName): string {
  return `${app_id} ${device}`;
}

/** Postgres keeps no NUL in a text, and one device's must not fail the claims beside it. */
function storableText(text: string): string {
  return text.includes('\0') ? text.replaceAll('\0', '\uFFFD') : text;
}
function storable<T extends DeviceName>(named: T): T {
  return named.device.includes('\0') ? { ...named, device: storableText(named.device) } : named;
}
