/** The ClickHouse client, and the only file that uses its client library. */
import { randomUUID } from 'node:crypto';
import { Agent, type AgentOptions } from 'node:http';
import { Readable } from 'node:stream';
import { ClickHouseError, ClickHouseLogLevel, createClient } from '@clickhouse/client';
import { urlsIn } from '#common/process/url-list.ts';
import type { Around } from '#common/tracing/trail.ts';
import { takeStatus } from './answer-status.ts';

type Library = ReturnType<typeof createClient>;
export type Settings = Readonly<Record<string, string | number>>;
export type Params = Readonly<Record<string, unknown>>;

/**
 * Why ClickHouse did not execute a request. `refused`: it answered with an error that a retry would get too.
 * `unavailable`: it was not reached, did not answer, or cannot execute the request just now; whether an insert took
 * place is then unknown.
 */
export class ClickHouseFailure extends Error {
  readonly kind: 'unavailable' | 'refused';
  /** ClickHouse's exception number; 0 if there was no answer. */
  readonly code: number;
  constructor(kind: 'unavailable' | 'refused', code: number, message: string, cause: unknown) {
    super(message, { cause });
    this.name = 'ClickHouseFailure';
    this.kind = kind;
    this.code = code;
  }
}

export interface ReadLimits {
  readonly executionSecondsMax: number;
  readonly rowsToReadMax: number;
  readonly resultRowsMax: number;
}

export interface ClickHouseOptions {
  /**
   * http(s)://user:password@host:port/database, with ?socket=PATH for a Unix socket. With several comma-separated replicas, a client with `reads` fails over
   * to the next if one refuses connections. Any other client uses only the first, since only that server lists the
   * inserts that are running on it.
   */
  readonly url: string;
  /** If given, the client is read-only and has these limits: for queries that are shaped by callers. */
  readonly reads?: ReadLimits;
  readonly requestTimeoutMs?: number;
  readonly connectionsMax?: number;
  /** Called when the server is unavailable or refuses the user, for each request. */
  readonly onError?: (error: unknown) => void;
  /** Wraps each query, for tracing. */
  readonly around?: Around | undefined;
}

export interface InsertOptions {
  /** The same token with the same bytes is stored once. */
  readonly token: string;
  readonly format: 'JSONEachRow' | 'JSONCompactEachRow' | 'RowBinary' | 'TabSeparated';
  readonly columns: readonly string[];
  /** The query_id under which it is listed among the running queries. */
  readonly queryId?: string;
}

export type InsertAnswer =
  /** `rows` includes what views wrote: at least the rows sent, even if the token was already known. */
  | { readonly kind: 'written'; readonly rows: number }
  | { readonly kind: 'unavailable' | 'refused'; readonly code: number; readonly message: string };

/**
 * Temporary exceptions: too many queries, no memory or disk space, a query cancelled, ZooKeeper unavailable, a
 * read-only table.
 */
const passing = new Set([159, 201, 202, 209, 210, 225, 236, 241, 242, 243, 252, 319, 394, 439, 473, 999]);

/**
 * One insert is one block, so that its token covers all of it. Parallel parsing would split it arbitrarily, and an
 * asynchronous insert would be answered before it is on disk. The deduplication settings pass tokens on to the rollups.
 */
const insertSettings: Settings = {
  async_insert: 0,
  input_format_parallel_parsing: 0,
  max_insert_block_size: 1_000_000,
  min_insert_block_size_rows: 1_000_000,
  min_insert_block_size_bytes: 0,
  max_insert_threads: 1,
  insert_deduplicate: 1,
  deduplicate_blocks_in_dependent_materialized_views: 1,
  materialized_views_ignore_errors: 0,
  // A rollup gets its part only after the raw table has its own.
  parallel_view_processing: 0,
  wait_end_of_query: 1,
};

/** An idle connection is closed before the server closes it. */
const IDLE_MS_MAX = 2_500;

function socketAgent(socketPath: string, maxSockets: number): Agent {
  // Node passes an agent's options on to each request, but its type has only those of a TCP connection.
  const options: AgentOptions & { socketPath: string } = {
    keepAlive: true,
    maxSockets,
    timeout: IDLE_MS_MAX,
    socketPath,
  };
  return new Agent(options);
}

/** An identifier quoted for ClickHouse's SQL, whatever it contains. */
export function identifier(name: string): string {
  return `\`${name.replaceAll('\\', '\\\\').replaceAll('`', '\\`')}\``;
}

/** The user, its password, or a permission: UNKNOWN_USER, WRONG_PASSWORD, REQUIRED_PASSWORD, ACCESS_DENIED, AUTHENTICATION_FAILED. */
const ofUser = new Set([192, 193, 194, 497, 516]);

