/** Heartbeats of ingest processes in Postgres. */
import type { Postgres } from '#common/stores/postgres.ts';
import type { IngestMembership, Member, Members, OwnedPartition } from './members.ts';

/** How long after the last stray one process keeps all partitions. Longer than a lease, so that a successor sees it. */
export const STRAYS_RECENT_SECONDS = 60;

export class PostgresMembers implements Members {
  readonly #postgres: Postgres;

  constructor(postgres: Postgres) {
    this.#postgres = postgres;
  }

  async announce(me: Member, seconds: number): Promise<IngestMembership> {
    await this.#postgres.execute(
      `INSERT INTO ingest.member AS member (owner, partitions, expires_at)
       VALUES ($1, $2, clock_timestamp() + make_interval(secs => $3))
       ON CONFLICT (owner) DO UPDATE SET partitions = excluded.partitions, expires_at = excluded.expires_at,
         joined_at = CASE WHEN member.expires_at < now() THEN now() ELSE least(member.joined_at, now()) END`,
      [me.owner, me.partitions, seconds],
      'announce_member',
    );
    await this.#postgres.execute(
      `DELETE FROM ingest.member WHERE expires_at < now() - interval '1 day'`,
      [],
      'forget_members',
    );
    const [row] = await this.#postgres.query<{ members: Member[]; owned: OwnedPartition[]; strays: boolean }>(
      `SELECT
         (SELECT coalesce(json_agg(json_build_object('owner', owner, 'partitions', partitions) ORDER BY joined_at, owner), '[]')
            FROM ingest.member WHERE signpost_is_live(expires_at)) AS members,
         (SELECT coalesce(json_agg(json_build_object('partition', partition, 'owner', owner)), '[]')
            FROM (SELECT partition, max(owner) FILTER (WHERE signpost_is_live(expires_at)) AS owner
                    FROM (SELECT partition, owner, expires_at FROM ingest.lease
                          UNION ALL SELECT partition, NULL, NULL FROM ingest.checkpoint
                          UNION ALL SELECT partition, NULL, NULL FROM ingest.batch
                          UNION ALL SELECT partition, NULL, NULL FROM ingest.revision WHERE done_at IS NULL) AS kept
                   GROUP BY partition) AS owned) AS owned,
         EXISTS (SELECT FROM ingest.stray WHERE seen_at BETWEEN now() - make_interval(secs => $1) AND now() + make_interval(secs => $1)) AS strays`,
      [STRAYS_RECENT_SECONDS],
      'members_and_leases',
    );
    return { members: row?.members ?? [], owned: row?.owned ?? [], areStraysRecent: row?.strays ?? false };
  }

  async leave(owner: string): Promise<void> {
    await this.#postgres.execute('DELETE FROM ingest.member WHERE owner = $1', [owner]);
  }

  async reportStrays(): Promise<void> {
    await this.#postgres.execute(
      `INSERT INTO ingest.stray (seen_at) VALUES (clock_timestamp())
       ON CONFLICT (is_one) DO UPDATE SET seen_at = excluded.seen_at`,
    );
  }
}
