/**
 * Records in the audit log who changed what, when and from where. Values are not recorded, because they may be secrets.
 * The row is written after the change is committed and before the response is sent. If that fails, the response is sent
 * anyway, because a client would repeat the change after a 500; the row is tried again for some minutes, and once when
 * the process stops. If the process is killed before, there is no row.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Clock } from '#common/clock.ts';
import { MINUTE_MS, SECOND_MS } from '#common/durations.ts';
import type { Trail } from '#common/http/mount.ts';
import type { Answer, Request } from '#common/http/route.ts';
import { isId } from '#common/ids.ts';
import { isObject } from '#common/json-object.ts';
import type { Log } from '#common/process/telemetry.ts';
import type { Postgres } from '#common/stores/postgres.ts';
import { organizationsOf } from './access.ts';
import type { UserCaller } from './route.ts';

/** Maximum field names recorded for one request. */
const FIELDS_MAX = 50;
const TEXT_MAX = 200;
/** When a row that could not be written is tried again. */
const retryDelaysMs = [SECOND_MS, 5 * SECOND_MS, 30 * SECOND_MS, 2 * MINUTE_MS, 10 * MINUTE_MS];
/** Maximum changes that wait for their rows; further ones are only logged. */
const waitingMax = 1_000;
/** Short enough that a process without Postgres logs the lost rows before it is cut off. */
const stopMs = 3_000;

/** The first attempt may have been stored although it was not answered. */
const insertion = `
  INSERT INTO audit_log (organization_id, at, actor_id, actor_name, action, target_id, target_ids, fields, address, request_id)
  SELECT o.id, $2, $3, coalesce((SELECT email FROM users WHERE id = $3), (SELECT name FROM server_keys WHERE id = $3), ''),
         $4, $5, $6, $7, $8, $9 FROM unnest($1::text[]) AS o (id)
   WHERE NOT $10 OR NOT EXISTS (SELECT FROM audit_log l WHERE l.at = $2 AND l.organization_id = o.id AND l.request_id = $9)`;

interface Change {
  readonly operationId: string;
  readonly atMs: number;
  /** Null for logins, and invitations that were accepted with a new account. */
  readonly caller: UserCaller | null;
  readonly actor: string;
  /** Undefined if the request does not name it. */
  readonly organization: string | undefined;
  /** The ids that the request and its answer name. */
  readonly ids: readonly string[];
  readonly changed: Extract<Answer, { readonly body: unknown }>['changed'];
  readonly fields: readonly string[];
  readonly address: string;
  readonly requestId: string;
}

export class AuditTrail {
  /** Since the start of the process: failed attempts to write a row, and changes that got none. */
  readonly counters = { failures: 0, lost: 0 };
  readonly #db: Postgres;
  readonly #clock: Clock;
  readonly #log: Pick<Log, 'warn'>;
  /** Changes that wait for their next attempt. */
  readonly #waiting = new Map<Change, { readonly attempt: number; readonly timer: NodeJS.Timeout }>();
  /** Later attempts that are running. */
  readonly #retries = new Map<Change, Promise<unknown>>();
  #isStopping = false;

  constructor(db: Postgres, clock: Clock, log: Pick<Log, 'warn'>) {
    this.#db = db;
    this.#clock = clock;
    this.#log = log;
  }