/** Whether ClickHouse cannot be used now: it is unavailable, or refuses the user. */
export function isClickHouseOutage({ kind, code }: Pick<ClickHouseFailure, 'kind' | 'code'>): boolean {
  return kind === 'unavailable' || ofUser.has(code);
}

/** Temporary refusals of a proxy: a timeout, too early, too many requests. */
const passingStatuses = new Set([408, 425, 429]);

/** @param queryId of the request that failed. */
function failureOf(error: unknown, queryId: string): ClickHouseFailure {
  const status = takeStatus(queryId);
  if (error instanceof ClickHouseFailure) return error;
  if (error instanceof ClickHouseError) {
    const code = Number(error.code);
    return new ClickHouseFailure(passing.has(code) ? 'unavailable' : 'refused', code, error.message, error);
  }
  const text = error instanceof Error ? error.message : String(error);
  const message =
    status === 0
      ? text
      : `HTTP ${status} without an exception of ClickHouse, as from a proxy in front of it: ${text.slice(0, 200)}`;
  if (status >= 400 && status < 500 && !passingStatuses.has(status))
    return new ClickHouseFailure('refused', 0, message, error);
  return new ClickHouseFailure('unavailable', 0, message, error);
}

/** Whether no connection was made (refused, unknown name, or unreachable), so that nothing was sent. */
function isRefusedConnection(error: unknown): boolean {
  const code = error instanceof Error && 'code' in error ? error.code : '';
  return code === 'ECONNREFUSED' || code === 'ENOTFOUND' || code === 'EHOSTUNREACH' || code === 'ENETUNREACH';
}

function readSettings(reads: ReadLimits): Settings {
  return {
    // 2 would still allow file().
    readonly: 1,
    max_execution_time: reads.executionSecondsMax,
    max_rows_to_read: reads.rowsToReadMax,
    max_result_rows: reads.resultRowsMax,
    result_overflow_mode: 'throw',
  };
}

export class ClickHouse {
  readonly #libraries: readonly Library[];
  readonly #options: ClickHouseOptions;
  #at = 0;

  constructor(options: ClickHouseOptions) {
    this.#options = options;
    const urls = urlsIn(options.url);
    if (urls.length === 0) throw new TypeError('no URL of a ClickHouse server is given');
    const used = options.reads === undefined ? urls.slice(0, 1) : urls;
    this.#libraries = used.map((url) => this.#open({ url }));
  }

