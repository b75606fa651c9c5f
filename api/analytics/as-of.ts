/** How current the statistics are. */
import type { Postgres } from '#common/stores/postgres.ts';

/**
 * The instant (epoch ms) before which the statistics include every record that any machine accepted, as reported by
 * ingest; 0 before the first report.
 */
export function asOfFrom(db: Pick<Postgres, 'query'>): () => Promise<number> {
  return async () => {
    const rows = await db.query<{ as_of: number | null }>(
      'SELECT min(committed_to) AS as_of FROM ingest.progress',
      [],
      'analytics_as_of',
    );
    return rows[0]?.as_of ?? 0;
  };
}
