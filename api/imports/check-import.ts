/** The dry run: reads the file from where it stopped, and stores what importing each row would do. */
import { toJson } from '#common/exact-json.ts';
import { BranchSilent, branchRows } from './branch-rows.ts';
import {
  bytesBefore,
  CsvFault,
  type CsvRecord,
  csvRecords,
  delimiterOf,
  firstLineOf,
  separatorOf,
} from './csv-records.ts';
import {
  type BranchProgress,
  chunkRowsOf,
  IMPORT_ROWS_MAX,
  type ImportCounts,
  type ImportRow,
  importOutcomes,
} from './import.ts';
import { layoutOf } from './import-columns.ts';
import type { ImportApp, ImportedLink, ReadOptions, RowFault } from './import-row.ts';
import type { ImportRun } from './import-run.ts';
import { readRow } from './link-reader.ts';
import { readOwnRow } from './own-links.ts';
import { type DecidedRow, decideRows } from './row-outcomes.ts';

/** Few rows are as large as a row may be. */
const CHUNK_BYTES_MAX = 8_388_608;

const appOf = `
  SELECT id, organization_id, host, coalesce(settings ->> 'codes_ignore_case', '') = 'true' AS ignores_case,
         ios ->> 'bundle_id' AS bundle_id, ios ->> 'app_store_id' AS app_store_id, android ->> 'package_name' AS package_name
    FROM apps WHERE organization_id = ANY ($1) AND id = $2 AND deleted_at IS NULL`;
const store = `
  INSERT INTO import_rows (import_id, organization_id, app_id, number, line, outcome, codes, field, reason, message, link, link_id)
  SELECT $2, a.organization_id, a.id, r.number, r.line, r.outcome, r.codes, r.field, r.reason, r.message, r.link, r.link_id
    FROM apps a CROSS JOIN jsonb_to_recordset($4::jsonb) AS r (number integer, line integer, outcome text, codes text[], field text,
         reason text, message text, link jsonb, link_id text)
   WHERE a.organization_id = ANY ($1) AND a.id = $3`;
/** A code that a row lists twice counts once. */
const storeCodes = `
  INSERT INTO import_codes (import_id, organization_id, app_id, code, is_external_id, number)
  SELECT $2, a.organization_id, a.id, c.code, c.is_external_id, r.number
    FROM apps a CROSS JOIN jsonb_to_recordset($4::jsonb) AS r (number integer, outcome text, codes text[], link jsonb)
   CROSS JOIN LATERAL (SELECT unnest(r.codes) AS code, false AS is_external_id
                       UNION ALL SELECT r.link -> 'fields' ->> 'external_id', true) AS c
   WHERE a.organization_id = ANY ($1) AND a.id = $3 AND r.outcome = 'new' AND c.code IS NOT NULL
  ON CONFLICT DO NOTHING`;
const dropCodes = 'DELETE FROM import_codes WHERE organization_id = ANY ($1) AND import_id = $2';

export async function checkImport(run: ImportRun): Promise<void> {
  const app = await importApp(run);
  await readLayout(run);
  const { layout } = run.row;
  if (layout === null) throw new CsvFault('The file is empty.');
  const { source, options, bytes_read, lines_read } = run.row;
  const reading = { source, layout, app, hosts: options.hosts, upgradesHttp: options.upgrade_http };
  const from = { bytes: bytes_read, line: lines_read };
  let records: CsvRecord[] = [];
  for await (const record of csvRecords(bytesOf(run, bytesBefore(from)), from, layout.delimiter)) {
    records.push(record);
    if (records.length < chunkRowsOf(options) && record.bytes - run.row.bytes_read < CHUNK_BYTES_MAX) continue;
    await readRecords(run, reading, records);
    records = [];
    if (run.isStopped) return;
  }
  if (records.length > 0) await readRecords(run, reading, records);
  await run.chunk(async (tenant) => {
    await tenant.query('DELETE FROM import_parts WHERE organization_id = ANY ($1) AND import_id = $2', [run.row.id]);
    await tenant.query(dropCodes, [run.row.id]);
    return { state: 'checked', bytes_read: run.row.bytes };
  });
}

async function importApp(run: ImportRun): Promise<ImportApp> {
  const [app] = await run.within((tenant) => tenant.query<ImportApp>(appOf, [run.row.app_id]));
  if (!app) throw new CsvFault('The app was deleted.');
  return app;
}