  /** Creates a client of the library, which connects on demand. */
  #open({ url, ...changes }: { readonly url: string; readonly database?: string }): Library {
    const { reads, requestTimeoutMs = 30_000, connectionsMax = 10 } = this.#options;
    const address = new URL(url);
    const database = changes.database ?? (decodeURIComponent(address.pathname.slice(1)) || 'default');
    const socketPath = address.searchParams.get('socket');
    const [username, password] = [decodeURIComponent(address.username), decodeURIComponent(address.password)];
    return createClient({
      url: `${address.protocol}//${address.host}`,
      ...(socketPath === null ? {} : { http_agent: socketAgent(socketPath, connectionsMax) }),
      ...(username === '' ? {} : { username, password }),
      database,
      application: 'signpost',
      request_timeout: requestTimeoutMs,
      max_open_connections: connectionsMax,
      keep_alive: { enabled: true, idle_socket_ttl: IDLE_MS_MAX },
      compression: { request: false, response: false },
      // Proxies and load balancers limit the head of a request to 8 to 16 KiB.
      use_multipart_params_auto: true,
      log: { level: ClickHouseLogLevel.OFF },
      clickhouse_settings: {
        output_format_json_quote_64bit_integers: 0,
        ...(reads === undefined ? {} : readSettings(reads)),
      },
    });
  }

  /**
   * All rows of a SELECT, which the server sends once it has them all. 64-bit integers are returned as numbers: above
   * 2^53, select toString() of them. @param params values of `{name:Type}` in the text. @throws ClickHouseFailure
   */
  async query<Row>(sql: string, params: Params = {}, settings: Settings = {}): Promise<Row[]> {
    const { around } = this.#options;
    return await (around === undefined
      ? this.#query<Row>(sql, params, settings)
      : around(sql, () => this.#query<Row>(sql, params, settings)));
  }

  async #query<Row>(sql: string, params: Params, settings: Settings): Promise<Row[]> {
    const query_id = randomUUID();
    try {
      const result = await this.#onOne((library) =>
        library.query({
          query: sql,
          query_id,
          query_params: { ...params },
          clickhouse_settings: { wait_end_of_query: 1, ...settings },
          format: 'JSONEachRow',
        }),
      );
      return await result.json<Row>();
    } catch (error) {
      throw this.#failure(error, query_id);
    }
  }

  /**
   * The rows of a SELECT in chunks, streamed with backpressure; leaving the loop cancels the query. @throws
   * ClickHouseFailure, also in the middle.
   */
  async *stream<Row>(sql: string, params: Params = {}, settings: Settings = {}): AsyncGenerator<Row[]> {
    yield* this.#stream('JSONEachRow', { sql, params, settings }, (row) => row.json() as Row);
  }

  /** The same, with each row as a line of TabSeparated, which is exact for every type without aggregate states. */
  async *lines(sql: string, params: Params = {}): AsyncGenerator<string[]> {
    yield* this.#stream('TabSeparated', { sql, params, settings: {} }, (row) => row.text);
  }

  async *#stream<Row>(
    format: 'JSONEachRow' | 'TabSeparated',
    { sql, params, settings }: { readonly sql: string; readonly params: Params; readonly settings: Settings },
    read: (row: { readonly text: string; json(): unknown }) => Row,
  ): AsyncGenerator<Row[]> {
    const stop = new AbortController();
    const query_id = randomUUID();
    try {
      const result = await this.#onOne((library) =>
        library.query({
          query: sql,
          query_id,
          query_params: { ...params },
          clickhouse_settings: settings,
          format,
          abort_signal: stop.signal,
        }),
      );
      for await (const lot of result.stream()) yield lot.map(read);
    } catch (error) {
      throw this.#failure(error, query_id);
    } finally {
      stop.abort();
    }
  }

  /**
   * Stores encoded rows, at most 1,000,000 and all of one partition, in one insert. It does not retry: a retry must
   * repeat the same bytes with the same token.
   */
  async insert(
    table: string,
    bytes: Uint8Array,
    { token, format, columns, queryId = randomUUID() }: InsertOptions,
  ): Promise<InsertAnswer> {
    const query = `INSERT INTO ${identifier(table)} (${columns.map(identifier).join(', ')}) FORMAT ${format}`;
    try {
      const result = await this.#library.exec({
        query,
        values: Readable.from([bytes], { objectMode: false }),
        query_id: queryId,
        clickhouse_settings: { ...insertSettings, insert_deduplication_token: token },
      });
      for await (const _ of result.stream);
      const rows = Number(result.summary?.written_rows);
      if (!Number.isInteger(rows)) throw new TypeError('ClickHouse did not report how many rows it wrote');
      return { kind: 'written', rows };
    } catch (error) {
      const { kind, code, message } = this.#failure(error, queryId);
      return { kind, code, message };
    }
  }

  /** Runs a statement that returns no rows. Its parameters are sent in the URL: lists must be short. @throws ClickHouseFailure */
  async command(
    sql: string,
    params: Params = {},
    settings: Settings = {},
    queryId: string = randomUUID(),
  ): Promise<void> {
    try {
      await this.#library.command({
        query: sql,
        query_params: { ...params },
        clickhouse_settings: settings,
        query_id: queryId,
      });
    } catch (error) {
      throw this.#failure(error, queryId);
    }
  }

  /** Creates the database of the URL. @throws ClickHouseFailure */
  async createDatabase(onCluster: string): Promise<void> {
    const [url = ''] = urlsIn(this.#options.url);
    const name = decodeURIComponent(new URL(url).pathname.slice(1));
    if (name === '' || name === 'default') return;
    const library = this.#open({ url, database: 'default' });
    const query_id = randomUUID();
    try {
      const query = `CREATE DATABASE IF NOT EXISTS ${identifier(name)} ${onCluster}`;
      await library.command({ query, query_id });
    } catch (error) {
      throw this.#failure(error, query_id);
    } finally {
      await library.close();
    }
  }

  /** @param queryId of the request that failed. */
  #failure(error: unknown, queryId: string): ClickHouseFailure {
    const failure = failureOf(error, queryId);
    if (isClickHouseOutage(failure)) this.#options.onError?.(failure);
    return failure;
  }

  /** Whether at least one server answers within the request timeout. */
  async isReachable(): Promise<boolean> {
    const answers = await Promise.all(this.#libraries.map((library) => library.ping()));
    return answers.some(({ success }) => success);
  }

  async close(): Promise<void> {
    await Promise.all(this.#libraries.map((library) => library.close()));
  }

  get #library(): Library {
    const library = this.#libraries[this.#at];
    if (library === undefined) throw new TypeError('this server does not exist');
    return library;
  }

  /** Runs a request on the server that answered last, or on the next one that accepts the connection. */
  async #onOne<T>(ask: (library: Library) => Promise<T>): Promise<T> {
    for (let tried = 1; ; tried++) {
      const at = this.#at;
      try {
        return await ask(this.#library);
      } catch (error) {
        if (tried >= this.#libraries.length || !isRefusedConnection(error)) throw error;
        // Another query may already have switched.
        if (this.#at === at) this.#at = (at + 1) % this.#libraries.length;
      }
    }
  }
}
