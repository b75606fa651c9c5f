/** The analytics endpoints over servers of their own, asked in process: what is measured is everything but the socket. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { asOfFrom } from '#api/analytics/as-of.ts';
import { analyticsParts, questionLimits } from '#api/analytics/deps.ts';
import { analyticsRoutes } from '#api/analytics/routes.ts';
import type { UserCaller } from '#api/route.ts';
import { ClickHouse, type Params, type Settings } from '#clickhouse/client.ts';
import { migrateClickHouse } from '#clickhouse/migrate.ts';
import { type MountedRoute, mountRoutes } from '#common/http/mount.ts';
import { Rejection, statusOf } from '#common/http/rejection.ts';
import { Postgres } from '#common/postgres.ts';
import { Tenancy } from '#common/tenancy.ts';
import { startClickHouse } from '#deploy/local/clickhouse/spawn.ts';
import type { LocalServer } from '#deploy/local/local-server.ts';
import { startPostgres } from '#deploy/local/servers.ts';
import { migratePostgres } from '#pg-migrations/migrate.ts';

export type Reading = 'plain' | 'noted';

/** A client that can note what it was asked. */
class NotingClickHouse extends ClickHouse {
  isNoting = false;
  readonly notes: { sql: string; params: Params }[] = [];

  override query<Row>(sql: string, params: Params = {}, settings: Settings = {}): Promise<Row[]> {
    if (this.isNoting) this.notes.push({ sql, params });
    return super.query<Row>(sql, params, settings);
  }
}

interface Parts {
  readonly store: LocalServer;
  readonly postgres: LocalServer;
  readonly clickhouse: ClickHouse;
  readonly reader: NotingClickHouse;
  readonly db: Postgres;
  readonly routes: readonly MountedRoute[];
}

export class AnalyticsStage {
  readonly #parts: Parts;
  #organizations: string[] = [];

  private constructor(parts: Parts) {
    this.#parts = parts;
  }

  get clickhouse(): ClickHouse {
    return this.#parts.clickhouse;
  }

  static async start(folder: string, nowMs: number): Promise<AnalyticsStage> {
    const [store, postgres] = await Promise.all([
      startClickHouse({ dataDir: join(folder, 'clickhouse') }),
      startPostgres({ dataDir: join(folder, 'postgres'), isDurable: false }),
    ]);
    const clickhouse = new ClickHouse({ url: `${store.url}/bench`, requestTimeoutMs: 3_600_000 });
    await migrateClickHouse(clickhouse, { retentionDays: 3_650 });
    await migratePostgres({ url: postgres.url });
    const reads = { executionSecondsMax: 10, rowsToReadMax: 1_000_000_000, resultRowsMax: 1_000_000 };
    const reader = new NotingClickHouse({ url: `${store.url}/bench`, reads, connectionsMax: 32 });
    const db = new Postgres({ url: postgres.url, name: 'bench' });
    const deps = {
      tenancy: new Tenancy(db),
      clock: () => nowMs,
      analytics: analyticsParts({ clickhouse: reader, asOf: asOfFrom(db), retentionDays: 3_650 }),
    };
    const guard = async () => ({ caller: null, quota: null });
    const routes = mountRoutes({ routes: analyticsRoutes, deps, guard });
    return new AnalyticsStage({ store, postgres, clickhouse, reader, db, routes });
  }

  async hasRecords(): Promise<boolean> {
    const rows = await this.clickhouse.query<{ n: number }>('SELECT count() AS n FROM clicks');
    return (rows[0]?.n ?? 0) > 0;
  }

