/** The Postgres functions that grant shares of limited links (pg-migrations/0920_click_limits.sql). */
import type { ShareFile, Shares } from './share-file.ts';

export interface ShareDatabase {
  query<Row extends object>(sql: string, values: readonly unknown[]): Promise<readonly Row[]>;
}

export interface ShareStoreOptions {
  readonly db: ShareDatabase;
  readonly machine: string;
  readonly instance: string;
  /** After a restart of Postgres, redirectors that it does not know have this long to report their shares. */
  readonly settleMs: number;
  /** Maximum clicks of a share. */
  readonly shareMax: number;
}

export interface Grant {
  readonly outcome: 'granted' | 'none' | 'report' | 'waiting';
  /** Total number of clicks granted to this holder. */
  readonly granted: number;
  readonly returned: number;
  /** Clicks that other redirectors hold and may return. */
  readonly open_elsewhere: number;
}

/** The answer of Postgres to a report. */
export interface Reported {
  /** Links of which other redirectors ask for the clicks that are left here. */
  readonly wanted: readonly string[];
  /** The shares according to Postgres, which may include grants whose answer was lost. */
  readonly open: readonly { readonly link_id: string; readonly granted: number }[];
}

const enter = 'SELECT signpost_enter_clicks($1, $2, $3, $4, $5) AS incarnation';
const report = 'SELECT link_id FROM signpost_report_clicks($1, $2, $3, $4, $5)';
const open = 'SELECT link_id, granted FROM signpost_open_clicks($1)';
const take = 'SELECT * FROM signpost_take_clicks($1, $2, $3, $4, $5, $6, $7, $8)';
const linksPerReport = 500;

export class ShareStore {
  readonly #options: ShareStoreOptions;
  readonly #file: ShareFile;
  /** Identifies the database to which everything was last reported; empty if none. */
  #incarnation = '';
  /** Whether this redirector is registered as one that holds shares, or may hold them. */
  #isHolding: boolean;
  #mayLackGrants = true;

  constructor(options: ShareStoreOptions, file: ShareFile) {
    this.#options = options;
    this.#file = file;
    this.#isHolding = file.shares.size + file.past.size > 0;
  }

  /** Whether reports are needed: nothing was reported yet, or shares may be held. */
  get isReporting(): boolean {
    return this.#isHolding || this.#incarnation === '';
  }

  /** Call if the answer to a grant was lost, or could not be stored. */
  lackGrants(): void {
    this.#mayLackGrants = true;
  }

  /** Reports changes, or everything to a database that may have lost it. @throws if Postgres is unavailable. */
  async report(changed: ReadonlySet<string>): Promise<Reported> {
    const { holder, shares } = this.#file;
    let wanted: readonly string[] = [];
    if (this.#incarnation !== '') {
      const some = [...changed].flatMap((link) => {
        const share = shares.get(link);
        return share === undefined ? [] : [[link, share] as const];
      });
      wanted = await this.#send(holder, new Map(some));
      if ((await this.#enter(this.#incarnation)) !== this.#incarnation) this.#incarnation = '';
    }
    if (this.#incarnation === '') await this.#reportAll();
    if (!this.#mayLackGrants) return { wanted, open: [] };
    this.#mayLackGrants = false;
    try {
      return { wanted, open: await this.#options.db.query(open, [holder]) };
    } catch (error) {
      this.#mayLackGrants = true;
      throw error;
    }
  }

  /** Asks for a share of a link. @param waiting the number of visitors who wait. @throws if Postgres is unavailable. */
  async take(link: string, waiting: number): Promise<Grant> {
    if (this.#incarnation === '' || !this.#isHolding) {
      this.#isHolding = true;
      await this.#reportAll();
    }
    const first = await this.#take(link, waiting);
    if (first.outcome !== 'report') return first;
    await this.#reportAll();
    return this.#take(link, waiting);
  }

  /** Unregisters this redirector, which holds no more shares. @throws if Postgres is unavailable. */
  async leave(): Promise<void> {
    this.#isHolding = false;
    if (this.#incarnation !== '') await this.#enter(this.#incarnation);
  }

  async #take(link: string, waiting: number): Promise<Grant> {
    const { holder, shares } = this.#file;
    const { granted = 0, returned = 0, used = 0 } = shares.get(link) ?? {};
    const { shareMax, settleMs, db } = this.#options;
    const values = [holder, link, granted, returned, used, shareMax, settleMs, waiting];
    const [grant] = await db.query<Grant>(take, values);
    if (grant === undefined) throw new Error('signpost_take_clicks returned no row');
    return grant;
  }

  /** Reports past holders first, because the report of the current one completes the registration. */
  async #reportAll(): Promise<void> {
    this.#incarnation = '';
    this.#mayLackGrants = true;
    const latest = await this.#enter('');
    for (const [holder, shares] of this.#file.past) await this.#send(holder, shares);
    await this.#send(this.#file.holder, this.#file.shares);
    if ((await this.#enter(latest)) !== latest) throw new Error('Postgres was replaced while shares were reported');
    this.#incarnation = latest;
  }

  async #enter(incarnation: string): Promise<string> {
    const { db, machine, instance } = this.#options;
    const values = [this.#file.holder, machine, instance, incarnation, !this.#isHolding];
    const [row] = await db.query<{ incarnation: string }>(enter, values);
    if (row === undefined) throw new Error('signpost_enter_clicks returned no row');
    return row.incarnation;
  }

  /** @returns the links that other redirectors ask for. */
  async #send(holder: string, shares: Shares): Promise<string[]> {
    const all = [...shares];
    const wanted: string[] = [];
    for (let at = 0; at === 0 || at < all.length; at += linksPerReport) {
      const some = all.slice(at, at + linksPerReport);
      const values = [
        some.map(([link]) => link),
        some.map(([, { granted }]) => granted),
        some.map(([, { returned }]) => returned),
        some.map(([, { used }]) => used),
      ];
      const rows = await this.#options.db.query<{ link_id: string }>(report, [holder, ...values]);
      wanted.push(...rows.map(({ link_id }) => link_id));
    }
    return wanted;
  }
}
