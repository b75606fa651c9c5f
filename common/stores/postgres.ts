/** The only access to Postgres. Values are always bound; environment errors are distinguished from programming errors. */
import pg from 'pg';
import { Turns } from '#common/turns.ts';

export interface PostgresOptions {
  readonly url: string;
  /** Shown in pg_stat_activity. */
  readonly name: string;
  readonly connectionsMax?: number;
  /** Maximum duration of a statement, enforced by the server. */
  readonly statementTimeoutMs?: number;
  /** Called for errors on idle connections, when the server has gone. */
  readonly onError?: (error: Error) => void;
}

/** Requests that may wait for a connection; beyond it Postgres counts as unavailable. */
const waitingMax = 1_000;
const connectTimeoutMs = 3_000;
const idleTimeoutMs = 30_000;

/** Postgres is unavailable, restarting, overloaded or too slow. Retryable; an HTTP caller gets 500 and Retry-After. */
export class PostgresUnavailable extends Error {
  /** SQLSTATE or system error code, empty if there is none. */
  readonly code: string;
  constructor(cause: unknown) {
    super(`Postgres is unavailable: ${cause instanceof Error ? cause.message : String(cause)}`, { cause });
    this.name = 'PostgresUnavailable';
    this.code = codeOf(cause);
  }
}

export interface Queries {
  /** Runs a query and returns its rows. A name makes it a prepared statement, planned once per connection. */
  query<Row extends object>(sql: string, values?: readonly unknown[], name?: string): Promise<Row[]>;
  /** Number of affected rows. */
  execute(sql: string, values?: readonly unknown[], name?: string): Promise<number>;
}

function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : '';
}

/**
 * SQLSTATEs about the server's condition rather than our statement. Source: PostgreSQL documentation, appendix A: class
 * 08 connection, 53 resources, 57 operator, 58 system, 40 rollback.
 */
function isUnavailable(error: unknown): boolean {
  if (error instanceof pg.DatabaseError) {
    const code = error.code ?? '';
    return /^(08|53|57|58|40)/.test(code) || code === '25P03' || code === '25006';
  }
  // An error of pg without a SQLSTATE is a lost, refused or overdue connection, except for misuse.
  return error instanceof Error && !(error instanceof TypeError) && !(error instanceof RangeError);
}

function classified(error: unknown): unknown {
  return isUnavailable(error) ? new PostgresUnavailable(error) : error;
}

/** The name of the unique or foreign-key constraint in an error; undefined for every other error. */
export function violatedConstraint(error: unknown): string | undefined {
  if (!(error instanceof pg.DatabaseError)) return undefined;
  return error.code === '23505' || error.code === '23503' ? error.constraint : undefined;
}

/** int8 as a number (beyond 2^53 it throws), timestamptz as a Date, date and numeric as text. */
const types: pg.CustomTypesConfig = {
  getTypeParser: (oid, format) => {
    if (oid === pg.types.builtins.INT8) return safeInteger;
    if (oid === pg.types.builtins.DATE) return String;
    return pg.types.getTypeParser(oid, format);
  },
};

function safeInteger(text: string): number {
  const value = Number(text);
  if (!Number.isSafeInteger(value)) throw new RangeError(`${text} is too large for a number`);
  return value;
}

function queriesOn(run: (config: pg.QueryConfig) => Promise<pg.QueryResult>): Queries {
  const ask = async (text: string, values: readonly unknown[], name: string | undefined) => {
    try {
      return await run({ text, values: [...values], ...(name === undefined ? {} : { name }) });
    } catch (error) {
      throw classified(error);
    }
  };
  return {
    query: async (sql, values = [], name) => (await ask(sql, values, name)).rows,
    execute: async (sql, values = [], name) => (await ask(sql, values, name)).rowCount ?? 0,
  };
}

/** A pool of connections. Opens none until the first query. */
export class Postgres implements Queries {
  readonly query: Queries['query'];
  readonly execute: Queries['execute'];
  readonly #pool: pg.Pool;
  /** The pool's own queue has the same timeout as connecting, and gives up while the server is still working. */
  readonly #turns: Turns;

  constructor(options: PostgresOptions) {
    const statementTimeoutMs = options.statementTimeoutMs ?? 10_000;
    const connectionsMax = options.connectionsMax ?? 10;
    this.#turns = new Turns({ openMax: connectionsMax, waitingMax, waitMsMax: statementTimeoutMs });
    this.#pool = new pg.Pool({
      connectionString: options.url,
      application_name: options.name,
      max: connectionsMax,
      connectionTimeoutMillis: connectTimeoutMs,
      idleTimeoutMillis: idleTimeoutMs,
      statement_timeout: statementTimeoutMs,
      // A server that is stopped or disconnected never sends its own timeout.
      query_timeout: statementTimeoutMs + 2_000,
      idle_in_transaction_session_timeout: 30_000,
      keepAlive: true,
      types,
    });
    // Without a listener, the end of an idle connection would end the process.
    this.#pool.on('error', (error) => options.onError?.(error));
    const queries = queriesOn(async (config) => {
      await this.#turns.begin();
      try {
        return await this.#pool.query(config);
      } finally {
        this.#turns.end();
      }
    });
    this.query = queries.query;
    this.execute = queries.execute;
  }

  /**
   * All or nothing: commits when the function returns, rolls back when it throws. If the commit itself throws
   * PostgresUnavailable, its outcome is unknown.
   */
  async transaction<T>(work: (queries: Queries) => Promise<T>): Promise<T> {
    const client = await this.#connect();
    const queries = queriesOn((config) => client.query(config));
    let broken: Error | undefined;
    // An error between two statements arrives as an event; the next statement fails with it too.
    const onError = (error: Error) => {
      broken = error;
    };
    client.on('error', onError);
    try {
      await queries.execute('BEGIN');
      const result = await work(queries);
      await queries.execute('COMMIT');
      return result;
    } catch (error) {
      try {
        await client.query('ROLLBACK');
      } catch (rollbackError) {
        broken = rollbackError instanceof Error ? rollbackError : new Error(String(rollbackError));
      }
      throw error;
    } finally {
      client.off('error', onError);
      client.release(broken);
      this.#turns.end();
    }
  }

  /** Whether the server answers a query now. */
  async isReady(): Promise<boolean> {
    try {
      await this.query('SELECT 1');
      return true;
    } catch {
      return false;
    }
  }

  /** Waits for running queries and closes every connection. */
  async close(): Promise<void> {
    await this.#pool.end();
  }

  async #connect(): Promise<pg.PoolClient> {
    try {
      await this.#turns.begin();
    } catch (error) {
      throw classified(error);
    }
    try {
      return await this.#pool.connect();
    } catch (error) {
      this.#turns.end();
      throw classified(error);
    }
  }
}
