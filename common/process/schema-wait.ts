/**
 * A process waits for the schema that it was built with, so that everything may be started in any order, also by an
 * upgrade. A store that does not answer says nothing about its schema: only a process that `needs` it waits for it.
 */
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { SECOND_MS } from '#common/durations.ts';
import type { Queries } from '#common/stores/postgres.ts';
import { sleep, systemTime, type Time } from '#common/time.ts';
import type { Part } from './lifecycle.ts';
import { packageRoot } from './paths.ts';

/** Empty if the store has the schema, or what it lacks; null while it does not answer. */
type SchemaLack = () => Promise<string | null>;

const retryMs = SECOND_MS;

/** Migrations of this release; other files of the folder have other names. */
const migrationsIn = (folder: string) =>
  readdirSync(join(packageRoot(), folder))
    .filter((name) => /^\d{4}[_-][a-z0-9_-]+\.sql$/.test(name))
    .map((name) => name.slice(0, -'.sql'.length))
    .sort();

/** No table, no schema, or no right to read it: an older release migrated this database, or none did. */
const unmigrated = new Set(['42P01', '3F000', '42501']);

/** Migrations run before the processes' roles get their rights, so the table of those runs is not enough. */
export function postgresLack(db: Queries): SchemaLack {
  const wanted = migrationsIn('pg-migrations');
  return async () => {
    let rows: { name: string }[];
    try {
      rows = await db.query<{ name: string }>('SELECT name FROM ready_migrations');
    } catch (error) {
      const code = error instanceof Error && 'code' in error ? String(error.code) : '';
      return unmigrated.has(code) ? lackIn('Postgres', wanted.at(-1)) : null;
    }
    const known = new Set(rows.map(({ name }) => name));
    return lackIn(
      'Postgres',
      wanted.findLast((name) => !known.has(name)),
    );
  };
}

/** The part of the ClickHouse client that is needed here. */
interface ClickHouseQueries {
  query<Row>(sql: string): Promise<Row[]>;
}

/** UNKNOWN_TABLE, UNKNOWN_DATABASE */
const unmigratedClickHouse = new Set([60, 81]);

export function clickhouseLack(clickhouse: ClickHouseQueries): SchemaLack {
  const wanted = migrationsIn(join('clickhouse', 'migrations'));
  return async () => {
    let newest: number;
    try {
      const [row] = await clickhouse.query<{ newest: number }>('SELECT max(number) AS newest FROM migrations');
      newest = row?.newest ?? 0;
    } catch (error) {
      const code = error instanceof Error && 'code' in error ? Number(error.code) : 0;
      return unmigratedClickHouse.has(code) ? lackIn('ClickHouse', wanted.at(-1)) : null;
    }
    return lackIn('ClickHouse', newest < wanted.length ? wanted.at(-1) : undefined);
  };
}

const lackIn = (store: string, migration: string | undefined) =>
  migration === undefined ? '' : `${store} lacks migration ${migration}: run migrate`;

interface SchemaWaitOptions {
  readonly lacks: readonly SchemaLack[];
  /** Whether the process can do nothing without these stores, and waits for their answers too. */
  readonly needs?: boolean;
  readonly log: { warn(fields: object, message: string): void };
  /** Replaced in tests. */
  readonly time?: Pick<Time, 'after'>;
}

/** A part that starts once no store is known to lack a migration; and a readiness check. */
export class SchemaWait implements Part {
  readonly name = 'schema';
  readonly #options: SchemaWaitOptions;
  #isThere = false;

  constructor(options: SchemaWaitOptions) {
    this.#options = options;
  }

  get isThere(): boolean {
    return this.#isThere;
  }

  /** True once every store has the schema; until then the reason. */
  readonly check = async (): Promise<true | string> => {
    if (this.#isThere) return true;
    const lack = await this.#lack();
    // `start` may have found it meanwhile, and its connections may be closed.
    this.#isThere ||= lack === '';
    return this.#isThere || (lack ?? 'not known');
  };

  async start(): Promise<void> {
    let logged: string | undefined;
    for (;;) {
      const lack = await this.#lack();
      this.#isThere ||= lack === '';
      if (lack === '' || (lack === null && this.#options.needs !== true)) return;
      const reason = lack ?? 'a store whose schema is needed does not answer';
      if (reason !== logged) this.#options.log.warn({ reason }, 'waiting for the schema');
      logged = reason;
      await sleep(this.#options.time ?? systemTime, retryMs);
    }
  }

  async #lack(): Promise<string | null> {
    const all = await Promise.all(this.#options.lacks.map((lack) => lack()));
    return all.find((lack) => lack !== null && lack !== '') ?? (all.includes(null) ? null : '');
  }
}
