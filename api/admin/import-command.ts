/** `npm run admin -- import`: imports a file of links from another service, or undoes an import. */
import { open } from 'node:fs/promises';
import type { Command } from 'commander';
import { insertImport } from '#api/imports/create.ts';
import {
  IMPORT_BYTES_MAX,
  IMPORT_PART_BYTES_MAX,
  type ImportRow,
  type ImportState,
  importColumns,
  importOutcomes,
  workingStates,
} from '#api/imports/import.ts';
import {
  type ColumnChoice,
  ignoredColumns,
  importFields,
  importSources,
  isImportField,
} from '#api/imports/import-columns.ts';
import { ImportWorker } from '#api/imports/import-worker.ts';
import { beginStep } from '#api/imports/steps.ts';
import { storePart } from '#api/imports/upload.ts';
import { Rejection } from '#common/http/rejection.ts';
import { newId } from '#common/ids.ts';
import { hostOf } from '#common/links/web-address.ts';
import { allApps, Tenancy, type TenantQueries } from '#common/stores/tenancy.ts';
import { sleep, systemTime } from '#common/time.ts';
import type { AdminParts } from './accounts.ts';
import type { AdminContext } from './admin-context.ts';
import { AdminError, choose } from './questions.ts';

/** Those of Firebase are only for its exports. */
const fields = importFields.join(', ');
const pauseMs = 500;
const reportRowsMax = 50;

interface ImportOptions {
  readonly app?: string;
  readonly source?: string;
  readonly file?: string;
  readonly host: readonly string[];
  readonly column: readonly string[];
  readonly upgradeHttp?: boolean;
  readonly confirm?: boolean | string;
  readonly undo?: string;
}

const collect = (value: string, before: readonly string[]) => [...before, value];

export function addImportCommand(program: Command, context: AdminContext): void {
  program
    .command('import')
    .description('Import links from another service’s file. Without --confirm, only reports what would happen.')
    .option('--app <id>', 'the app that gets the links')
    .option('--source <name>', `the service: ${importSources.join(', ')}`)
    .option('--file <path>', 'a CSV file in UTF-8')
    .option('--host <host>', 'a host in the file whose codes are taken over to the app’s host; repeatable', collect, [])
    .option('--column <field=column>', 'maps a field to a column, by its header or its number; repeatable', collect, [])
    .option('--upgrade-http', 'change http destinations to https')
    .option('--confirm [import]', 'import the new rows after the dry run, or the new rows of an earlier dry run')
    .option('--undo <import>', 'undo an import')
    .action(async (options: ImportOptions) => {
      const command = new ImportCommand(context.parts(), context.print);
      if (options.undo !== undefined) await command.go(options.undo, 'undoing', 'imported');
      else if (typeof options.confirm === 'string') await command.go(options.confirm, 'importing', 'checked');
      else await command.check(options);
    });
}

class ImportCommand {
  readonly #parts: AdminParts;
  readonly #print: (line: string) => void;
  readonly #tenancy: Tenancy;
  readonly #worker: ImportWorker;

