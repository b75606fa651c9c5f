/**
 * Ensures that a click belongs to one device, and that a device has one first answer. One statement stores the claims
 * of one turn of the event loop; while the maximum number of statements is running, later claims collect. Postgres
 * decides; a claim is answered after its commit.
 */
import { PostgresUnavailable } from '#common/stores/postgres.ts';
import { systemTime, type Time } from '#common/time.ts';
import type { ClaimStore, ClickClaim, DeviceName, NewClaim } from './claim-store.ts';

const BATCH_MAX = 500;
/**
 * Maximum concurrent statements. An insert waits for the disk, a query does not; with fewer statements, each carries
 * more.
 */
const INSERTS_OPEN_MAX = 2;
const QUESTIONS_OPEN_MAX = 1;
const WAITING_MAX = 20_000;
/** A deadlock with another process's batch aborts one of the two, which is then retried. */
const TRIES_MAX = 3;

/**
 * The claim in force: the new one (`claimed`), the device's own on the same click (`kept`), another device's on that
 * click (`taken`), or the device's first one, on another click (`answered`).
 */
export interface ClaimOutcome {
  readonly state: 'claimed' | 'kept' | 'taken' | 'answered';
  readonly claim: ClickClaim;
}

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
  readonly done: (found: ClickClaim[]) => void;
}

/** The holder of the click under this claim. */
export function holderOf({ device, match_id }: ClickClaim): string {
  return device || match_id;
}

/** Whether this claim is the device's answer unless it brings new evidence. */
export function isFirstOf(claim: ClickClaim, appId: string, device: string): boolean {
  return claim.is_first && device !== '' && claim.app_id === appId && claim.device === device;
}

export class Claims {
  readonly #claims: Batches<WaitingClaim>;
  readonly #questions: Batches<WaitingQuestion>;
  readonly #store: ClaimStore;

  constructor(store: ClaimStore, time: Pick<Time, 'atTurnEnd'> = systemTime) {
    this.#store = store;
    this.#claims = new Batches((batch) => this.#insert(batch), INSERTS_OPEN_MAX, time);
    this.#questions = new Batches((batch) => this.#find(batch), QUESTIONS_OPEN_MAX, time);
  }

  /**
   * @throws PostgresUnavailable: it is then unknown whether the claim was stored; the device's next request finds out.
   */
  claim(claim: NewClaim): Promise<ClaimOutcome> {
    return new Promise((done, failed) => this.#claims.add({ claim: storable(claim), done, failed }));
  }

  /** Records that the journal has the opening of a claim. @throws PostgresUnavailable */
  opened(clickId: string): Promise<void> {
    return this.#store.opened(clickId);
  }

  /** The device's first claim, and the claims on the clicks. @throws PostgresUnavailable */
  find(device: DeviceName, clickIds: readonly string[]): Promise<ClickClaim[]> {
    return new Promise((done, failed) => this.#questions.add({ device: storable(device), clickIds, done, failed }));
  }

  /** @throws PostgresUnavailable */
  byMatchId(matchId: string): Promise<ClickClaim | null> {
    return this.#store.byMatchId(storableText(matchId)).then((claim) => claim);
  }

  async #insert(batch: readonly WaitingClaim[]): Promise<void> {
    for (let tries = 1, open = batch; open.length > 0; tries++) {
      try {
        open = await this.#insertOnce(open);
        // The conflicting claim was deleted before it could be read: try again.
        if (tries >= TRIES_MAX && open.length > 0) throw new PostgresUnavailable(new Error('claims change too fast'));
      } catch (error) {
        if (tries < TRIES_MAX && error instanceof PostgresUnavailable && error.code.startsWith('40')) continue;
        for (const { failed } of open) failed(error);
        return;
      }
    }
  }

  /** @returns the claims that are still undecided. */
  async #insertOnce(batch: readonly WaitingClaim[]): Promise<WaitingClaim[]> {
    const { stored, open_due } = await this.#store.insert(batch.map(({ claim }) => claim));
    const claimed = (claim: NewClaim) => {
      const { hours: _h, clicked_at: _c, install_name: _i, ...own } = claim;
      return { state: 'claimed', claim: { ...own, is_open_due: open_due.includes(claim.click_id) } } as const;
    };
    if (stored === batch.length) {
      for (const { claim, done } of batch) done(claimed(claim));
      return [];
    }
    // Some were not stored: read the claims in force.
    const named = batch.filter(({ claim }) => claim.device !== '');
    const found = await this.#store.find(
      batch.map(({ claim }) => claim.click_id),
      named.map(({ claim }) => claim),
    );
    const byClick = new Map(found.map((claim) => [claim.click_id, claim]));
    const firsts = firstsOf(found);
    return batch.filter(({ claim, done }) => {
      const own = claim.is_first && claim.device !== '' ? firsts.get(deviceKey(claim)) : undefined;
      const other = byClick.get(claim.click_id);
      if (other?.match_id === claim.match_id) done({ state: 'claimed', claim: other });
      else if (other && claim.device !== '' && deviceKey(other) === deviceKey(claim))
        done({ state: 'kept', claim: other });
      else if (own) done({ state: 'answered', claim: own });
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
      const firsts = firstsOf(found);
      for (const { device, clickIds, done } of batch) {
        const own = device.device === '' ? undefined : firsts.get(deviceKey(device));
        const others = clickIds.flatMap((id) => byClick.get(id) ?? []);
        done(own && !others.includes(own) ? [own, ...others] : others);
      }
    } catch (error) {
      for (const { failed } of batch) failed(error);
    }
  }
}

/** Collects the items of one turn, runs a few batches concurrently, and limits how many items wait. */
class Batches<T extends Waiting> {
  readonly #run: (batch: readonly T[]) => Promise<void>;
  readonly #openMax: number;
  readonly #time: Pick<Time, 'atTurnEnd'>;
  #waiting: T[] = [];
  #open = 0;
  #isDue = false;

  constructor(run: (batch: readonly T[]) => Promise<void>, openMax: number, time: Pick<Time, 'atTurnEnd'>) {
    this.#run = run;
    this.#openMax = openMax;
    this.#time = time;
  }

  add(one: T): void {
    if (this.#waiting.length >= WAITING_MAX) {
      one.failed(new PostgresUnavailable(new Error(`${WAITING_MAX} claims are already waiting`)));
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
    while (this.#waiting.length > 0 && this.#open < this.#openMax) {
      const batch = this.#waiting.splice(0, BATCH_MAX);
      this.#open++;
      void this.#run(batch).finally(() => {
        this.#open--;
        this.#send();
      });
    }
  }
}

function firstsOf(claims: readonly ClickClaim[]): Map<string, ClickClaim> {
  return new Map(claims.flatMap((claim) => (claim.is_first ? [[deviceKey(claim), claim] as const] : [])));
}

function deviceKey({ app_id, device }: DeviceName): string {
  return `${app_id} ${device}`;
}

/** Postgres stores neither NUL nor unpaired surrogates, and one invalid claim must not fail the others of its batch. */
function storableText(text: string): string {
  return text.toWellFormed().replaceAll('\0', '\uFFFD');
}
function storable<T extends DeviceName & { readonly install_name?: string }>(named: T): T {
  const device = storableText(named.device);
  const install_name = storableText(named.install_name ?? '');
  if (device === named.device && install_name === (named.install_name ?? '')) return named;
  return { ...named, device, ...(named.install_name === undefined ? {} : { install_name }) };
}
