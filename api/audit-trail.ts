/**
 * Records in the audit log who changed what, when and from where. Values are not recorded, because they may be secrets.
 * The row is written after the change is committed and before the response is sent. If the process dies in between,
 * there is no row; if writing the row fails, the response is a 500.
 */
import type { Clock } from '#common/clock.ts';
import type { Trail } from '#common/http/mount.ts';
import { isId } from '#common/ids.ts';
import { isObject } from '#common/json-object.ts';
import type { Postgres } from '#common/stores/postgres.ts';
import { organizationsOf } from './access.ts';
import type { UserCaller } from './route.ts';

/** Maximum field names recorded for one request. */
const FIELDS_MAX = 50;
const TEXT_MAX = 200;

const insertion = `
  INSERT INTO audit_log (organization_id, at, actor_id, actor_name, action, target_id, target_ids, fields, address, request_id)
  SELECT o.id, $2, $3, coalesce((SELECT email FROM users WHERE id = $3), (SELECT name FROM server_keys WHERE id = $3), ''),
         $4, $5, $6, $7, $8, $9 FROM unnest($1::text[]) AS o (id)`;

export function auditTrail(db: Postgres, clock: Clock): Trail {
  return async (operationId, request, answer) => {
    const caller = request.caller as UserCaller | null;
    const body = isObject(request.body) ? request.body : {};
    const params = isObject(request.params) ? request.params : {};
    const query = isObject(request.query) ? request.query : {};
    const result = 'body' in answer && isObject(answer.body) ? answer.body : {};
    const changed = 'body' in answer ? answer.changed : undefined;
    // Requests without a caller are logins, or invitations that were accepted with a new account.
    const actor = caller?.user_id ?? changed?.target_id;
    if (actor === undefined) return;
    const named = [body.organization_id, query.organization_id, result.organization_id];
    const known = changed?.organization_id ?? named.find((one) => typeof one === 'string');
    const ids = [params.id, result.id, params.app_id, body.app_id].filter((one) => typeof one === 'string');
    const note = (organizations: readonly string[], target: string, targets: readonly string[] | null) =>
      db.execute(
        insertion,
        [
          organizations,
          new Date(clock()),
          actor,
          operationId,
          target.slice(0, TEXT_MAX),
          targets,
          fieldsOf(body),
          request.ip,
          request.id,
        ],
        'audit_log',
      );
    if (changed?.targets !== undefined && changed.targets.size > 0) {
      for (const [organization, targets] of changed.targets) await note([organization], '', targets);
      return;
    }
    const organizations =
      typeof known === 'string'
        ? [known]
        : caller === null
          ? await organizationsOfUser(db, actor)
          : await organizationsFor(db, caller, ids);
    await note(organizations, changed?.target_id ?? ids[0] ?? '', null);
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
