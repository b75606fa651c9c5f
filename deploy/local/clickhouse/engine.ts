/**
 * ClickHouse's engine inside this process (chdb), and the only file that uses it.
 *
 * Every query gets its own session (0.08 ms): settings, parameters, the current database and `readonly` can't leak from
 * one caller to the next. Parameters are set by SET, because those of the binding are shared by all sessions.
 */
import { randomUUID } from 'node:crypto';
import { mkdirSync, rmSync } from 'node:fs';
import { open, readdir, rm, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join, resolve } from 'node:path';
import { type ChdbQueryStream, Session } from 'chdb';
import { completeFrozenStore, shadowFolder } from './frozen-store.ts';
import { quote } from './statement.ts';

/**
 * The parts of the binding's native side that are used: they pass an INSERT's bytes without copying them through a
 * string.
 */
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

async function syncFile(path: string): Promise<void> {
  const file = await open(path, 'r');
  try {
    await file.sync();
  } finally {
    await file.close();
  }
}

export interface Circumstances {
  readonly queryId: string;
  readonly database: string;
  readonly settings: ReadonlyMap<string, string>;
  /** Values in ClickHouse's escaped text form, as in a URL after URL decoding. */
  readonly params: ReadonlyMap<string, string>;
  readonly readonly: 0 | 1 | 2;
}

/** `INSERT INTO … FORMAT …`, split where SETTINGS or FORMAT begins. */
export interface InsertHead {
  readonly before: string;
  readonly clauses: string;
  readonly format: string;
}

/** Formats whose data may follow the statement; data in other formats goes through a file. */
const textFormats = new Set(['JSONEachRow', 'JSONCompactEachRow', 'TabSeparated', 'TSV', 'CSV']);

export interface Written {
  readonly rows: number;
  readonly bytes: number;
  readonly elapsedNs: number;
}

/** Defaults that a query can override. An asynchronous insert would be acknowledged before it is on disk. */
const defaults: readonly [string, string][] = [
  ['async_insert', '0'],
  ['max_memory_usage', '4000000000'],
];

const STREAM_LOCK_S = 1;

function quoted(name: string): string {
  return `\`${name.replaceAll('\\', '\\\\').replaceAll('`', '\\`')}\``;
}

function preludeOf(at: Circumstances): string {
  const settings = new Map([...defaults, ...at.settings]);
  // The comment identifies this query when it has to be cancelled.
  settings.set('log_comment', at.queryId);
  const assignments = [...settings].map(([key, value]) => `${key} = ${quote(value)}`);
  for (const [key, value] of at.params) assignments.push(`param_${key} = ${quote(value)}`);
  const statements = [`USE ${quoted(at.database)}`, `SET ${assignments.join(', ')}`];
  // Last, because nothing can be set after it.
  if (at.readonly > 0) statements.push(`SET readonly = ${at.readonly}`);
  return statements.join('; ');
}

export class Engine {
  readonly #dataDir: string;
  readonly #incomingDir: string;
  readonly #native = loadNative();
  /** Files of Join tables that were synced. */
  #synced: ReadonlySet<string> = new Set();
  /** The engine runs as long as one session is open. */
  readonly #anchor: Session;