  /** Never rejects. */
  readonly note: Trail = async (operationId, request, answer) => {
    const change = changeOf(operationId, request, answer, this.#clock());
    if (change === null) return;
    try {
      await this.#insert(change, false);
    } catch (err) {
      this.#failed(change, 0, err);
    }
  };

  /** Tries each waiting row once; those that are not written within `limitMs` are lost. Never rejects. */
  async stop(limitMs = stopMs): Promise<void> {
    this.#isStopping = true;
    for (const change of [...this.#waiting.keys()]) this.#retry(change);
    const limit = new AbortController();
    const overdue = sleep(limitMs, undefined, { signal: limit.signal }).catch(() => undefined);
    await Promise.race([Promise.all(this.#retries.values()), overdue]);
    limit.abort();
    for (const change of this.#retries.keys()) this.#lose(change, new Error('Postgres did not answer in time'));
    this.#retries.clear();
  }

  #retry(change: Change): void {
    const waiting = this.#waiting.get(change);
    if (waiting === undefined) return;
    clearTimeout(waiting.timer);
    this.#waiting.delete(change);
    const retry = this.#insert(change, true).then(
      () => this.#retries.delete(change),
      (err: unknown) => {
        // Otherwise, the process is stopping and has counted the row as lost.
        if (this.#retries.delete(change)) this.#failed(change, waiting.attempt, err);
      },
    );
    this.#retries.set(change, retry);
  }

  /** `attempt`: how many failed before. */
  #failed(change: Change, attempt: number, err: unknown): void {
    this.counters.failures++;
    const delayMs = !this.#isStopping && this.#waiting.size < waitingMax ? retryDelaysMs[attempt] : undefined;
    if (delayMs === undefined) {
      this.#lose(change, err);
      return;
    }
    this.#log.warn({ err, ...namesOf(change) }, 'writing a row of the audit log failed; retrying');
    const timer = setTimeout(() => this.#retry(change), delayMs).unref();
    this.#waiting.set(change, { attempt: attempt + 1, timer });
  }

  #lose(change: Change, err: unknown): void {
    this.counters.lost++;
    this.#log.warn({ err, ...namesOf(change) }, 'a row of the audit log could not be written');
  }

  async #insert(change: Change, isRetry: boolean): Promise<void> {
    const { operationId, atMs, caller, actor, organization, ids, changed, fields, address, requestId } = change;
    const db = this.#db;
    const note = (organizations: readonly string[], target: string, targets: readonly string[] | null) =>
      db.execute(
        insertion,
        [
          organizations,
          new Date(atMs),
          actor,
          operationId,
          target.slice(0, TEXT_MAX),
          targets,
          fields,
          address,
          requestId,
          isRetry,
        ],
        'audit_log',
      );
    if (changed?.targets !== undefined && changed.targets.size > 0) {
      for (const [owner, targets] of changed.targets) await note([owner], '', targets);
      return;
    }
    const organizations =
      organization !== undefined
        ? [organization]
        : caller === null
          ? await organizationsOfUser(db, actor)
          : await organizationsFor(db, caller, ids);
    await note(organizations, changed?.target_id ?? ids[0] ?? '', null);
  }
}

/** What the process log may say of a change: no address, which is a person's. */
function namesOf({ operationId, actor, organization, requestId }: Change): object {
  return { operation_id: operationId, actor_id: actor, organization_id: organization, request_id: requestId };
}

/** Without the values of the body. Null if the request has no actor. */
function changeOf(operationId: string, request: Request, answer: Answer, atMs: number): Change | null {
  const caller = request.caller as UserCaller | null;
  const body = isObject(request.body) ? request.body : {};
  const params = isObject(request.params) ? request.params : {};
  const query = isObject(request.query) ? request.query : {};
  const result = 'body' in answer && isObject(answer.body) ? answer.body : {};
  const changed = 'body' in answer ? answer.changed : undefined;
  const actor = caller?.user_id ?? changed?.target_id;
  if (actor === undefined) return null;
  const isText = (one: unknown): one is string => typeof one === 'string';
  const named = [body.organization_id, query.organization_id, result.organization_id].find(isText);
  return {
    ...{ operationId, atMs, caller, actor, changed },
    organization: changed?.organization_id ?? named,
    ids: [params.id, result.id, params.app_id, body.app_id].filter(isText),
    fields: fieldsOf(body),
    address: request.ip,
    requestId: request.id,
  };
}

/** For bulk changes, the fields of `changes` are recorded instead of its name. */
function fieldsOf({ changes, ...body }: Readonly<Record<string, unknown>>): string[] {
  return [...Object.keys(body), ...Object.keys(isObject(changes) ? changes : {})].slice(0, FIELDS_MAX);
}

/** The organization of the app or link; without one, the change is recorded for each of the caller's organizations. */
async function organizationsFor(db: Postgres, caller: UserCaller, ids: readonly string[]): Promise<readonly string[]> {
  const own = organizationsOf(caller);
  if (own.length < 2) return own;
  for (const id of ids) {
    const kind = isId('app', id) ? 'app' : isId('lnk', id) ? 'link' : null;
    if (kind === null) continue;
    const [row] = await db.query<{ owner: string | null }>(`SELECT signpost_owner_of_${kind}($1) AS owner`, [id]);
    if (row?.owner) return [row.owner];
  }
  return own;
}

/** The user of a request that changes an account without being logged in. */
async function organizationsOfUser(db: Postgres, userId: string): Promise<readonly string[]> {
  const sql = 'SELECT organization_id FROM memberships WHERE user_id = $1';
  const rows = await db.query<{ organization_id: string }>(sql, [userId], 'audit_organizations');
  return rows.map(({ organization_id }) => organization_id);
}