  constructor(parts: AdminParts, print: (line: string) => void) {
    this.#parts = parts;
    this.#print = print;
    this.#tenancy = new Tenancy(parts.db);
    this.#worker = new ImportWorker({
      ...parts,
      tenancy: this.#tenancy,
      log: { warn: () => undefined },
      // Any API process delivers the changes that this process recorded.
      deliverChanges: async () => true,
    });
  }

  async check({ app, source: given, file, host, column, upgradeHttp, confirm }: ImportOptions): Promise<void> {
    if (app === undefined || file === undefined) throw new AdminError('--app and --file are required');
    const source = await choose('--source', given, 'Service', importSources);
    const options = { hosts: host.map(hostNamed), columns: columnsOf(column), upgrade_http: upgradeHttp === true };
    const [owner] = await this.#parts.db.query<{ organization_id: string }>(
      'SELECT organization_id FROM apps WHERE id = $1 AND deleted_at IS NULL',
      [app],
    );
    if (!owner) throw new AdminError(`there is no app ${app}`);
    const within = <T>(work: (tenant: TenantQueries) => Promise<T>) =>
      this.#tenancy.within(allApps([owner.organization_id]), work);
    const nowMs = this.#parts.clock();
    const made = { id: newId('imp', nowMs), app_id: app, source, options, sealed: null };
    const row = await within((tenant) => insertImport(tenant, made, 'admin', nowMs));
    if (!row)
      throw new AdminError('the organization has too many unfinished imports: delete one with DELETE /imports/{id}');
    let number = 0;
    for await (const part of partsOf(file)) {
      const stored = await within((tenant) => storePart(tenant, row.id, ++number, part, this.#parts.clock()));
      if (stored instanceof Rejection) throw new AdminError(stored.message);
    }
    if (number === 0) throw new AdminError(`${file} is empty`);
    await within((tenant) => beginStep(tenant, row.id, 'checking', this.#parts.clock()));
    const checked = await this.#finish(row.id);
    if (checked.state === 'failed') throw new AdminError(`${file} cannot be read: ${checked.problem}`);
    await this.#report(checked);
    if (confirm === true) await this.go(row.id, 'importing', 'checked');
    else this.#print(`Nothing was imported. To import the new rows: npm run admin -- import --confirm ${row.id}`);
  }

  async go(id: string, state: ImportState, from: ImportState): Promise<void> {
    const row = await this.#read(id);
    if (row.state !== from && row.state !== state)
      throw new AdminError(`the state of ${id} is ${row.state}, not ${from}`);
    if (row.state === from)
      await this.#tenancy.within(allApps([row.organization_id]), (tenant) =>
        beginStep(tenant, id, state, this.#parts.clock()),
      );
    const { counts } = await this.#finish(id);
    if (state === 'undoing') this.#print(`${counts.removed ?? 0} links removed, ${counts.kept ?? 0} kept`);
    else this.#print(`${counts.created ?? 0} links imported as ${id}. To undo: npm run admin -- import --undo ${id}`);
  }

  /** Processes the import, or waits for an API process that is processing it. */
  async #finish(id: string): Promise<ImportRow> {
    for (;;) {
      await this.#worker.work(id);
      const row = await this.#read(id);
      if (!workingStates.includes(row.state)) return row;
      await sleep(systemTime, pauseMs);
    }
  }

  async #read(id: string): Promise<ImportRow> {
    const [row] = await this.#parts.db.query<ImportRow>(`SELECT ${importColumns} FROM imports WHERE id = $1`, [id]);
    if (!row) throw new AdminError(`there is no import ${id}`);
    return row;
  }

  async #report({ id, counts, source, layout }: ImportRow): Promise<void> {
    const ignored = ignoredColumns(source, layout);
    if (ignored.length > 0) this.#print(`ignored columns: ${ignored.join(', ')}`);
    this.#print(importOutcomes.map((one) => `${one}: ${counts[one] ?? 0}`).join(', '));
    const rows = await this.#parts.db.query<Record<'line' | 'outcome' | 'field' | 'message', unknown>>(
      `SELECT line, outcome, field, message FROM import_rows WHERE import_id = $1 AND outcome IN ('conflict', 'unsupported')
        ORDER BY number LIMIT ${reportRowsMax}`,
      [id],
    );
    for (const { line, outcome, field, message } of rows) this.#print(`line ${line}: ${outcome}: ${field}: ${message}`);
    const left = (counts.conflict ?? 0) + (counts.unsupported ?? 0) - rows.length;
    if (left > 0) this.#print(`… and ${left} more: GET /v1/imports/${id}/rows`);
  }
}

function hostNamed(text: string): string {
  const host = hostOf(text);
  if (host === null) throw new AdminError(`--host ${text} is not a host name`);
  return host;
}

function columnsOf(given: readonly string[]): ColumnChoice {
  const pairs = given.map((text): [string, string | number | null] => {
    const at = text.indexOf('=');
    if (at < 1) throw new AdminError(`--column ${text} must have the form field=column`);
    const [field, column] = [text.slice(0, at), text.slice(at + 1)];
    if (!isImportField(field))
      throw new AdminError(`--column ${text}: ${field} is not an import field. The fields are: ${fields}`);
    return [field, column === '' ? null : /^\d+$/.test(column) ? Number(column) : column];
  });
  return Object.fromEntries(pairs);
}

async function* partsOf(path: string): AsyncGenerator<Buffer> {
  const file = await open(path).catch((error: unknown) => {
    throw new AdminError(`${path} cannot be read: ${error instanceof Error ? error.message : error}`);
  });
  try {
    const { size } = await file.stat();
    if (size > IMPORT_BYTES_MAX) throw new AdminError(`${path} has more than ${IMPORT_BYTES_MAX} bytes`);
    for (;;) {
      const { bytesRead, buffer } = await file.read(Buffer.alloc(IMPORT_PART_BYTES_MAX), 0, IMPORT_PART_BYTES_MAX);
      if (bytesRead === 0) return;
      yield buffer.subarray(0, bytesRead);
    }
  } finally {
    await file.close();
  }
}
