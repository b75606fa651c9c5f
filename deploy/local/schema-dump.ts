/** The schemas of both stores as text, for reading: the result of all migrations together. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ClickHouse } from '#clickhouse/client.ts';
import { Postgres, type Queries } from '#common/stores/postgres.ts';
import { startClickHouse } from './clickhouse/spawn.ts';
import { migrateStores } from './migrate-stores.ts';
import { startPostgres } from './postgres.ts';

const header = (store: string) =>
  `-- The schema of ${store} after all migrations. Written by \`npm run generate\`; not run by anything.\n`;

interface Statement {
  readonly sql: string;
}

/** Tables, keys, indexes, functions, triggers and policies, each group by name. Migration bookkeeping is omitted. */
const postgresSql = `
WITH spaces AS (
  SELECT oid, nspname FROM pg_namespace WHERE nspname NOT LIKE 'pg\\_%' AND nspname <> 'information_schema'
), tables AS (
  SELECT c.oid, n.nspname, c.relname, format('%I.%I', n.nspname, c.relname) AS name, c.relrowsecurity
    FROM pg_class c JOIN spaces n ON n.oid = c.relnamespace
   WHERE c.relkind IN ('r', 'p') AND c.relname <> 'pgmigrations'
)
SELECT sql FROM (
  SELECT 1 AS part, t.name AS at, format(E'CREATE TABLE %s (\\n  %s\\n);', t.name, (
    SELECT string_agg(line, E',\\n  ' ORDER BY kind, position) FROM (
      SELECT 1 AS kind, a.attnum::int AS position,
             format('%I %s', a.attname, format_type(a.atttypid, a.atttypmod))
             || CASE WHEN a.attnotnull THEN ' NOT NULL' ELSE '' END
             || coalesce(' DEFAULT ' || pg_get_expr(d.adbin, d.adrelid), '') AS line
        FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
       WHERE a.attrelid = t.oid AND a.attnum > 0 AND NOT a.attisdropped
      UNION ALL
      SELECT 2, row_number() OVER (ORDER BY c.conname)::int, format('CONSTRAINT %I %s', c.conname, pg_get_constraintdef(c.oid))
        FROM pg_constraint c WHERE c.conrelid = t.oid AND c.contype NOT IN ('n', 't')
    ) AS lines)) AS sql FROM tables t
  UNION ALL
  SELECT 2, t.name || i.indexrelid::regclass::text, pg_get_indexdef(i.indexrelid) || ';'
    FROM tables t JOIN pg_index i ON i.indrelid = t.oid
   WHERE NOT EXISTS (SELECT FROM pg_constraint c WHERE c.conindid = i.indexrelid AND c.contype <> 'f')
  UNION ALL
  SELECT 3, p.proname, pg_get_functiondef(p.oid) || ';' FROM pg_proc p JOIN spaces n ON n.oid = p.pronamespace
   WHERE NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = p.oid AND d.deptype = 'e')
  UNION ALL
  SELECT 4, t.name || g.tgname, pg_get_triggerdef(g.oid) || ';'
    FROM tables t JOIN pg_trigger g ON g.tgrelid = t.oid WHERE NOT g.tgisinternal
  UNION ALL
  SELECT 5, t.name, format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY;', t.name) FROM tables t WHERE t.relrowsecurity
  UNION ALL
  SELECT 6, tablename || policyname, format('CREATE POLICY %I ON %I.%I FOR %s TO %s%s%s;', policyname, schemaname, tablename,
         cmd, array_to_string(roles, ', '), ' USING (' || qual || ')', ' WITH CHECK (' || with_check || ')')
    FROM pg_policies
) AS statements ORDER BY part, at, sql`;

export async function dumpPostgres(postgres: Queries): Promise<string> {
  const statements = await postgres.query<Statement>(postgresSql);
  return `${header('Postgres')}\n${statements.map((one) => one.sql.trimEnd()).join('\n\n')}\n`;
}

/** `query` runs one statement on a migrated database and returns its rows. */
export async function dumpClickHouse(query: (sql: string) => Promise<Statement[]>): Promise<string> {
  const statements = await query(
    `SELECT replaceAll(formatQuery(create_table_query), concat(database, '.'), '') AS sql FROM system.tables
      WHERE database = currentDatabase() AND NOT startsWith(name, '.inner') AND name NOT LIKE '%migration%' ORDER BY name`,
  );
  return `${header('ClickHouse')}\n${statements.map((one) => `${one.sql.trim()};`).join('\n\n')}\n`;
}

/** Migrates temporary stores and writes the two schema.sql files below `root`. */
export async function writeSchemas(root: string): Promise<void> {
  const dataDir = mkdtempSync(join(tmpdir(), 'signpost-schema-'));
  const postgresServer = await startPostgres({ dataDir: join(dataDir, 'postgres'), isDurable: false });
  const clickhouseServer = await startClickHouse({ dataDir: join(dataDir, 'clickhouse') });
  const postgres = new Postgres({ url: postgresServer.url, name: 'generate' });
  const clickhouse = new ClickHouse({ url: clickhouseServer.url });
  try {
    await migrateStores({ databaseUrl: postgresServer.url, clickhouseUrl: clickhouseServer.url, retentionDays: 730 });
    writeFileSync(join(root, 'pg-migrations', 'schema.sql'), await dumpPostgres(postgres));
    writeFileSync(
      join(root, 'clickhouse', 'schema.sql'),
      await dumpClickHouse((sql) => clickhouse.query<Statement>(sql)),
    );
  } finally {
    await Promise.all([postgres.close(), clickhouse.close()]);
    await Promise.all([postgresServer.stop(), clickhouseServer.stop()]);
    rmSync(dataDir, { recursive: true, force: true });
  }
}
