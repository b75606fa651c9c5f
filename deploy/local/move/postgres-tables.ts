/**
 * The tables of Postgres as lines: a line is a JSON array of its row's values in Postgres' own text form, so every value
 * is exact, whatever its type and the version of the server.
 */
import type { Queries } from '#common/stores/postgres.ts';

export interface PostgresTable {
  /** `schema.table`. */
  readonly name: string;
  readonly columns: readonly { readonly name: string; readonly type: string }[];
}

const fetchRows = 1_000;
/** Every installation that was used has rows in one of them; migrations fill others. */
export const filledByUse = new Set([
  ...['public.organizations', 'public.users', 'public.click_holders'],
  ...['ingest.installation', 'ingest.name', 'ingest.progress'],
]);

const quoted = (name: string) => `"${name.replaceAll('"', '""')}"`;
const quotedTable = (name: string) => name.split('.').map(quoted).join('.');
const listOf = (table: PostgresTable) => table.columns.map(({ name }) => quoted(name)).join(', ');

/** All tables but that of the migrations, each after those that it references. */
export async function tablesOf(queries: Queries): Promise<PostgresTable[]> {
  const columns = await queries.query<{ name: string; column: string; type: string }>(
    `SELECT n.nspname || '.' || c.relname AS name, a.attname AS column, format_type(a.atttypid, a.atttypmod) AS type
       FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
       JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
      WHERE c.relkind = 'r' AND n.nspname IN ('public', 'ingest') AND c.relname <> 'pg_migrations'
      ORDER BY 1, a.attname`,
  );
  const references = await queries.query<{ name: string; to: string }>(
    `SELECT n.nspname || '.' || c.relname AS name, m.nspname || '.' || d.relname AS to
       FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid JOIN pg_namespace n ON n.oid = c.relnamespace
       JOIN pg_class d ON d.oid = k.confrelid JOIN pg_namespace m ON m.oid = d.relnamespace
      WHERE k.contype = 'f' AND k.conrelid <> k.confrelid`,
  );
  const all = [...new Set(columns.map(({ name }) => name))];
  const ordered: string[] = [];
  while (ordered.length < all.length) {
    const isNext = (name: string) =>
      !ordered.includes(name) && references.every((one) => one.name !== name || ordered.includes(one.to));
    const next = all.filter(isNext);
    if (next.length === 0) throw new TypeError('tables reference each other in a circle');
    ordered.push(...next);
  }
  return ordered.map((name) => ({
    name,
    columns: columns.filter((one) => one.name === name).map(({ column, type }) => ({ name: column, type })),
  }));
}

/** @param queries of a transaction, whose snapshot the rows are of. */
export async function* rowsOf(queries: Queries, table: PostgresTable): AsyncGenerator<string[]> {
  const texts = table.columns.map(({ name }) => `${quoted(name)}::text`).join(', ');
  const select = `SELECT json_build_array(${texts})::text AS line FROM ${quotedTable(table.name)}`;
  await queries.execute(`DECLARE moved NO SCROLL CURSOR FOR ${select}`);
  for (;;) {
    const rows = await queries.query<{ line: string }>(`FETCH ${fetchRows} FROM moved`);
    if (rows.length === 0) break;
    yield rows.map(({ line }) => line);
  }
  await queries.execute('CLOSE moved');
}

/** @returns the number of rows. Triggers must be off: what they would add was exported too. */
export async function addRows(
  queries: Queries,
  table: PostgresTable,
  batches: AsyncIterable<readonly string[]>,
): Promise<number> {
  const values = table.columns.map(({ type }, at) => `(line->>${at})::${type}`).join(', ');
  const insert = `INSERT INTO ${quotedTable(table.name)} (${listOf(table)}) OVERRIDING SYSTEM VALUE
    SELECT ${values} FROM json_array_elements($1::json) AS lines(line)`;
  let rows = 0;
  for await (const batch of batches) rows += await queries.execute(insert, [`[${batch.join(',')}]`]);
  return rows;
}

export async function hasRows(queries: Queries, table: PostgresTable): Promise<boolean> {
  return (await queries.query(`SELECT FROM ${quotedTable(table.name)} LIMIT 1`)).length > 0;
}

/** Removes all rows, and keeps every other session out until the transaction ends. */
export async function emptyTables(queries: Queries, tables: readonly PostgresTable[]): Promise<void> {
  await queries.execute(`TRUNCATE ${tables.map(({ name }) => quotedTable(name)).join(', ')}`);
}

export async function setTriggers(queries: Queries, tables: readonly PostgresTable[], to: 'ENABLE' | 'DISABLE') {
  for (const { name } of tables) await queries.execute(`ALTER TABLE ${quotedTable(name)} ${to} TRIGGER USER`);
}

export async function sequencesOf(queries: Queries): Promise<Record<string, string>> {
  const found = await queries.query<{ name: string; last_value: string }>(
    `SELECT schemaname || '.' || sequencename AS name, last_value::text FROM pg_sequences
      WHERE schemaname IN ('public', 'ingest') AND last_value IS NOT NULL`,
  );
  return Object.fromEntries(found.map(({ name, last_value }) => [name, last_value]));
}

export async function setSequences(queries: Queries, sequences: Readonly<Record<string, string>>): Promise<void> {
  for (const [name, last] of Object.entries(sequences)) {
    await queries.query('SELECT setval($1::regclass, $2::bigint)', [quotedTable(name), last]);
  }
}

export async function postgresMigrations(queries: Queries): Promise<string[]> {
  const [there] = await queries.query<{ name: string | null }>(
    `SELECT to_regclass('public.pg_migrations')::text AS name`,
  );
  if (!there?.name) return [];
  const found = await queries.query<{ name: string }>('SELECT name FROM public.pg_migrations ORDER BY name');
  return found.map(({ name }) => name);
}

/**
 * The names of other programs that are connected to the database. Postgres hides the type of a session from a role that is
 * no member of its role; only sessions of a user can be one of a program.
 */
export async function otherSessions(queries: Queries): Promise<string[]> {
  const found = await queries.query<{ name: string }>(
    `SELECT DISTINCT coalesce(nullif(application_name, ''), 'a program without a name') AS name FROM pg_stat_activity
      WHERE datname = current_database() AND pid <> pg_backend_pid()
        AND usesysid IS NOT NULL AND coalesce(backend_type, 'client backend') = 'client backend' ORDER BY 1`,
  );
  return found.map(({ name }) => name);
}