  /** @throws if another process has the folder open. */
  constructor(dataDir: string) {
    this.#dataDir = resolve(dataDir);
    this.#incomingDir = resolve(dataDir, '..', 'incoming');
    this.#anchor = new Session(this.#dataDir);
    // Files of a killed process; once the engine is open, this process has exclusive access to the folder.
    rmSync(this.#incomingDir, { recursive: true, force: true });
    rmSync(join(this.#dataDir, shadowFolder), { recursive: true, force: true });
    mkdirSync(this.#incomingDir, { recursive: true, mode: 0o700 });
    // The engine looks for an unknown table as a file in the current folder; in this folder, no file has such a name.
    process.chdir(this.#incomingDir);
  }

  /** Names of everything that can be used like a table, followed by brackets. */
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
      if (!names.includes('file')) throw new Error('the engine does not list its table functions');
      return new Set(names);
    } finally {
      session.close();
    }
  }

  /** Runs a query to completion in a thread of the pool and returns the whole result. */
  async query(at: Circumstances, sql: string, format: string): Promise<Uint8Array> {
    return await this.#within(at, async (session) => (await session.queryAsync(sql, { format })).bytes());
  }

  /**
   * Runs a SELECT and yields its result in parts; leaving the iteration early cancels the query. The binding begins it
   * in this thread, which cannot end another stream meanwhile: if that one has a lock for which this one waits, both
   * would wait for the engine's two minutes. So it waits a second for a lock, and fails with DEADLOCK_AVOIDED (473).
   */
  async *stream(at: Circumstances, sql: string, format: string): AsyncGenerator<Uint8Array> {
    const session = new Session(this.#dataDir);
    let parts: ChdbQueryStream | undefined;
    const settings = new Map([...at.settings, ['lock_acquire_timeout', String(STREAM_LOCK_S)]]);
    try {
      await session.queryAsync(preludeOf({ ...at, settings }));
      parts = session.queryStream(sql, { format });
      for await (const part of parts) yield part.raw();
    } finally {
      parts?.cancel();
      session.close();
    }
  }

  /** Runs an INSERT that is entirely SQL (VALUES, SELECT). */
  async insertSql(at: Circumstances, sql: string): Promise<Written> {
    return await this.#insert(at, ' ', Buffer.from(sql));
  }

  /** Runs `INSERT … FORMAT …` with its data. The counts include what views wrote. */
  async insertRows(at: Circumstances, head: InsertHead, body: Buffer): Promise<Written> {
    // The engine would treat a blank line as the end of the data, and what follows as another statement.
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

  /** Cancels a running query. Its caller then gets QUERY_WAS_CANCELLED (394). */
  async kill(queryId: string): Promise<void> {
    const session = new Session(this.#dataDir);
    try {
      await session.queryAsync(`KILL QUERY WHERE Settings['log_comment'] = ${quote(queryId)}`);
    } finally {
      session.close();
    }
  }

  /**
   * Creates a copy of the whole store with hard links, below its shadow folder, and replaces an earlier one of that
   * name. No insert may run at the same time, because a table and its rollups are frozen one after the other. @returns
   * the folder.
   */
  async freeze(name: string): Promise<string> {
    const frozen = join(this.#dataDir, shadowFolder, name);
    await rm(frozen, { recursive: true, force: true });
    const session = new Session(this.#dataDir);
    try {
      const listed = await session.queryAsync(
        "SELECT database, name FROM system.tables WHERE database != 'system' AND engine LIKE '%MergeTree'",
        { format: 'JSONCompactEachRow' },
      );
      const lines = Buffer.from(listed.bytes()).toString().split('\n');
      for (const line of lines.filter((text) => text !== '')) {
        const [database = '', table = ''] = JSON.parse(line) as string[];
        await session.queryAsync(`ALTER TABLE ${quoted(database)}.${quoted(table)} FREEZE WITH NAME ${quote(name)}`);
      }
    } finally {
      session.close();
    }
    completeFrozenStore(this.#dataDir, frozen);
    return frozen;
  }

  /** Syncs the files of tables that the engine does not sync; SYSTEM SYNC FILE CACHE would sync the whole machine. */
  async syncJoinTables(): Promise<void> {
    const session = new Session(this.#dataDir);
    const synced = new Set<string>();
    try {
      const sql = "SELECT arrayJoin(data_paths) FROM system.tables WHERE engine = 'Join'";
      const listed = await session.queryAsync(sql, { format: 'TSV' });
      const paths = Buffer.from(listed.bytes()).toString().split('\n');
      for (const path of paths.filter((text) => text !== '')) {
        const folder = resolve(this.#dataDir, path);
        // A file is written once, by one insert.
        for (const name of await readdir(folder)) {
          const file = join(folder, name);
          if (name.endsWith('.bin') && !this.#synced.has(file)) await syncFile(file);
          synced.add(file);
        }
        await syncFile(folder);
      }
    } finally {
      session.close();
    }
    this.#synced = synced;
  }

  /** Applies to all tables that exist now. A running merge is cancelled and leaves nothing behind. */
  async setMerges(state: 'STOP' | 'START'): Promise<void> {
    const session = new Session(this.#dataDir);
    try {
      await session.queryAsync(`SYSTEM ${state} MERGES`);
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