  /** Puts the links of the tenant where the endpoints look for them. @returns its most clicked link. */
  async openTenant(tenant: string): Promise<string> {
    const { clickhouse, db } = this.#parts;
    const [own] = await clickhouse.query<{ organization_id: string }>(tenant);
    const others = await clickhouse.query<{ organization_id: string }>(
      "SELECT DISTINCT organization_id FROM clicks_by_dimension WHERE dimension = 'day' ORDER BY organization_id LIMIT 40",
    );
    const organization_id = own?.organization_id ?? '';
    this.#organizations = [
      organization_id,
      ...others.map((one) => one.organization_id).filter((id) => id !== organization_id),
    ];
    const links = await clickhouse.query<{ id: string; app_id: string; n: number }>(
      `SELECT link_id AS id, any(app_id) AS app_id, sum(r.rows) AS n FROM clicks_by_link AS r
       WHERE organization_id = {organization_id:String} GROUP BY id ORDER BY n DESC`,
      { organization_id },
    );
    await db.execute('INSERT INTO organizations (id, name) VALUES ($1, $1) ON CONFLICT DO NOTHING', [organization_id]);
    for (const app of new Set(links.map((link) => link.app_id))) {
      await db.execute(
        `INSERT INTO apps (id, organization_id, name, host, settings, api_key_ciphertext, api_key_hash, api_key_preview, created_at, updated_at)
         VALUES ($1, $2, 'App', $3, '{}', '', $4, '', now(), now()) ON CONFLICT DO NOTHING`,
        [app, organization_id, `${app.slice(4)}.localhost`, Buffer.from(app)],
      );
    }
    await db.execute(
      `INSERT INTO links (id, organization_id, app_id, short_code, path, source, created_at, updated_at)
       SELECT id, $1, app_id, substr(id, 10), '/p', 'dashboard', now(), now() FROM unnest($2::text[], $3::text[]) AS t (id, app_id)
       ON CONFLICT DO NOTHING`,
      [organization_id, links.map((link) => link.id), links.map((link) => link.app_id)],
    );
    return links[0]?.id ?? '';
  }

  /** @param tenant 0 is the big one. @returns the status. */
  async get(path: string, reading: Reading, tenant = 0): Promise<number> {
    const { routes, reader } = this.#parts;
    const [bare = '', queryText = ''] = path.split('?');
    const route = routes.find((one) => new RegExp(`^${one.path.replace('{id}', '[^/]+')}$`).test(bare));
    if (!route) throw new Error(`no route is at ${bare}`);
    reader.isNoting = reading === 'noted';
    reader.notes.length = reading === 'noted' ? 0 : reader.notes.length;
    const organization_id = this.#organizations[tenant % this.#organizations.length] ?? '';
    const caller: UserCaller = { kind: 'user', user_id: '', memberships: [{ organization_id, role: 'viewer' }] };
    const incoming = {
      id: '',
      ip: '',
      receivedMs: 0,
      header: () => '',
      queryText,
      readBody: async () => new Uint8Array(0),
    };
    const answer = await route.run(incoming, caller, { id: bare.split('/')[2] ?? '' });
    reader.isNoting = false;
    if (answer instanceof Rejection) return statusOf[answer.code];
    if ('body' in answer) JSON.stringify(answer.body);
    return answer.status;
  }

  /** Rows of the granules that the questions noted last must read. */
  async rowsToRead(): Promise<number> {
    let total = 0;
    for (const { sql, params } of this.#parts.reader.notes) {
      const rows = await this.clickhouse.query<{ rows: number }>(`EXPLAIN ESTIMATE ${sql}`, params, questionLimits);
      total += rows.reduce((sum, row) => sum + Number(row.rows), 0);
    }
    return total;
  }

  async forgetCaches(): Promise<void> {
    for (const cache of ['MARK', 'UNCOMPRESSED', 'PRIMARY INDEX']) {
      await this.clickhouse.command(`SYSTEM DROP ${cache} CACHE`);
    }
  }

  peakMemoryMb(): number {
    const status = readFileSync(`/proc/${this.#parts.store.pid}/status`, 'utf8');
    return Math.round(Number(/VmHWM:\s+(\d+)/.exec(status)?.[1] ?? 0) / 1024);
  }

  async stop(): Promise<void> {
    const { store, postgres, clickhouse, reader, db } = this.#parts;
    await Promise.all([clickhouse.close(), reader.close(), db.close()]);
    await Promise.all([store.stop(), postgres.stop()]);
  }
}
