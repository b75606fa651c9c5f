/** Creates the links of an import, and undoes it. */
import { storedFields, typedLinkFields } from '#api/link-records.ts';
import { toJson } from '#common/exact-json.ts';
import { newId } from '#common/ids.ts';
import { linkFieldNames } from '#common/links/link-fields.ts';
import type { TenantQueries } from '#common/stores/tenancy.ts';
import type { ImportedLink } from './import-row.ts';
import type { ImportRun, Progress } from './import-run.ts';

const chunkRows = 500;

const nextRows = `SELECT number, link FROM import_rows
  WHERE organization_id = ANY ($1) AND import_id = $2 AND outcome = 'new' AND number > $3 ORDER BY number LIMIT ${chunkRows}`;
/** A statement that adds other codes must lock the app first: see pg-migrations, link codes. */
const lockApp =
  'SELECT id FROM apps WHERE organization_id = ANY ($1) AND id = $2 AND deleted_at IS NULL FOR NO KEY UPDATE';
const insertion = `
  WITH given AS (SELECT * FROM jsonb_to_recordset($4::jsonb) AS g (id text, created_at timestamptz, clicks_before bigint, ${typedLinkFields})),
       l AS (INSERT INTO links (id, organization_id, app_id, source, created_at, updated_at, clicks_before, ${linkFieldNames.join(', ')})
             SELECT g.id, a.organization_id, a.id, 'import', coalesce(g.created_at, $3), $3, g.clicks_before,
                    ${linkFieldNames.map((name) => `g.${name}`).join(', ')}
               FROM given g JOIN apps a ON a.id = $2 AND a.organization_id = ANY ($1) AND a.deleted_at IS NULL
              ORDER BY g.external_id, g.short_code
             ON CONFLICT DO NOTHING RETURNING id)
  SELECT id FROM l`;
const furtherCodes = `
  INSERT INTO link_codes (organization_id, app_id, code, link_id, created_at)
  SELECT a.organization_id, a.id, c.code, c.link_id, $3
    FROM apps a CROSS JOIN jsonb_to_recordset($4::jsonb) AS c (code text, link_id text)
   WHERE a.organization_id = ANY ($1) AND a.id = $2 ORDER BY c.code
  ON CONFLICT DO NOTHING RETURNING code`;
/** The range keeps the planner from joining every row of the import. */
const keepResults = `
  UPDATE import_rows r SET result = w.result, link_id = w.link_id, stored_at = $3,
         field = coalesce(w.field, r.field), reason = coalesce(w.reason, r.reason), message = coalesce(w.message, r.message)
    FROM jsonb_to_recordset($4::jsonb) AS w (number integer, result text, link_id text, field text, reason text, message text)
   WHERE r.organization_id = ANY ($1) AND r.import_id = $2 AND r.number = w.number AND r.number BETWEEN $5 AND $6`;

interface Given {
  readonly number: number;
  readonly id: string;
  readonly link: ImportedLink;
}

export async function createImported(run: ImportRun): Promise<void> {
  while (run.row.state === 'importing' && !run.isStopped) await run.chunk((tenant) => createChunk(run, tenant));
}

async function createChunk(run: ImportRun, tenant: TenantQueries): Promise<Progress> {
  const { id: importId, app_id, rows_done } = run.row;
  const rows = await tenant.query<Omit<Given, 'id'>>(nextRows, [importId, rows_done]);
  const last = rows.at(-1);
  if (!last) return { state: 'imported' };
  const nowMs = run.nowMs;
  const given = rows.map((row) => ({ ...row, id: newId('lnk', nowMs) }));
  const others = given.flatMap(({ id, link }) => link.codes.slice(1).map((code) => ({ code, link_id: id })));
  if (others.length > 0) await tenant.query(lockApp, [app_id]);
  const now = new Date(nowMs);
  const values = given.map(({ id, link }) => ({
    ...storedFields({ ...link.fields, short_code: link.codes[0] ?? '' }),
    ...{ id, created_at: link.created_at, clicks_before: link.clicks_before },
  }));
  const created = new Set(
    (await tenant.query<{ id: string }>(insertion, [app_id, now, toJson(values)])).map(({ id }) => id),
  );
  const ofCreated = others.filter(({ link_id }) => created.has(link_id));
  const added = await addCodes(tenant, app_id, now, ofCreated);
  const results = given.map((one) => resultOf(one, created, added));
  await tenant.query(keepResults, [importId, now, JSON.stringify(results), rows_done + 1, last.number]);
  return {
    rows_done: last.number,
    added: { created: created.size, taken: given.length - created.size },
  };
}

async function addCodes(
  tenant: TenantQueries,
  appId: string,
  now: Date,
  codes: readonly object[],
): Promise<ReadonlySet<string>> {
  if (codes.length === 0) return new Set();
  const rows = await tenant.query<{ code: string }>(furtherCodes, [appId, now, JSON.stringify(codes)]);
  return new Set(rows.map(({ code }) => code));
}

function resultOf({ number, id, link }: Given, created: ReadonlySet<string>, added: ReadonlySet<string>): object {
  if (!created.has(id)) {
    const message = 'another link got the code, or the external_id, after the dry run';
    return { number, result: 'conflict', field: 'code', reason: 'taken', message };
  }
  const missing = link.codes.slice(1).filter((code) => !added.has(code));
  if (missing.length === 0) return { number, result: 'created', link_id: id };
  const message = `without ${missing.join(', ')}, which another link already has`;
  return { number, result: 'created', link_id: id, field: 'other_codes', reason: 'taken', message };
}

const createdRows = `SELECT number, link_id FROM import_rows
  WHERE organization_id = ANY ($1) AND import_id = $2 AND result = 'created' AND number > $3 ORDER BY number LIMIT ${chunkRows}`;
/** Marked as deleted first, so that counts, tags and announcements are updated as for any deleted link. */
const markDeleted = `
  UPDATE links l SET deleted_at = $3 FROM import_rows r
   WHERE r.organization_id = ANY ($1) AND r.import_id = $2 AND r.number = ANY ($4) AND r.result = 'created'
     AND l.organization_id = r.organization_id AND l.id = r.link_id AND l.updated_at = r.stored_at AND l.deleted_at IS NULL
  RETURNING l.id`;
const remove = 'SELECT signpost_remove_imported($2, $3) WHERE $1::text[] IS NOT NULL';
const keepRemoved = `
  UPDATE import_rows SET result = CASE WHEN link_id = ANY ($3) THEN 'removed' ELSE 'kept' END
   WHERE organization_id = ANY ($1) AND import_id = $2 AND number = ANY ($4)`;

/** Removes the links that have not changed since the import created them. */
export async function removeImported(run: ImportRun, deliverChanges: () => Promise<boolean>): Promise<void> {
  while (run.row.state === 'undoing' && !run.isStopped) {
    await run.chunk((tenant) => removeChunk(run, tenant));
    await deliverChanges();
  }
}

async function removeChunk(run: ImportRun, tenant: TenantQueries): Promise<Progress> {
  const { id: importId, rows_done } = run.row;
  const rows = await tenant.query<{ number: number }>(createdRows, [importId, rows_done]);
  const last = rows.at(-1);
  if (!last) return { state: 'undone' };
  const numbers = rows.map(({ number }) => number);
  const marked = await tenant.query<{ id: string }>(markDeleted, [importId, new Date(run.nowMs), numbers]);
  const ids = marked.map(({ id }) => id);
  await tenant.query(remove, [importId, ids]);
  await tenant.query(keepRemoved, [importId, ids, numbers]);
  return { rows_done: last.number, added: { removed: ids.length, kept: rows.length - ids.length } };
}