/** Read from the first record, which is the header unless it contains data. */
async function readLayout(run: ImportRun): Promise<void> {
  if (run.row.layout !== null) return;
  const start = { bytes: 0, line: 0 };
  const delimiter = delimiterOf(await firstLineOf(bytesOf(run, 0)));
  let before = {};
  for await (const record of csvRecords(bytesOf(run, 0), start, delimiter)) {
    if (isSeparatorLine(record, before)) {
      before = { bytes_read: record.bytes, lines_read: record.line };
      continue;
    }
    if (record.cells.some((cell) => /[\0\ufffd]/.test(cell))) throw new CsvFault('The first line is not valid UTF-8.');
    const { source, options } = run.row;
    const layout = layoutOf(source, record.cells, options.columns, options.reads_branch);
    if (typeof layout === 'string') throw new CsvFault(layout);
    const read = layout.hasHeader ? { bytes_read: record.bytes, lines_read: record.line } : before;
    await run.chunk(async () => ({ layout: { ...layout, delimiter }, ...read }));
    return;
  }
}

/** Excel writes, and reads, a first line that names the separator. */
function isSeparatorLine({ cells }: CsvRecord, before: object): boolean {
  return Object.keys(before).length === 0 && separatorOf(cells.join('')) !== null;
}

/** The bytes of the uploaded file from a position on, one part at a time. */
async function* bytesOf(run: ImportRun, from: number): AsyncGenerator<Uint8Array> {
  const sizes = await run.within((tenant) =>
    tenant.query<{ number: number; size: number }>(
      'SELECT number, octet_length(bytes) AS size FROM import_parts WHERE organization_id = ANY ($1) AND import_id = $2 ORDER BY number',
      [run.row.id],
    ),
  );
  let start = 0;
  for (const { number, size } of sizes) {
    const skipped = Math.max(0, from - start);
    start += size;
    if (skipped >= size) continue;
    const [part] = await run.within((tenant) =>
      tenant.query<{ bytes: Buffer }>(
        'SELECT bytes FROM import_parts WHERE organization_id = ANY ($1) AND import_id = $2 AND number = $3',
        [run.row.id, number],
      ),
    );
    if (part) yield part.bytes.subarray(skipped);
  }
}

async function readRecords(
  run: ImportRun,
  reading: Omit<ReadOptions, 'nowMs'>,
  records: readonly CsvRecord[],
): Promise<void> {
  if (run.row.rows_read + records.length > IMPORT_ROWS_MAX)
    throw new CsvFault(`The file has more than ${IMPORT_ROWS_MAX} rows.`);
  await importApp(run);
  const options = { ...reading, nowMs: run.nowMs };
  const read = reading.layout.own ? readOwnRow : readRow;
  if (!run.row.options.reads_branch)
    return storeRows(
      run,
      reading.app,
      records,
      records.map(({ cells }) => run.readOrReport(() => read(cells, options))),
    );
  const { links, silence, progress } = await branchRows(run, records, options);
  const layout = progress === undefined ? run.row.layout : withProgress(run.row.layout, progress);
  if (links.length > 0) await storeRows(run, reading.app, records.slice(0, links.length), links, layout);
  else if (progress !== undefined) await run.chunk(async () => ({ layout }));
  if (silence !== null) throw new BranchSilent(silence);
}

function withProgress(layout: ImportRow['layout'], progress: BranchProgress): ImportRow['layout'] {
  if (layout === null) return null;
  const { answered: _, unanswered: __, ...rest } = layout;
  return { ...rest, ...progress };
}

function storeRows(
  run: ImportRun,
  app: ImportApp,
  records: readonly CsvRecord[],
  links: readonly (ImportedLink | RowFault)[],
  layout = run.row.layout,
): Promise<void> {
  const first = run.row.rows_read + 1;
  const last = records.at(-1);
  if (!last) throw new Error('a chunk has no rows');
  const rows = records.map(({ line }, at) => {
    const link = links[at];
    if (!link) throw new Error('a record was not read');
    return { number: first + at, line, link };
  });
  return run.chunk(async (tenant) => {
    const decided = await decideRows(tenant, app, run.row.id, rows, run.nowMs);
    const stored = [run.row.id, app.id, toJson(decided)];
    await tenant.query(store, stored);
    await tenant.query(storeCodes, stored);
    return {
      bytes_read: last.bytes,
      lines_read: last.line,
      rows_read: first + records.length - 1,
      layout,
      added: countsOf(decided),
    };
  });
}

function countsOf(rows: readonly DecidedRow[]): ImportCounts {
  return Object.fromEntries(importOutcomes.map((one) => [one, rows.filter(({ outcome }) => outcome === one).length]));
}
