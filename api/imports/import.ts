/**
 * An import as Postgres stores it and as the API returns it.
 *
 *   uploading ──check──▶ checking ──▶ checked ──confirm──▶ importing ──▶ imported ──undo──▶ undoing ──▶ undone
 *                           └──▶ failed: the file cannot be read
 *
 * import-worker.ts does the work of checking, importing and undoing.
 */
import { Type } from 'typebox';
import { absent, refuseWrite, tenantOf } from '#api/access.ts';
import { nothingChanged } from '#api/audit-trail.ts';
import type { ApiDeps } from '#api/deps.ts';
import type { ChangeAnswer, ChangeRequest } from '#api/route.ts';
import { forbidden, notFound, Rejection } from '#common/http/rejection.ts';
import { isId } from '#common/ids.ts';
import { nullable } from '#common/links/link-fields.ts';
import type { TenantQueries } from '#common/stores/tenancy.ts';
import type { Delimiter } from './csv-records.ts';
import { type ColumnChoice, type ImportSource, ignoredColumns, importSources, type Layout } from './import-columns.ts';

export const IMPORT_PART_BYTES_MAX = 4_194_304;
export const IMPORT_PARTS_MAX = 1_000;
export const IMPORT_BYTES_MAX = 134_217_728;
export const IMPORT_ROWS_MAX = 1_000_000;

export const importStates = [
  ...['uploading', 'checking', 'checked', 'failed', 'importing', 'imported', 'undoing', 'undone'],
] as const;
export type ImportState = (typeof importStates)[number];
/** States in which a process works on it. */
export const workingStates: readonly ImportState[] = ['checking', 'importing', 'undoing'];

export interface ImportOptions {
  readonly hosts: readonly string[];
  readonly columns: ColumnChoice;
  readonly upgrade_http: boolean;
  /** The file lists links, which are read from Branch's API. Absent in imports from older versions. */
  readonly reads_branch?: boolean;
}

/** Associated data of the encryption of a Branch key. */
export function branchKeyContext(id: string): string {
  return `branch key of ${id}`;
}

/** Rows that Branch left unanswered in several rounds, with the number of rounds, while it answered others. */
export interface UnansweredRows {
  readonly rows: readonly number[];
  readonly rounds: number;
  /**
   * Nothing after them was answered, so the next round requests another link, which shows whether Branch is answering.
   */
  readonly is_last?: boolean;
}

/** How far the rows of a list of Branch links have been answered. */
export interface BranchProgress {
  readonly unanswered?: UnansweredRows;
  /** The URL of a link that Branch has answered. */
  readonly answered?: string;
}

/** Rows of the dry run in one transaction. Rows that are read from Branch take seconds. */
export function chunkRowsOf({ reads_branch }: ImportOptions): number {
  return reads_branch ? 50 : 500;
}

export const importOutcomes = ['new', 'same', 'conflict', 'unsupported'] as const;
export type ImportOutcome = (typeof importOutcomes)[number];
export const importResults = ['created', 'taken', 'removed', 'kept'] as const;
export type ImportCounts = Readonly<Partial<Record<ImportOutcome | (typeof importResults)[number], number>>>;

export interface ImportRow {
  readonly id: string;
  readonly organization_id: string;
  readonly app_id: string;
  readonly source: ImportSource;
  readonly options: ImportOptions;
  readonly state: ImportState;
  readonly problem: string | null;
  readonly created_by: string;
  readonly created_at: Date;
  readonly updated_at: Date;
  readonly bytes: number;
  readonly parts: number;
  readonly counts: ImportCounts;
  readonly bytes_read: number;
  readonly lines_read: number;
  readonly rows_read: number;
  readonly layout: (Layout & BranchProgress & { readonly delimiter: Delimiter }) | null;
  readonly rows_done: number;
}

export const importColumns = `id, organization_id, app_id, source, options, state, problem, created_by, created_at, updated_at, bytes, parts,
  counts, bytes_read, lines_read, rows_read, layout, rows_done`;

export function importAnswer(row: ImportRow): object {
  const { counts } = row;
  const numbers = <N extends keyof ImportCounts>(names: readonly N[]) =>
    Object.fromEntries(names.map((name) => [name, counts[name] ?? 0]));
  return {
    id: row.id,
    app_id: row.app_id,
    source: row.source,
    ...row.options,
    reads_branch: row.options.reads_branch === true,
    state: row.state,
    problem: row.problem,
    columns_ignored: ignoredColumns(row.source, row.layout, row.options.reads_branch),
    progress: {
      bytes: row.bytes,
      bytes_read: row.bytes_read,
      rows_read: row.rows_read,
      rows_done: row.rows_done,
    },
    parts: row.parts,
    rows: numbers(importOutcomes),
    results: numbers(importResults),
    created_by: row.created_by,
    created_at: row.created_at.toISOString(),
    updated_at: row.updated_at.toISOString(),
  };
}

