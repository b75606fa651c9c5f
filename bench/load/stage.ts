/**
 * The environment of the redirector during a run: Postgres with links, Redis, and a folder, all of which are removed
 * afterwards.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Postgres } from '#common/stores/postgres.ts';
import { type LocalServer, startPostgres, startRedis } from '#deploy/local/servers.ts';
import { migratePostgres } from '#pg-migrations/migrate.ts';

export const benchHost = 'bench.localhost';

/** The path of the n-th link. */
export function pathOf(n: number): string {
  return `/b${String(n).padStart(7, '0')}`;
}

const seedApp = `
INSERT INTO apps (host_verified_at, id, organization_id, name, host, ios, android, fallback_url, settings,
                  api_key_ciphertext, api_key_hash, api_key_preview, created_at, updated_at)
VALUES (now(), 'app_bench', 'org_bench', 'Bench', $1, '{"app_store_id":"123456789"}', '{"package_name":"com.example.app"}',
        'https://example.com/', '{"privacy_mode":"anonymize_ip"}', 'x', 'x', 'x', now(), now())`;

const seedLinks = `
INSERT INTO links (id, organization_id, app_id, short_code, path, campaign, source, title, fallback_url, ios_url,
                   utm_source, utm_campaign, created_at, updated_at)
SELECT 'lnk_' || n, 'org_bench', 'app_bench', 'b' || lpad(n::text, 7, '0'), '/sale/' || n, 'campaign-' || n % 100,
       'dashboard', 'Sale ' || n, 'https://example.com/sale/' || n || '?ref=link', 'https://example.com/ios/' || n,
       'mail', 'summer', now(), now()
  FROM generate_series($1::int, $2::int) AS n`;

export interface Stage {
  readonly folder: string;
  readonly postgres: LocalServer;
  readonly redis: LocalServer;
  close(): Promise<void>;
}

/** Starts the servers and writes `links` links. */
export async function openStage(links: number, tell: (line: string) => void): Promise<Stage> {
  const folder = mkdtempSync(join(tmpdir(), 'signpost-bench-'));
  tell('starting Postgres and Redis');
  const [postgres, redis] = await Promise.all([
    startPostgres({ dataDir: join(folder, 'postgres') }),
    startRedis({ dataDir: join(folder, 'redis'), warn: tell }),
  ]);
  await migratePostgres({ url: postgres.url });
  const db = new Postgres({ url: postgres.url, name: 'bench', connectionsMax: 1, statementTimeoutMs: 120_000 });
  await db.execute(`INSERT INTO organizations (id, name) VALUES ('org_bench', 'Bench')`);
  await db.execute(seedApp, [benchHost]);
  // Maintaining the indexes for search and counts is not measured, and would be most of the cost of a million inserts.
  await db.execute('ALTER TABLE links DISABLE TRIGGER USER');
  await db.execute('DROP INDEX IF EXISTS links_text');
  const step = 50_000;
  for (let from = 1; from <= links; from += step) {
    await db.execute(seedLinks, [from, Math.min(from + step - 1, links)]);
    tell(`links written: ${Math.min(from + step - 1, links)} of ${links}`);
  }
  await db.execute('ANALYZE links');
  await db.close();
  return {
    folder,
    postgres,
    redis,
    close: async () => {
      await Promise.all([postgres.stop(), redis.stop()]);
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
