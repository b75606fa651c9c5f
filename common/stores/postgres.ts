/** The only access to Postgres. Values are always bound; environment errors are distinguished from programming errors. */
import pg from 'pg';
import { parseExact } from '#common/exact-json.ts';
import { urlsIn } from '#common/process/url-list.ts';
import type { Around } from '#common/tracing/trail.ts';
import { Turns } from '#common/turns.ts';

export interface PostgresOptions {
  /** One URL, or several separated by commas, of which the first that accepts writes is used. */
  readonly url: string;
  /** Shown in pg_stat_activity. */
  readonly name: string;
  readonly connectionsMax?: number;
  /** Maximum duration of a statement, enforced by the server. */
  readonly statementTimeoutMs?: number;
  /** Maximum duration of opening a connection; 3 s if absent, because a request waits for it. */
  readonly connectTimeoutMs?: number;
  /** Called for each statement, if present. */
  readonly around?: Around | undefined;
  /** Called when the server is unavailable or refuses the user, for each statement and for idle connections. */
  readonly onError?: (error: unknown) => void;
}

/** Requests that may wait for a connection; beyond it Postgres counts as unavailable. */
const waitingMax = 1_000;
const idleTimeoutMs = 30_000;
/** For operator commands, which should wait for a busy server instead of reporting it as unavailable. */
export const patientConnectMs = 30_000;

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
 * SQLSTATEs about the server's condition, not about the statement. Source: PostgreSQL documentation, appendix A: class
 * 08 connection, 28 authorization (such as a password that was changed), 3D no such database, 53 resources, 57 operator, 58 system, 40 rollback.
 */
