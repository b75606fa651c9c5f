import { Type } from 'typebox';
import { tenantOf } from '#api/access.ts';
import { route } from '#api/route.ts';
import { invalid, Rejection } from '#common/http/rejection.ts';
import { nullable } from '#common/links/link-fields.ts';
import { findImport, type ImportOutcome, importOutcomes, importParams } from './import.ts';
import { type RowReason, rowReasons } from './import-row.ts';

const LIMIT_DEFAULT = 100;
const LIMIT_MAX = 1_000;
const results = ['created', 'conflict', 'removed', 'kept'] as const;
type Result = (typeof results)[number];

const example = {
  number: 7,
  line: 8,
  outcome: 'unsupported',
  codes: [],
  field: 'destination',
  reason: 'invalid',
  message: 'must be an https URL; other schemes are not allowed',
  link_id: null,
  result: null,
};

const page = `SELECT number, line, outcome, codes, field, reason, message, link_id, result FROM import_rows
  WHERE organization_id = ANY ($1) AND import_id = $2 AND number > $3 AND ($4::text IS NULL OR outcome = $4)
    AND ($5::text IS NULL OR result = $5) ORDER BY number LIMIT $6`;

export const listImportRows = route({
  method: 'GET',
  path: '/imports/{import_id}/rows',
  operationId: 'listImportRows',
  caller: 'user',
  scope: 'import',
  limit: 'general',
  tag: 'Imports',
  summary: 'List the rows of an import with their outcome',
  description: 'In the order of the file.',
  params: importParams,
  query: Type.Object(
    {
      outcome: Type.Optional(Type.Unsafe<ImportOutcome>({ type: 'string', enum: [...importOutcomes] })),
      result: Type.Optional(
        Type.Unsafe<Result>({ type: 'string', enum: [...results], description: 'What happened to a new row.' }),
      ),
      cursor: Type.Optional(Type.String({ maxLength: 20, description: 'The next_cursor of the previous page.' })),
      limit: Type.Optional(
        Type.Integer({ minimum: 1, description: `At most ${LIMIT_MAX}; default ${LIMIT_DEFAULT}.` }),
      ),
    },
    { additionalProperties: false },
  ),
  answers: {
    200: {
      description: 'A page of rows.',
      schema: Type.Object(
        {
          data: Type.Array(
            Type.Object(
              {
                number: Type.Integer({ description: 'Number of the row, from 1, not counting the header.' }),
                line: Type.Integer({ description: 'Line of the file on which the row ends.' }),
                outcome: Type.Unsafe<ImportOutcome>({ type: 'string', enum: [...importOutcomes] }),
                codes: Type.Array(Type.String()),
                field: nullable(Type.String({ description: 'The field that caused the problem.' })),
                reason: Type.Unsafe<RowReason | null>({ type: ['string', 'null'], enum: [...rowReasons, null] }),
                message: nullable(Type.String()),
                link_id: nullable(
                  Type.String({ description: 'The link that was created, or that already has the code.' }),
                ),
                result: Type.Unsafe<Result | null>({ type: ['string', 'null'], enum: [...results, null] }),
              },
              { title: 'ImportedRow' },
            ),
          ),
          next_cursor: nullable(Type.String({ description: 'null on the last page.' })),
        },
        { title: 'ImportReport' },
      ),
      example: { data: [example], next_cursor: null },
    },
  },
  handle: (deps, { caller, params, query }) =>
    deps.tenancy.within(tenantOf(caller), async (tenant) => {
      const row = await findImport(deps, tenant, params.import_id);
      if (row instanceof Rejection) return row;
      const after = query.cursor === undefined || query.cursor === '' ? 0 : Number(query.cursor);
      if (!Number.isSafeInteger(after) || after < 0 || after > 2 ** 31 - 1)
        return invalid('cursor', 'is not a cursor returned by this list');
      const limit = Math.min(query.limit ?? LIMIT_DEFAULT, LIMIT_MAX);
      const filters = [after, query.outcome ?? null, query.result ?? null, limit + 1];
      const rows = await tenant.query<{ number: number }>(page, [row.id, ...filters]);
      const data = rows.slice(0, limit);
      const last = data.at(-1);
      return { status: 200, body: { data, next_cursor: rows.length > limit && last ? String(last.number) : null } };
    }),
});
