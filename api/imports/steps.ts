/** The steps of an import that its owner triggers. Each starts work that import-worker.ts does. */
import { changingRoute } from '#api/route.ts';
import { invalid, type Rejection } from '#common/http/rejection.ts';
import type { TenantQueries } from '#common/stores/tenancy.ts';
import {
  changeImport,
  type ImportRow,
  type ImportState,
  importColumns,
  importExample,
  importParams,
  importSchema,
} from './import.ts';

interface Step {
  readonly name: string;
  readonly operationId: string;
  readonly from: ImportState;
  readonly to: ImportState;
  /** The state after the step was taken, in which repeating it changes nothing. */
  readonly done: ImportState;
  readonly summary: string;
  readonly description: string;
  readonly refuse?: (tenant: TenantQueries, row: ImportRow) => Promise<Rejection | null>;
}

const begin = `UPDATE imports SET state = $3, rows_done = 0, updated_at = $4, worker = NULL, worker_until = NULL
  WHERE organization_id = ANY ($1) AND id = $2 RETURNING ${importColumns}`;
const lastPart =
  'SELECT coalesce(max(number), 0) AS last FROM import_parts WHERE organization_id = ANY ($1) AND import_id = $2';

export async function beginStep(
  tenant: TenantQueries,
  id: string,
  state: ImportState,
  nowMs: number,
): Promise<ImportRow> {
  const [begun] = await tenant.query<ImportRow>(begin, [id, state, new Date(nowMs)]);
  if (!begun) throw new Error('an import that is locked was not updated');
  return begun;
}

async function refuseGaps(tenant: TenantQueries, { id, parts }: ImportRow): Promise<Rejection | null> {
  const [found] = await tenant.query<{ last: number }>(lastPart, [id]);
  if (parts === 0) return invalid('parts', 'no part of the file was uploaded');
  return found?.last === parts
    ? null
    : invalid('parts', `${parts} parts were uploaded, and the last is ${found?.last}`);
}

function stepRoute({ name, operationId, from, to, done, summary, description, refuse }: Step) {
  return changingRoute({
    method: 'POST',
    path: `/imports/{import_id}/${name}`,
    operationId,
    caller: 'user',
    scope: 'import',
    limit: 'general',
    tag: 'Imports',
    summary,
    description,
    params: importParams,
    answers: { 200: { description: 'The import.', schema: importSchema, example: { ...importExample, state: to } } },
    async handle(deps, { caller, note, params }) {
      const answer = await changeImport(deps, { caller, note }, params.import_id, async (tenant, row) => {
        if (row.state === to || row.state === done) return row;
        if (row.state !== from) return invalid('import_id', `is an import whose state is ${row.state}, not ${from}`);
        const refused = await refuse?.(tenant, row);
        if (refused) return refused;
        return beginStep(tenant, row.id, to, deps.clock());
      });
      deps.wakeImports();
      return answer;
    },
  });
}

export const checkImportRoute = stepRoute({
  name: 'check',
  operationId: 'checkImport',
  from: 'uploading',
  to: 'checking',
  done: 'checked',
  summary: 'Check the file (dry run)',
  description:
    'Reads the uploaded file and reports what importing each row would do. Creates no links. Poll GET /imports/{import_id} until the state is checked, or failed with a problem.',
  refuse: refuseGaps,
});

export const confirmImport = stepRoute({
  name: 'confirm',
  operationId: 'confirmImport',
  from: 'checked',
  to: 'importing',
  done: 'imported',
  summary: 'Import the new rows',
  description:
    'Creates the links of all rows whose outcome is new. Continues after a restart of the service. Poll GET /imports/{import_id} until the state is imported.',
});

export const undoImport = stepRoute({
  name: 'undo',
  operationId: 'undoImport',
  from: 'imported',
  to: 'undoing',
  done: 'undone',
  summary: 'Undo an import',
  description:
    'Removes the links that the import created, except links that were changed since. Codes of removed links can be imported again. Their clicks stay in the app’s statistics. Possible for 90 days.',
});