function isUnavailable(error: unknown): boolean {
  if (error instanceof pg.DatabaseError) {
    const code = error.code ?? '';
    return /^(08|28|3D|53|57|58|40)/.test(code) || code === '25P03' || code === '25006';
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
  return /^235(03|05|14)$/.test(error.code ?? '') ? error.constraint : undefined;
}

/** int8 as a number (beyond 2^53 it throws), timestamptz as a Date, date and numeric as text, jsonb with all digits. */
const types: pg.CustomTypesConfig = {
  getTypeParser: (oid, format) => {
    if (oid === pg.types.builtins.INT8) return safeInteger;
    if (oid === pg.types.builtins.DATE) return String;
    if (oid === pg.types.builtins.JSONB) return parseExact;
    return pg.types.getTypeParser(oid, format);
  },
};

function safeInteger(text: string): number {
  const value = Number(text);
  if (!Number.isSafeInteger(value)) throw new RangeError(`${text} is too large for a number`);
  return value;
}

function queriesOn(
  run: (config: pg.QueryConfig) => Promise<pg.QueryResult>,
  { around, onError }: Pick<PostgresOptions, 'around' | 'onError'>,
): Queries {
  const ask = async (text: string, values: readonly unknown[], name: string | undefined) => {
    try {
      const config = { text, values: [...values], ...(name === undefined ? {} : { name }) };
      return await (around === undefined ? run(config) : around(text, () => run(config)));
    } catch (error) {
      if (isUnavailable(error)) onError?.(error);
      throw classified(error);
    }
  };
  return {
    query: async (sql, values = [], name) => (await ask(sql, values, name)).rows,
    execute: async (sql, values = [], name) => (await ask(sql, values, name)).rowCount ?? 0,
  };
}

/** One of several servers is used only while it accepts writes. */
function ensureWritable(client: pg.PoolClient, done: (error?: Error) => void): void {
  client.query<{ is_standby: boolean }>('SELECT pg_is_in_recovery() AS is_standby').then(
    ({ rows }) => done(rows[0]?.is_standby === false ? undefined : new Error('the server accepts no writes')),
    (error: unknown) => done(error instanceof Error ? error : new Error(String(error))),
  );
}

/** A list of servers, one of which accepts writes: the last known one, or the next one that does. */
class Servers {
  readonly #pools: readonly pg.Pool[];
  #at = 0;

  constructor(pools: readonly pg.Pool[]) {
    if (pools.length === 0) throw new TypeError('no URL of a Postgres server is given');
    this.#pools = pools;
  }

  async query(config: pg.QueryConfig): Promise<pg.QueryResult> {
    const [only] = this.#pools;
    if (this.#pools.length === 1 && only !== undefined) return await only.query(config);
    const client = await this.connect();
    let broken: Error | undefined;
    const onError = (error: Error) => {
      broken = error;
    };
    client.on('error', onError);
    try {
      return await client.query(config);
    } catch (error) {
      if (isUnavailable(error)) broken = error instanceof Error ? error : new Error(String(error));
      throw error;
    } finally {
      client.off('error', onError);
      client.release(broken);
    }
  }

  /** Tries each server once. @throws the last server's error. */
  async connect(): Promise<pg.PoolClient> {
    const from = this.#at;
    let failure: unknown;
    for (let tried = 0; tried < this.#pools.length; tried++) {
      const at = (from + tried) % this.#pools.length;
      try {
        const client = await this.#pools[at]?.connect();
        if (client === undefined) throw new TypeError('this server does not exist');
        this.#at = at;
        return client;
      } catch (error) {
        failure = error;
      }
    }
    throw failure;
  }

  async end(): Promise<void> {
    await Promise.all(this.#pools.map((pool) => pool.end()));
  }
}

/** The URL of the server that accepts writes. @throws PostgresUnavailable if there is none. */
export async function writableUrl(text: string): Promise<string> {
  const urls = urlsIn(text);
  const [only] = urls;
  if (urls.length === 1 && only !== undefined) return only;
  let failure: unknown = new Error('none of the Postgres servers accepts writes');
  for (const url of urls) {
    const db = new Postgres({ url, name: 'looking for the writable server', connectionsMax: 1 });
    try {
      const [row] = await db.query<{ is_standby: boolean }>('SELECT pg_is_in_recovery() AS is_standby');
      if (row?.is_standby === false) return url;
    } catch (error) {
      failure = error;
    } finally {
      await db.close();
    }
  }
  throw failure instanceof PostgresUnavailable ? failure : new PostgresUnavailable(failure);
}

/** A pool of connections. Opens none until the first query. */
export class Postgres implements Queries {
  readonly query: Queries['query'];
  readonly execute: Queries['execute'];
  readonly #servers: Servers;
  readonly #options: PostgresOptions;
  /** The pool's own queue has the same timeout as connecting, and gives up while the server is still working. */
  readonly #turns: Turns;

  constructor(options: PostgresOptions) {
    const statementTimeoutMs = options.statementTimeoutMs ?? 10_000;
    const connectionsMax = options.connectionsMax ?? 10;
    this.#turns = new Turns({ openMax: connectionsMax, waitingMax, waitMsMax: statementTimeoutMs });
    const urls = urlsIn(options.url);
    const settings = {
      application_name: options.name,
      max: connectionsMax,
      connectionTimeoutMillis: options.connectTimeoutMs ?? 3_000,
      idleTimeoutMillis: idleTimeoutMs,
      statement_timeout: statementTimeoutMs,
      // A server that is stopped or disconnected never sends its own timeout.
      query_timeout: statementTimeoutMs + 2_000,
      idle_in_transaction_session_timeout: 30_000,
      keepAlive: true,
      types,
    };
    const pools = urls.map((connectionString) => {
      const pool = new pg.Pool({
        ...settings,
        connectionString,
        ...(urls.length > 1 ? { verify: ensureWritable } : {}),
      });
      // Without a listener, a broken idle connection would crash the process.
      pool.on('error', (error) => options.onError?.(error));
      return pool;
    });
    this.#servers = new Servers(pools);
    const queries = queriesOn(async (config) => {
      await this.#turns.begin();
      try {
        return await this.#servers.query(config);
      } finally {
        this.#turns.end();
      }
    }, options);
    this.#options = options;
    this.query = queries.query;
    this.execute = queries.execute;
  }

  /**
   * All or nothing: commits when the function returns, rolls back when it throws. If the commit itself throws
   * PostgresUnavailable, its outcome is unknown.
   */
  async transaction<T>(work: (queries: Queries) => Promise<T>): Promise<T> {
    const client = await this.#connect();
    const queries = queriesOn((config) => client.query(config), this.#options);
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

  /** Whether the server responds to a query now. */
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
    await this.#servers.end();
  }

  async #connect(): Promise<pg.PoolClient> {
    try {
      await this.#turns.begin();
    } catch (error) {
      throw classified(error);
    }
    try {
      return await this.#servers.connect();
    } catch (error) {
      this.#turns.end();
      if (isUnavailable(error)) this.#options.onError?.(error);
      throw classified(error);
    }
  }
}