const count = (description: string) => Type.Integer({ description });
export const sourceSchema = Type.Unsafe<ImportSource>({ type: 'string', enum: [...importSources] });
export const columnsSchema = Type.Unsafe<ColumnChoice>({
  type: 'object',
  additionalProperties: { type: ['string', 'integer', 'null'], minimum: 1, maximum: 1_000, maxLength: 200 },
  maxProperties: 50,
  description:
    'Maps fields to columns of the file whose headers are not recognized: the column’s header, or its number from 1; null ignores the field.',
});
export const importSchema = Type.Object(
  {
    id: Type.String(),
    app_id: Type.String(),
    source: sourceSchema,
    hosts: Type.Array(Type.String()),
    columns: columnsSchema,
    upgrade_http: Type.Boolean(),
    reads_branch: Type.Boolean({ description: 'Whether the links are read from Branch’s API with `branch_key`.' }),
    state: Type.Unsafe<ImportState>({ type: 'string', enum: [...importStates] }),
    problem: nullable(Type.String({ description: 'Why the file cannot be read, if the state is failed.' })),
    columns_ignored: Type.Array(Type.String(), {
      description:
        'Headers of the file that are not used; known once the dry run has started. Map them with `columns` if needed.',
    }),
    progress: Type.Object(
      {
        bytes: count('Size of the file.'),
        bytes_read: count('Bytes that the dry run has read.'),
        rows_read: count('Rows that the dry run has read.'),
        rows_done: count('The last row that was imported or undone.'),
      },
      { title: 'ImportProgress' },
    ),
    parts: count('Uploaded parts of the file.'),
    rows: Type.Object(
      {
        new: count('Rows that will become links.'),
        same: count('Rows whose link already exists, identical to the file.'),
        conflict: count('Rows whose code belongs to a different link, or that contradict an earlier row.'),
        unsupported: count('Rows that cannot be imported.'),
      },
      { title: 'ImportOutcomes' },
    ),
    results: Type.Object(
      {
        created: count('Links that were created.'),
        taken: count('New rows whose code was taken after the dry run.'),
        removed: count('Links that undo removed.'),
        kept: count('Links that undo kept because they had been changed.'),
      },
      { title: 'ImportResults' },
    ),
    created_by: Type.String({ description: 'Id of a user or a server key.' }),
    created_at: Type.String({ format: 'date-time' }),
    updated_at: Type.String({ format: 'date-time' }),
  },
  { title: 'Import' },
);

export const importExample = {
  id: 'imp_01j9z3k4m5n6p7q8r9s0t1v2w3',
  app_id: 'app_01j9z3k4m5n6p7q8r9s0t1v2w3',
  source: 'bitly',
  hosts: [],
  columns: { title: 'Name' },
  upgrade_http: true,
  reads_branch: false,
  state: 'checked',
  problem: null,
  columns_ignored: ['Group'],
  progress: { bytes: 182_044, bytes_read: 182_044, rows_read: 1_000, rows_done: 0 },
  parts: 1,
  rows: { new: 980, same: 0, conflict: 3, unsupported: 17 },
  results: { created: 0, taken: 0, removed: 0, kept: 0 },
  created_by: 'usr_01kzg3v5k2e4z9n7q8w6r5t4y3',
  created_at: '2026-01-15T09:30:00.000Z',
  updated_at: '2026-01-15T09:30:04.000Z',
};

export const importParams = Type.Object({ import_id: Type.String({ examples: [importExample.id] }) });

/** An import of the caller's organizations, or why they can't access it. `lock` locks it until the transaction ends. */
export async function findImport(
  { db }: Pick<ApiDeps, 'db'>,
  tenant: TenantQueries,
  id: string,
  lock = false,
): Promise<ImportRow | Rejection> {
  const sql = `SELECT ${importColumns} FROM imports WHERE organization_id = ANY ($1) AND id = $2`;
  const [row] = await tenant.query<ImportRow>(lock ? `${sql} FOR UPDATE` : sql, [id]);
  if (row) return row;
  const [other] = isId('imp', id)
    ? await db.query<{ organization_id: string; app_id: string }>(
        'SELECT organization_id, app_id FROM imports WHERE id = $1',
        [id],
      )
    : [];
  if (!other) return notFound('There is no import with this id.');
  return tenant.scope.organizationIds.includes(other.organization_id)
    ? absent(tenant, 'app', other.app_id)
    : forbidden('This import belongs to another organization.');
}

/** Locks an import, runs `change`, and returns the API's response. */
export async function changeImport(
  deps: ApiDeps,
  { caller, note }: ChangeRequest,
  id: string,
  change: (tenant: TenantQueries, row: ImportRow) => Promise<ImportRow | Rejection>,
): Promise<ChangeAnswer | Rejection> {
  return deps.tenancy.within(tenantOf(caller), async (tenant) => {
    const row = await findImport(deps, tenant, id, true);
    if (row instanceof Rejection) return row;
    const changed = refuseWrite(caller, row.organization_id) ?? (await change(tenant, row));
    if (changed instanceof Rejection) return changed;
    const noted = changed === row ? nothingChanged : await note(tenant, row);
    return { status: 200, body: importAnswer(changed), noted };
  });
}
