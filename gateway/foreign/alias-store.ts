/** Stores pairs of device and user identifiers that an app has declared to be the same. */
import type { Queries } from '#common/stores/postgres.ts';
import type { Alias } from './fields.ts';

export class AliasStore {
  readonly #db: Queries;

  constructor(db: Queries) {
    this.#db = db;
  }

  /** @throws PostgresUnavailable */
  async add(appId: string, aliases: readonly Alias[]): Promise<void> {
    const ids = aliases.map(({ id }) => id);
    const previous = aliases.map((alias) => alias.previous_id);
    await this.#db.execute(
      `INSERT INTO device_aliases (app_id, id, previous_id, made_at)
       SELECT DISTINCT $1, id, previous_id, now() FROM unnest($2::text[], $3::text[]) AS given (id, previous_id)
       ON CONFLICT (app_id, id, previous_id) DO UPDATE SET made_at = excluded.made_at`,
      [appId, ids, previous],
      'add_aliases',
    );
  }

  /** The aliases of each of these identifiers, newest first. @throws PostgresUnavailable */
  async of(appId: string, names: readonly string[]): Promise<Map<string, string[]>> {
    const rows = await this.#db.query<{ name: string; other: string }>(
      `SELECT name, other FROM (
         SELECT id AS name, previous_id AS other, made_at FROM device_aliases WHERE app_id = $1 AND id = ANY ($2)
         UNION ALL
         SELECT previous_id, id, made_at FROM device_aliases WHERE app_id = $1 AND previous_id = ANY ($2)) AS both_ways
       ORDER BY made_at DESC, other LIMIT $3`,
      [appId, names, namesMax],
      'find_aliases',
    );
    const found = new Map<string, string[]>();
    for (const { name, other } of rows) found.set(name, [...(found.get(name) ?? []), other]);
    return found;
  }
}

/** Maximum per batch: four for each of its thousand items. */
const namesMax = 4_000;
