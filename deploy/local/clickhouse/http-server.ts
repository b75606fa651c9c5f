/**
 * The parts of ClickHouse's HTTP protocol that its clients use, served by the engine in this process. For one machine:
 * two users, no TLS, loopback only. Rejects browsers, and every statement that Signpost does not send.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { type AnswerFormat, answerFailure, answerParts, answerText, answerWritten } from './answer.ts';
import type { Engine, Written } from './engine.ts';
import { failure, toFailure } from './failure.ts';
import { StatementLane } from './lane.ts';
import { type ClickHouseRequest, readRequest } from './request.ts';
import { isStreamable, readStatement, type Statement } from './statement.ts';
import { checkStatement, type StatementRules } from './statement-rules.ts';
import type { ClickHouseRole, Users } from './users.ts';

export interface ServerLimits {
  readonly bodyBytesMax: number;
  readonly queriesMax: number;
  readonly insertsMax: number;
  readonly waitingMax: number;
}

/** Queries and inserts together stay below the threads of the pool (`threadPoolSize` of spawn). */
export const defaultLimits: ServerLimits = {
  bodyBytesMax: 64 * 1024 * 1024,
  queriesMax: 8,
  insertsMax: 4,
  waitingMax: 128,
};

/** The head of a body is enough to distinguish a query from an INSERT followed by its data. */
const headBytes = 64 * 1024;
const browserOrLoopback = /^(127\.0\.0\.1|localhost|\[::1\])(:\d+)?$/;

/**
 * Browsers send at least one of these headers; to loopback over plain HTTP, they send `Origin` with every POST (Fetch
 * Standard).
 */
function isFromPage({ headers }: IncomingMessage): boolean {
  return headers.origin !== undefined || Object.keys(headers).some((name) => name.startsWith('sec-fetch-'));
}

function singleOf(sql: string): Statement {
  const statement = readStatement(sql);
  if (!statement.isSingle) throw failure(62, 'SYNTAX_ERROR', 'Syntax error: more than one statement in a query');
  return statement;
}

export interface Admission {
  readonly users: Users;
  readonly rules: StatementRules;
}

export class ClickHouseServer {
  readonly #engine: Engine;
  readonly #admission: Admission;
  readonly #limits: ServerLimits;
  readonly #queries: StatementLane;
  readonly #inserts: StatementLane;
  readonly http: Server;

  constructor(engine: Engine, admission: Admission, limits: ServerLimits) {
    this.#engine = engine;
    this.#admission = admission;
    this.#limits = limits;
    this.#queries = new StatementLane(limits.queriesMax, limits.waitingMax);
    this.#inserts = new StatementLane(limits.insertsMax, limits.waitingMax);
    this.http = createServer({ keepAliveTimeout: 10_000, requestTimeout: 120_000, maxHeaderSize: 1024 * 1024 });
    this.http.on('request', (request, response) => void this.#serve(request, response));
  }

  get busy(): number {
    return this.#queries.busy + this.#inserts.busy;
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    response.on('error', () => undefined);
    const url = new URL(request.url ?? '/', 'http://localhost');
    let queryId = url.searchParams.get('query_id') ?? '';
    try {
      if (!browserOrLoopback.test(request.headers.host ?? '') || isFromPage(request)) {
        throw failure(497, 'ACCESS_DENIED', 'Only programs on this machine may send requests');
      }
      const role = this.#admission.users.roleOf(request.headers);
      if (role === null) throw failure(516, 'AUTHENTICATION_FAILED', 'The user or the password is wrong or missing');
      if (url.pathname === '/ping' || url.pathname === '/replicas_status') return answerText(response, 200, 'Ok.\n');
      if (url.pathname === '/freeze') return await this.#freeze(request, role, response);
      if (url.pathname !== '/') return answerText(response, 404, 'This path does not exist.\n');
      if (request.method !== 'GET' && request.method !== 'POST') return answerText(response, 405, 'Use GET or POST.\n');
      const asked = await readRequest(request, url, this.#limits.bodyBytesMax, role === 'reader');
      queryId = asked.at.queryId;
      await this.#run(asked, response);
    } catch (error) {
      // Does not wait for the rest of a rejected body.
      if (!request.complete) response.shouldKeepAlive = false;
      answerFailure(response, queryId, toFailure(error));
    }
  }

  /** Not part of ClickHouse: the online copy with which a backup starts. */
  async #freeze({ method }: IncomingMessage, role: ClickHouseRole, response: ServerResponse): Promise<void> {
    if (method !== 'POST') return answerText(response, 405, 'Use POST.\n');
    if (role === 'reader') throw failure(164, 'READONLY', 'The reader may only SELECT');
    const folder = await this.#inserts.runAlone(() => this.#engine.freeze('backup'));
    answerText(response, 200, `${folder}\n`);
  }

  async #run(asked: ClickHouseRequest, response: ServerResponse): Promise<void> {
    if (asked.urlQuery === '' && asked.body.length === 0) return answerText(response, 200, 'Ok.\n');
    const head = asked.urlQuery === '' ? asked.body.toString('utf8', 0, headBytes) : asked.urlQuery;
    const first = readStatement(head);
    if (first.kind === 'insert') return await this.#insert(asked, response, head, first);
    const sql = `${asked.urlQuery}\n${asked.body}`.trim();
    this.#check(asked, sql);
    const statement = singleOf(sql);
    if (/^system\s+sync\s+file\s+cache$/i.test(sql)) {
      await this.#within(this.#inserts, () => this.#engine.syncJoinTables());
      return answerText(response, 200, '');
    }
    const format = statement.format === '' ? asked.defaultFormat : statement.format;
    const kind: AnswerFormat = { queryId: asked.at.queryId, format, wantsGzip: asked.wantsGzip };
    const isStream = statement.kind === 'select' && isStreamable(format) && !asked.wantsWhole;
    const parts = isStream ? this.#engine.stream(asked.at, sql, format) : this.#whole(asked, sql, format);
    // While the store is frozen, no table may get the files of another.
    const lane = /^(exchange|drop)\s/i.test(sql) ? this.#inserts : this.#queries;
    await this.#within(lane, () => this.#answer(response, kind, parts));
  }

