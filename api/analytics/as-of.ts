/** How current the statistics are. */
import { Gauge, type Registry } from 'prom-client';
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

/** A publisher reports twice a second, and a restarted one within seconds. */
const silentSeconds = 60;

/** Metrics of what `as_of` waits for, read at each scrape; no numbers while Postgres does not answer. */
export function exposeAsOf(registry: Registry, db: Pick<Postgres, 'query'>): void {
  expose(
    registry,
    'signpost_api_as_of_lag_seconds',
    'How far as_of, up to which the statistics are complete, is behind.',
    async () => {
      const sql =
        'SELECT greatest(0, extract(epoch FROM now()) - min(committed_to) / 1000.0)::double precision AS lag FROM ingest.progress';
      const [row] = await db.query<{ lag: number | null }>(sql, [], 'as_of_lag');
      return row?.lag ?? 0;
    },
  );
  expose(
    registry,
    'signpost_api_silent_machines',
    'Machines that have reported no progress for a minute: as_of waits for them.',
    async () => {
      // One that is dated ahead was written by a Postgres whose clock was ahead.
      const sql = `SELECT count(*)::integer AS silent FROM ingest.progress
        WHERE updated_at NOT BETWEEN now() - make_interval(secs => $1) AND now() + make_interval(secs => $1)`;
      const [row] = await db.query<{ silent: number }>(sql, [silentSeconds], 'silent_machines');
      return row?.silent ?? 0;
    },
  );
}

function expose(registry: Registry, name: string, help: string, read: () => Promise<number>): void {
  new Gauge({
    ...{ name, help, registers: [registry] },
    async collect() {
      this.set(await read().catch(() => Number.NaN));
    },
  });
}
