/**
 * Processes one import, chunk by chunk. Each chunk checks that this process still holds the import, and advances its
 * position.
 */
import type { Clock } from '#common/clock.ts';
import type { Encryption } from '#common/encryption.ts';
import type { Log } from '#common/process/telemetry.ts';
import type { WorkerTime } from '#common/process/worker.ts';
import { type Postgres, PostgresUnavailable } from '#common/stores/postgres.ts';
import { allApps, type Tenancy, type TenantQueries } from '#common/stores/tenancy.ts';
import type { BranchLinks } from './branch-links.ts';
import { chunkRowsOf, type ImportCounts, type ImportRow, importColumns } from './import.ts';
import { fault, type RowFault } from './import-row.ts';

/** Longer than a chunk takes. If the working process dies, another one takes over after this time. */
export const leaseSeconds = 60;

/** What a chunk changes in its import. */
export type Progress = Partial<
  Pick<ImportRow, 'state' | 'problem' | 'bytes_read' | 'lines_read' | 'rows_read' | 'layout' | 'rows_done'>
> & { readonly added?: ImportCounts };

/** Another process has taken over the import, or it was deleted: this process must not touch it again. */
export class NotOurs extends Error {}

export interface ImportWorkerParts {
  readonly db: Postgres;
  readonly tenancy: Tenancy;
  readonly clock: Clock;
  readonly log: Pick<Log, 'warn'> & Partial<Pick<Log, 'info'>>;
  /** Replaced in tests. */
  readonly time?: WorkerTime;
  readonly deliverChanges: () => Promise<boolean>;
  /** Absent: this process does not handle imports from Branch. */
  readonly branch?: {
    readonly links: Pick<BranchLinks, 'ask'>;
    readonly encryption: Encryption;
    /** False in a restored copy. */
    readonly maySend: () => boolean;
  };
}

export interface Stopping {
  readonly isStopped: () => boolean;
  /** Cancels requests that would take seconds. */
  readonly signal: AbortSignal;
  /** After this many chunks another import gets a turn; null: works until the state changes. */
  readonly chunksMax: number | null;
}

export class ImportRun {
  readonly #parts: ImportWorkerParts;
  readonly #worker: string;
  readonly #stopping: Stopping;
  row: ImportRow;
  /** Chunks of an import that takes turns, including those of earlier turns. */
  #chunks: number;
  readonly #chunksBefore: number;

  constructor(parts: ImportWorkerParts, worker: string, stopping: Stopping, row: ImportRow) {
    this.#parts = parts;
    this.#worker = worker;
    this.#stopping = stopping;
    this.row = row;
    this.#chunks = stopping.chunksMax === null ? 0 : Math.floor(row.rows_read / chunkRowsOf(row.options));
    this.#chunksBefore = this.#chunks;
  }

  /** Checked after each chunk. */
  get isStopped(): boolean {
    const { isStopped, chunksMax } = this.#stopping;
    return isStopped() || (chunksMax !== null && this.#chunks - this.#chunksBefore >= chunksMax);
  }

  get signal(): AbortSignal {
    return this.#stopping.signal;
  }

  get branch(): ImportWorkerParts['branch'] {
    return this.#parts.branch;
  }

  get nowMs(): number {
    return this.#parts.clock();
  }

  /** Reads a row. A row that fails because of an internal error is reported, and does not abort the dry run. */
  readOrReport<T>(read: () => T | RowFault): T | RowFault {
    try {
      return read();
    } catch (err) {
      this.#parts.log.warn({ err, import: this.row.id }, 'a row of an import could not be read');
      return fault('row', 'not_read', 'could not be read because of an internal error; see the service’s log');
    }
  }

  within<T>(work: (tenant: TenantQueries) => Promise<T>): Promise<T> {
    return this.#parts.tenancy.within(allApps([this.row.organization_id]), work);
  }

  /** Runs `work` and stores the progress that it returns, in one transaction. */
  async chunk(work: (tenant: TenantQueries) => Promise<Progress>): Promise<void> {
    await this.#analyzeTables();
    this.row = await this.within(async (tenant) => {
      const [before] = await tenant.query<{ counts: ImportCounts }>(
        `SELECT counts FROM imports WHERE organization_id = ANY ($1) AND id = $2 AND worker = $3 AND state = $4 FOR UPDATE`,
        [this.row.id, this.#worker, this.row.state],
      );
      if (!before) throw new NotOurs();
      const { added = {}, ...progress } = await work(tenant);
      const counts: Record<string, number> = { ...before.counts };
      for (const [name, count] of Object.entries(added)) counts[name] = (counts[name] ?? 0) + count;
      const { state, problem, bytes_read, lines_read, rows_read, layout, rows_done } = { ...this.row, ...progress };
      const [after] = await tenant.query<ImportRow>(
        `UPDATE imports SET state = $3, problem = $4, bytes_read = $5, lines_read = $6, rows_read = $7, layout = $8, rows_done = $9,
                branch_key_ciphertext = CASE WHEN $3 = 'checking' THEN branch_key_ciphertext END,
                counts = $10, updated_at = $11, worker_until = now() + make_interval(secs => ${leaseSeconds})
          WHERE organization_id = ANY ($1) AND id = $2 RETURNING ${importColumns}`,
        [
          ...[this.row.id, state, problem, bytes_read, lines_read, rows_read],
          ...[layout === null ? null : JSON.stringify(layout), rows_done, JSON.stringify(counts), new Date(this.nowMs)],
        ],
      );
      if (!after) throw new NotOurs();
      return after;
    });
  }

  /**
   * Runs ANALYZE each time the number of rows has doubled, so that statements are planned for the actual size. If it
   * fails, statements only take longer.
   */
  async #analyzeTables(): Promise<void> {
    const done = this.#chunks++;
    if (done !== 0 && (done & (done - 1)) !== 0) return;
    const analyzed = this.within((tenant) =>
      tenant.query('SELECT signpost_analyze_imports() WHERE $1::text[] IS NOT NULL', []),
    );
    await analyzed.catch((error: unknown) => {
      if (!(error instanceof PostgresUnavailable)) throw error;
    });
  }
}
