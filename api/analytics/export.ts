/** GET /analytics/export: streams raw records as NDJSON or CSV, with a cursor for each record. */
import { Type } from 'typebox';
import type { Place } from '#api/fair-queue.ts';
import type { UserCaller } from '#api/route.ts';
import {
  type ExportKind,
  type ExportPosition,
  exportColumns,
  exportKinds,
  exportRows,
  exportSettings,
} from '#clickhouse/queries/export.ts';
import { filteredColumns } from '#clickhouse/queries/scope.ts';
import { invalid, Rejection, rateLimited } from '#common/http/rejection.ts';
import { routesOf } from '#common/http/route.ts';
import { rejectionOf } from './ask.ts';
import type { AnalyticsDeps } from './deps.ts';
import { csvLine, type ExportRow, ndjsonLine, readCursor } from './export-lines.ts';
import { commonQuery, oneOf, querySchema } from './parameters.ts';
import { readQuestion } from './question.ts';

const route = routesOf<AnalyticsDeps, UserCaller>();
const formats = ['ndjson', 'csv'] as const;
type Format = (typeof formats)[number];
/** Columns by which matches can be filtered. */
const matchFilters: ReadonlySet<string> = new Set(['app_id', 'link_id', 'platform', 'browser', 'match_type', 'tag']);
/** Maximum wait for a slot; clients time out after a longer silence. */
const placePatienceMs = 20_000;
const contentTypes = { ndjson: 'application/x-ndjson', csv: 'text/csv; charset=utf-8' } as const;

export const exportRecords = route({
  method: 'GET',
  path: '/analytics/export',
  operationId: 'exportRecords',
  caller: 'user',
  scope: 'analytics:read',
  limit: 'general',
  tag: 'Analytics',
  summary: 'Export raw records',
  description:
    'Streams all records in the range, ordered by app, day, link and time. Each record has a `cursor`. If a stream ends early, repeat the request with the cursor of the last complete record to get the rest. In CSV, every text is quoted, and a text that a spreadsheet would read as a formula gets a leading apostrophe.',
  query: querySchema({
    ...commonQuery,
    kind: Type.Optional(
      oneOf(exportKinds, 'Kind of records; default clicks. opens: links that opened an installed app, by `trigger`.'),
    ),
    format: Type.Optional(oneOf(formats, 'Default ndjson: one JSON object per line.')),
    cursor: Type.Optional(
      Type.String({
        maxLength: 1_000,
        description: 'The cursor of a record of the same kind: returns only the records after it.',
      }),
    ),
  }),
  answers: { 200: { description: 'The records.', contentType: 'application/x-ndjson', otherTypes: ['text/csv'] } },
  async handle(deps, { caller, query }) {
    const { kind = 'clicks', format = 'ndjson' } = query;
    const after = query.cursor === undefined ? null : readCursor(query.cursor, kind);
    if (query.cursor !== undefined && after === null) return invalid('cursor', 'is not a cursor returned by an export');
    if (typeof after === 'string') return invalid('cursor', `belongs to an export of ${after}, not of ${kind}`);
    const asked = await readQuestion(deps, caller, query);
    if (asked instanceof Rejection) return asked;
    const { scope } = asked;
    const foreign = kind === 'matches' ? filteredColumns(scope).find((column) => !matchFilters.has(column)) : undefined;
    if (foreign !== undefined) return invalid(foreign, 'cannot be used to filter matches');
    const place = await deps.analytics.exports.enter(scope.organization_ids[0] ?? caller.user_id, placePatienceMs);
    if (place === null) return rateLimited(10);
    const rest = lines(deps, kind, format, exportRows(kind, scope, after), after);
    try {
      // Most failures occur here, while the response status can still be set.
      const first = await rest.next();
      return {
        status: 200,
        contentType: contentTypes[format],
        headers: { 'Content-Disposition': `attachment; filename="${kind}.${format}"` },
        stream: holding(place, first, rest),
      };
    } catch (error) {
      place.leave();
      return rejectionOf(error);
    }
  },
});

async function* holding<T>(
  place: Place,
  first: IteratorResult<T, void>,
  rest: AsyncGenerator<T, void>,
): AsyncGenerator<T> {
  try {
    if (first.done !== true) yield first.value;
    yield* rest;
  } finally {
    place.leave();
    await rest.return();
  }
}

async function* lines(
  { analytics }: AnalyticsDeps,
  kind: ExportKind,
  format: Format,
  { sql, params }: ReturnType<typeof exportRows>,
  after: ExportPosition | null,
): AsyncGenerator<Uint8Array, void> {
  const columns = exportColumns[kind];
  // A continued CSV already has its header.
  let head = format === 'csv' && after === null ? `${columns.join(',')},cursor\r\n` : '';
  const lineOf = format === 'csv' ? csvLine : ndjsonLine;
  for await (const lot of analytics.clickhouse.stream<ExportRow>(sql, params, exportSettings)) {
    yield Buffer.from(head + lot.map((row) => lineOf(kind, columns, row)).join(''));
    head = '';
  }
  if (head !== '') yield Buffer.from(head);
}
