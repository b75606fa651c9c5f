/**
 * Records in the audit log who changed what, when and from where. Values are not recorded, because they may be secrets.
 * The row is part of the change's transaction: either both are stored, or neither. A request that changed things in
 * several organizations has one row in each of them.
 */
import type { Request } from '#common/http/route.ts';
import { isObject } from '#common/json-object.ts';
import type { Queries } from '#common/stores/postgres.ts';
import type { TenantQueries } from '#common/stores/tenancy.ts';

/** Maximum field names recorded for one request. */
const FIELDS_MAX = 50;
const TEXT_MAX = 200;

/** Required in the answer to a change. Only `note` and `nothingChanged` make one. */
export class Noted {
  readonly isNoted = true;
  private constructor() {}
  static readonly one = new Noted();
}

/** For a request that succeeds although there was nothing to change. */
export const nothingChanged = Noted.one;

export interface Change {
  /** Null: it is the user's own account, which each of their organizations sees. */
  readonly organization_id: string | null;
  /** Of the changed object; empty if it has none. */
  readonly id: string;
  /** Of a request that may change several: their ids. */
  readonly ids?: readonly string[];
  /** Who makes the change, if they are not logged in. */
  readonly actor?: string;
}

/** Adds the row to the transaction of the change. @throws if it cannot be added, which undoes the change. */
export type Note = (transaction: Queries | TenantQueries, change: Change) => Promise<Noted>;

/** The note of a request that has been validated. */
export function noteOf(operationId: string, request: Request): Note {
  const { caller, id: requestId, ip, body } = request;
  const actorOfRequest = isObject(caller) && typeof caller['user_id'] === 'string' ? caller['user_id'] : undefined;
  const fields = fieldsOf(isObject(body) ? body : {});
  return async (transaction, { organization_id, id, ids = null, actor = actorOfRequest }) => {
    if (actor === undefined) throw new Error(`no actor is given for the change ${operationId}`);
    const values = [organization_id, actor, operationId, id.slice(0, TEXT_MAX), ids, fields, ip, requestId];
    const rows = await ('scope' in transaction
      ? transaction.query(insertionOfTenant, values)
      : transaction.query(insertion, values));
    if (rows.length !== 1) throw new Error(`the change ${operationId} is in an organization outside its transaction`);
    return Noted.one;
  };
}

const insertion = 'SELECT signpost_note_change($1, $2, $3, $4, $5, $6, $7, $8)';
const insertionOfTenant = 'SELECT signpost_note_change($2, $3, $4, $5, $6, $7, $8, $9) WHERE $2 = ANY ($1)';

/** For bulk changes, the fields of `changes` are recorded instead of its name. */
function fieldsOf({ changes, ...body }: Readonly<Record<string, unknown>>): string[] {
  return [...Object.keys(body), ...Object.keys(isObject(changes) ? changes : {})].slice(0, FIELDS_MAX);
}
