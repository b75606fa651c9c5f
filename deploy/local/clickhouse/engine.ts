/**
 * ClickHouse's engine inside this process (chdb), and the only file that knows it.
 *
 * Every query gets a session of its own (0.08 ms): settings, parameters, the current database and `readonly` can't leak
 * from one caller to the next. Parameters go in by SET, because the binding's own ones are shared by all sessions.
 */
import { randomUUID } from 'node:crypto';
import { mkdirSync, rmSync } from 'node:fs';
import { rm, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join, resolve } from 'node:path';
import { type ChdbQueryStream, Session } from 'chdb';
import { quote } from './statement.ts';

/** The part of the binding's native side that is needed: an INSERT's bytes go in without being copied through a string. */
interface Native {
  InsertRawAsyncConnection(
    connection: unknown,
    prefix: string,
    body: Buffer,
    countLines: boolean,
  ): Promise<{ rowsWritten: number; bytesWritten: number; elapsed: number }>;
}

function loadNative(): Native {
  const require = createRequire(import.meta.url);
  return require(join(dirname(require.resolve('chdb/package.json')), 'dist', 'loader.js')).loadNative();
}

export interface Circumstances {
  readonly queryId: string;
  readonly database: string;
  readonly settings: ReadonlyMap<string, string>;
  /** Values in ClickHouse's escaped text form, as they stand in a URL after its own decoding. */
  readonly params: ReadonlyMap<string, string>;
  readonly readonly: 0 | 1 | 2;
}

/** `INSERT INTO … FORMAT …`, cut where SETTINGS or FORMAT begins. */
export interface InsertHead {
  readonly before: string;
  readonly clauses: string;
  readonly format: string;
}

/** Formats whose data may stand behind the statement; that of all others goes through a file. */
const textFormats = new Set(['JSONEachRow', 'JSONCompactEachRow', 'TabSeparated', 'TSV', 'CSV']);

export interface Written {
  readonly rows: number;
  readonly bytes: number;
  readonly elapsedNs: number;
}

/** What holds unless a query says otherwise. An asynchronous insert would be answered before it is on the disk. */
const defaults: readonly [string, string][] = [
  ['async_insert', '0'],
  ['max_memory_usage', '4000000000'],
];

function preludeOf(at: Circumstances): string {
  const name = `\`${at.database.replaceAll('\\', '\\\\').replaceAll('`', '\\`')}\``;
  const settings = new Map([...defaults, ...at.settings]);
  // The comment is how this query is found again when it has to be stopped.
  settings.set('log_comment', at.queryId);
  const assignments = [...settings].map(([key, value]) => `${key} = ${quote(value)}`);
  for (const [key, value] of at.params) assignments.push(`param_${key} = ${quote(value)}`);
  const statements = [`USE ${name}`, `SET ${assignments.join(', ')}`];
  // Last, because nothing can be set after it.
  if (at.readonly > 0) statements.push(`SET readonly = ${at.readonly}`);
  return statements.join('; ');
}

export class Engine {
  readonly #dataDir: string;
  readonly #incomingDir: string;
  readonly #native = loadNative();
  /** The engine lives as long as one session is open. */
  readonly #anchor: Session;

  /** @throws when another process has the folder open. */
  constructor(dataDir: string) {
    this.#dataDir = resolve(dataDir);
    this.#incomingDir = resolve(dataDir, '..', 'incoming');
    this.#anchor = new Session(this.#dataDir);
    // What a killed process left; the folder is ours alone once the engine is open.
    rmSync(this.#incomingDir, { recursive: true, force: true });
    mkdirSync(this.#incomingDir, { recursive: true, mode: 0o700 });
    // A table that is not there is looked for as a file in the current folder: here no file has such a name.
    process.chdir(this.#incomingDir);
  }

  /** Names of everything that can stand in the place of a table with brackets behind it. */
  async tableFunctions(): Promise<ReadonlySet<string>> {
    const session = new Session(this.#dataDir);
    try {
      const rows = (
        await session.queryAsync('SELECT lower(name) FROM system.table_functions', { format: 'TSV' })
      ).bytes();
      const names = Buffer.from(rows)
        .toString()
        .split('\n')
        .filter((name) => name !== '');
      if (!names.includes('file')) throw new Error('the engine does not tell its table functions');
      return new Set(names);
    } finally {
      session.close();
    }
  }

  /** Runs a query to its end and returns the whole result. */
  async query(at: Circumstances, sql: string, format: string): Promise<Uint8Array> {
    return await this.#within(at, async (session) => (await session.queryAsync(sql, { format })).bytes());
  }

  /** Runs a SELECT and yields its result in parts; ending the iteration early ends the query. */
  async *stream(at: Circumstances, sql: string, format: string): AsyncGenerator<Uint8Array> {
    const session = new Session(this.#dataDir);
    let parts: ChdbQueryStream | undefined;
    try {
      await session.queryAsync(preludeOf(at));
      parts = session.queryStream(sql, { format });
      for await (const part of parts) yield part.raw();
    } finally {
      parts?.cancel();
      session.close();
    }
  }

  /** Runs an INSERT that is all SQL (VALUES, SELECT). */
  async insertSql(at: Circumstances, sql: string): Promise<Written> {
    return await this.#insert(at, ' ', Buffer.from(sql));
  }

  /** Runs `INSERT … FORMAT …` with its data. The counts include what views wrote. */
  async insertRows(at: Circumstances, head: InsertHead, body: Buffer): Promise<Written> {
    // The engine takes a blank line for the end of the data, and what follows for another statement.
    const isSafe = textFormats.has(head.format) && !body.includes('\n\n');
    if (isSafe) return await this.#insert(at, `${head.before}${head.clauses}`, body);
    const file = join(this.#incomingDir, randomUUID());
    try {
      await writeFile(file, body, { flag: 'wx', mode: 0o600 });
      return await this.#insert(at, `${head.before} FROM INFILE ${quote(file)} ${head.clauses}`, Buffer.from(' '));
    } finally {
      await rm(file, { force: true });
    }
  }

  async #insert(at: Circumstances, sql: string, body: Buffer): Promise<Written> {
    return await this.#within(at, async (session) => {
      const done = await this.#native.InsertRawAsyncConnection(session.connection, sql, body, false);
      return { rows: done.rowsWritten, bytes: done.bytesWritten, elapsedNs: Math.round(done.elapsed * 1e9) };
    });
  }

  /** Asks the engine to end a running query. Its caller then sees QUERY_WAS_CANCELLED (394). */
  async kill(queryId: string): Promise<void> {
    const session = new Session(this.#dataDir);
    try {
      await session.queryAsync(`KILL QUERY WHERE Settings['log_comment'] = ${quote(queryId)}`);
    } finally {
      session.close();
    }
  }

  close(): void {
    this.#anchor.close();
  }

  async #within<T>(at: Circumstances, work: (session: Session) => Promise<T>): Promise<T> {
    const session = new Session(this.#dataDir);
    try {
      await session.queryAsync(preludeOf(at));
      return await work(session);
    } finally {
      session.close();
    }
  }
}
