/** The Postgres functions that grant shares of limited links (pg-migrations/0966_shares_without_incarnations.sql). */
import type { ShareFile } from './share-file.ts';

export interface ShareDatabase {
  query<Row extends object>(sql: string, values: readonly unknown[]): Promise<readonly Row[]>;
}

export interface ShareStoreOptions {
  readonly db: ShareDatabase;
  readonly machine: string;
  readonly instance: string;
  /** Maximum clicks of a share. */
  readonly shareMax: number;
}

/** The totals of this holder, after the request. */
export interface Grant {
  readonly is_granted: boolean;
  readonly granted: number;
  readonly returned: number;
  readonly used: number;
  /** Clicks that other redirectors hold and may return. */
  readonly open_elsewhere: number;
}

/** A row of the answer to a report. */
export interface Reported {
  readonly kind: 'wanted' | 'given_up' | 'unknown';
  /** A link, or for `given_up` a redirector. */
  readonly name: string;
  readonly granted: number;
  readonly used: number;
}

const report = 'SELECT * FROM signpost_report_clicks($1, $2, $3, $4, $5, $6, $7, $8)';
const grant = 'SELECT * FROM signpost_grant_clicks($1, $2, $3, $4, $5, $6, $7)';
const linksPerReport = 500;

export class ShareStore {
  readonly #options: ShareStoreOptions;
  readonly #file: ShareFile;

  constructor(options: ShareStoreOptions, file: ShareFile) {
    this.#options = options;
    this.#file = file;
  }

  /**
   * Registers this redirector and reports its figures of these links. @param leaves whether it holds no more shares.
   * @throws if Postgres is unavailable.
   */
  async report(links: Iterable<string>, leaves = false): Promise<readonly Reported[]> {
    const { holder, shares } = this.#file;
    const { db, machine, instance } = this.#options;
    const all = [...links].filter((link) => shares.has(link));
    const rows: Reported[] = [];
    for (let at = 0; at === 0 || at < all.length; at += linksPerReport) {
      const some = all.slice(at, at + linksPerReport);
      const figures = (['granted', 'returned', 'used'] as const).map((figure) =>
        some.map((link) => shares.get(link)?.[figure] ?? 0),
      );
      const isLeaving = leaves && at + linksPerReport >= all.length;
      rows.push(...(await db.query<Reported>(report, [holder, machine, instance, isLeaving, some, ...figures])));
    }
    return rows;
  }

  /** Asks for a share of a link. @param waiting the number of visitors who wait. @throws if Postgres is unavailable. */
  async take(link: string, waiting: number): Promise<Grant> {
    const { holder, shares } = this.#file;
    const { granted = 0, returned = 0, used = 0 } = shares.get(link) ?? {};
    const { shareMax, db } = this.#options;
    const [answer] = await db.query<Grant>(grant, [holder, link, granted, returned, used, shareMax, waiting]);
    if (answer === undefined) throw new Error('signpost_grant_clicks returned no row');
    return answer;
  }
}