  async #insert(asked: ClickHouseRequest, response: ServerResponse, head: string, statement: Statement) {
    const { at, urlQuery, body } = asked;
    const { format, clauseAt, formatEndsAt } = statement;
    let insert: () => Promise<Written>;
    if (format === '' || format.toLowerCase() === 'values') {
      // The rest is SQL too and must be checked to its end.
      const sql = `${urlQuery}\n${body}`;
      this.#check(asked, sql);
      singleOf(sql);
      insert = () => this.#engine.insertSql(at, sql);
    } else {
      this.#check(asked, head.slice(0, formatEndsAt));
      const parts = { before: head.slice(0, clauseAt), clauses: head.slice(clauseAt, formatEndsAt), format };
      const rest = head.slice(formatEndsAt);
      const rows =
        urlQuery === ''
          ? body.subarray(Buffer.byteLength(head.slice(0, formatEndsAt)))
          : Buffer.concat([Buffer.from(rest.trim() === '' ? '' : rest), body]);
      // Between FORMAT and the data there may be blanks and one line break.
      const gap = /^[ \t\f]*\r?\n?/.exec(rows.toString('latin1', 0, 64))?.[0].length ?? 0;
      insert = () => this.#engine.insertRows(at, parts, urlQuery === '' ? rows.subarray(gap) : rows);
    }
    const written = await this.#within(this.#inserts, insert);
    answerWritten(response, { queryId: at.queryId, format: 'Null', wantsGzip: false }, written);
  }

  /** @throws Failure for a statement that this server, or this user, may not run. */
  #check({ at, defaultFormat }: ClickHouseRequest, sql: string): void {
    const isReader = at.readonly === 1;
    checkStatement(this.#admission.rules, { sql, isReader, defaultFormat, settings: at.settings });
  }

  async *#whole(asked: ClickHouseRequest, sql: string, format: string): AsyncGenerator<Uint8Array> {
    yield await this.#engine.query(asked.at, sql, format);
  }

  /** A client that disconnects cancels its query. */
  async #answer(response: ServerResponse, kind: AnswerFormat, parts: AsyncGenerator<Uint8Array>): Promise<void> {
    if (response.destroyed) return;
    let isRunning = true;
    response.once('close', () => {
      // The engine may reject this if the query has just ended; then there is nothing left to cancel.
      if (isRunning) this.#engine.kill(kind.queryId).catch(() => undefined);
    });
    try {
      await answerParts(response, kind, parts);
    } finally {
      isRunning = false;
    }
  }

  async #within<T>(lane: StatementLane, work: () => Promise<T>): Promise<T> {
    if (lane.isFull) throw failure(202, 'TOO_MANY_SIMULTANEOUS_QUERIES', 'Too many queries are waiting');
    return await lane.run(work);
  }
}
