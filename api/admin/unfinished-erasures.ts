/**
 * Erasures in progress, in `ingest.unfinished_erasure`. A killed erasure has already removed records that lead to
 * others of the same person, so the next run takes the ids from here. Ingest recounts the days as long as they are
 * listed here.
 */
import type { ErasureScope } from '#clickhouse/queries/erase.ts';
import { erasableKinds } from '#common/erased-ids.ts';
import type { Queries } from '#common/stores/postgres.ts';
import type { Person } from './erase-person.ts';

/** As long as ingest applies an erasure; after that, its ids are deleted. */
const rememberedDays = 30;

/** The erasures that a run takes over, and all others that are unfinished. */
export interface UnfinishedErasure {
  readonly id: number;
  readonly organization_id: string;
  /** Empty for all apps. */
  readonly app_id: string;
  /** Null for all people. */
  readonly ids: Readonly<Record<keyof Person, readonly string[]>> | null;
  readonly days: readonly number[];
  readonly begun_at: Date;
}

/** Oldest first. */
export async function unfinishedErasuresOf(db: Queries): Promise<UnfinishedErasure[]> {
  return await db.query<UnfinishedErasure>(
    `SELECT id, organization_id, app_id, ids, days, begun_at FROM ingest.unfinished_erasure
      WHERE NOT is_erased AND begun_at > signpost_deletion_time() - make_interval(days => ${rememberedDays}) ORDER BY id`,
  );
}

/** One erasure and the earlier interrupted ones that it completes. */
export class BegunErasure {
  readonly #db: Queries;
  readonly #scope: ErasureScope;
  /** This run's own erasure first. */
  #ids: number[] = [];
  #days: readonly number[] = [];

  constructor(db: Queries, scope: ErasureScope) {
    this.#db = db;
    this.#scope = scope;
  }

  /** Adds to the person the ids of the same person that earlier runs found. */
  async begin(person: Person | null): Promise<void> {
    await this.#db.execute(
      `DELETE FROM ingest.unfinished_erasure WHERE begun_at < signpost_deletion_time() - make_interval(days => ${rememberedDays})`,
    );
    const earlier = (await unfinishedErasuresOf(this.#db)).filter((one) => this.#completes(one, person));
    if (person !== null)
      for (const { ids } of earlier)
        for (const kind of erasableKinds) for (const id of ids?.[kind] ?? []) person[kind].add(id);
    this.#days = [...new Set(earlier.flatMap(({ days }) => days))];
    const { organization_id, app_id } = this.#scope;
    const [row] = await this.#db.query<{ id: number }>(
      'INSERT INTO ingest.unfinished_erasure (organization_id, app_id, ids, days) VALUES ($1, $2, $3, $4) RETURNING id',
      [organization_id, app_id, jsonOf(person), this.#days],
    );
    this.#ids = [row?.id ?? 0, ...earlier.map(({ id }) => id)];
  }

  #completes({ organization_id, app_id, ids }: UnfinishedErasure, person: Person | null): boolean {
    const scope = this.#scope;
    if (organization_id !== scope.organization_id || (scope.app_id !== '' && app_id !== scope.app_id)) return false;
    if (person === null || ids === null) return person === null;
    return erasableKinds.some((kind) => ids[kind].some((id) => person[kind].has(id)));
  }

  /** Called before anything is removed. */
  async note(person: Person | null): Promise<void> {
    await this.#db.execute('UPDATE ingest.unfinished_erasure SET ids = $2 WHERE id = $1', [
      this.#ids[0],
      jsonOf(person),
    ]);
  }

  /** Called before any row is blanked. @returns these days and those of earlier runs. */
  async noteDays(days: readonly number[]): Promise<readonly number[]> {
    this.#days = [...new Set([...this.#days, ...days])];
    await this.#db.execute('UPDATE ingest.unfinished_erasure SET days = $2 WHERE id = $1', [this.#ids[0], this.#days]);
    return this.#days;
  }

  /** Deletes the ids, before the files of Postgres are rewritten. */
  async forget(): Promise<void> {
    await this.#db.execute(
      `UPDATE ingest.unfinished_erasure SET ids = '{}', days = '{}', is_erased = true WHERE id = ANY ($1)`,
      [this.#ids],
    );
  }

  /** The files were rewritten, which covers all erasures that were waiting for it. */
  async finish(): Promise<void> {
    await this.#db.execute('DELETE FROM ingest.unfinished_erasure WHERE is_erased');
  }
}

function jsonOf(person: Person | null): string | null {
  if (person === null) return null;
  return JSON.stringify(Object.fromEntries(erasableKinds.map((kind) => [kind, [...person[kind]]])));
}
