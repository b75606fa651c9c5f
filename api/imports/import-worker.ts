/**
 * Processes imports: reads files, creates links and undoes imports, in chunks. One chunk is one transaction, which also
 * advances the import's position, so that a process that dies at any moment repeats nothing and skips nothing.
 *
 * One process at a time works on an import: it holds a lease until `worker_until`, and every chunk requires that lease.
 * Dry runs that read from Branch take hours, so a process works on one of them and on one other import at a time, and
 * switches between waiting Branch imports after some chunks. Bounds: two imports at a time per process, `chunkRowsOf`
 * rows per transaction; `import.ts` bounds the file.
 */

import { randomUUID } from 'node:crypto';
import { HOUR_MS } from '#common/durations.ts';
import { firstCharacters } from '#common/first-characters.ts';
import { Worker } from '#common/process/worker.ts';
import { PostgresUnavailable } from '#common/stores/postgres.ts';
import { BranchSilent } from './branch-rows.ts';
import { checkImport } from './check-import.ts';
import { CsvFault } from './csv-records.ts';
import { type ImportRow, importColumns } from './import.ts';
import { createImported, removeImported } from './import-chunks.ts';
import { ImportRun, type ImportWorkerParts, leaseSeconds, NotOurs } from './import-run.ts';

const lookMs = 2_000;
/** Retention of unfinished imports, and of finished ones with their reports. Imported links stay. */
const unfinishedDays = 7;
const finishedDays = 90;
const expiredMax = 5;
/** While Branch does not answer: the pause between attempts, and the time after which the dry run fails. */
const silenceSeconds = 30;
const silenceMsMax = HOUR_MS;

const ownFault = 'The file could not be read because of an internal error; see the service’s log.';

/** Imports that wait for Branch do not delay others. */
const lanes = ['asking', 'other'] as const;
type Lane = (typeof lanes)[number];

interface Wanted {
  readonly worker: string;
  /** Null: any. */
  readonly id: string | null;
  /** Whether its dry run reads from Branch; null: either. */
  readonly asks: boolean | null;
}

/** Chunks of a Branch dry run, about ten seconds; then the next one gets a turn. */
const chunksPerTurn = 5;

const take = `
  UPDATE imports SET worker = $1, worker_until = now() + make_interval(secs => ${leaseSeconds})
   WHERE id = (SELECT id FROM imports
                WHERE state IN ('checking', 'importing', 'undoing') AND (worker_until IS NULL OR worker_until NOT BETWEEN now() AND now() + make_interval(secs => ${2 * Math.max(leaseSeconds, silenceSeconds)}))
                  AND ($2::text IS NULL OR id = $2)
                  AND ($3::boolean IS NULL OR $3 = (state = 'checking' AND coalesce((options ->> 'reads_branch')::boolean, false)))
                ORDER BY updated_at LIMIT 1 FOR UPDATE SKIP LOCKED)
  RETURNING ${importColumns}`;
const giveBack = 'UPDATE imports SET worker = NULL, worker_until = NULL WHERE id = $1 AND worker = $2';
const hold = `UPDATE imports SET worker = NULL, worker_until = now() + make_interval(secs => ${silenceSeconds}) WHERE id = $1 AND worker = $2`;
const expire = `
  DELETE FROM imports WHERE id IN (
    SELECT id FROM imports WHERE updated_at < signpost_deletion_time() - make_interval(days => ${unfinishedDays})
       AND coalesce(stored_at, updated_at) < (SELECT signpost_deletion_time()) - make_interval(days => ${unfinishedDays})
       AND (state IN ('uploading', 'checked', 'failed')
            OR (state IN ('imported', 'undone') AND updated_at < signpost_deletion_time() - make_interval(days => ${finishedDays})))
     ORDER BY updated_at LIMIT ${expiredMax})`;

export class ImportWorker {
  readonly name = 'imports';
  readonly #parts: ImportWorkerParts;
  readonly #workers: Readonly<Record<Lane, string>> = { asking: randomUUID(), other: randomUUID() };
  readonly #loops: Readonly<Record<Lane, Worker>>;
  readonly #stopping = new AbortController();

  constructor(parts: ImportWorkerParts) {
    this.#parts = parts;
    const loop = (lane: Lane) =>
      new Worker({
        ...{
          name: `imports (${lane})`,
          pass: () => this.#pass(lane),
          everyMs: lookMs,
          log: parts.log,
          time: parts.time,
        },
        ...{ failing: 'working on imports failed; retrying', working: 'imports are worked on again' },
      });
    this.#loops = { asking: loop('asking'), other: loop('other') };
  }

  get #isStopped(): boolean {
    return this.#stopping.signal.aborted;
  }

  start(): void {
    if (this.#parts.branch !== undefined) this.#loops.asking.start();
    this.#loops.other.start();
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    await Promise.all(lanes.map((lane) => this.#loops[lane].stop()));
  }

  /** Looks for work now, or after the current one. */
  wake(): void {
    for (const lane of lanes) this.#loops[lane].wake();
  }

  /** Works until there is nothing left to do. Never rejects. */
  async look(lane: Lane = 'other'): Promise<void> {
    await this.#loops[lane].run();
  }

  async #pass(lane: Lane): Promise<void> {
    if (lane === 'asking' && this.#parts.branch?.maySend() === false) return;
    const wanted = { worker: this.#workers[lane], id: null, asks: lane === 'asking' };
    try {
      while (!this.#isStopped && (await this.#workOn(wanted, () => this.#isStopped)));
      if (!this.#isStopped && lane === 'other') await this.#parts.db.execute(expire, [], 'expire_imports');
    } catch (error) {
      if (isTemporary(error)) throw error;
      this.#parts.log.warn({ err: error }, 'an import step failed; retrying');
    }
  }

  /**
   * Works on any import, or on the one with this id, until its state changes.
   * @param isStopped stops after the current chunk; another process continues when the lease ends.
   * @returns false if there is none.
   */
  work(id: string | null = null, isStopped = () => this.#isStopped): Promise<boolean> {
    return this.#workOn({ worker: this.#workers.other, id, asks: null }, isStopped);
  }

  async #workOn({ worker, id, asks }: Wanted, isStopped: () => boolean): Promise<boolean> {
    const { db, deliverChanges } = this.#parts;
    const [row] = await db.query<ImportRow>(take, [worker, id, asks], 'take_import');
    if (!row) return false;
    const turn = { isStopped, signal: this.#stopping.signal, chunksMax: asks === true ? chunksPerTurn : null };
    const run = new ImportRun(this.#parts, worker, turn, row);
    try {
      if (row.state === 'checking') await checkImport(run);
      else if (row.state === 'importing') await createImported(run);
      else await removeImported(run, deliverChanges);
    } catch (error) {
      if (error instanceof NotOurs) return true;
      if (error instanceof BranchSilent && !this.#isStopped) return this.#endureSilence(run, worker, error);
      // A dry run that fails with an internal error would fail again; other steps are retried when the lease ends.
      const problem = error instanceof CsvFault ? firstCharacters(error.message, 2_000).replaceAll('\0', '') : ownFault;
      if (error instanceof CsvFault || (row.state === 'checking' && !isTemporary(error)))
        await run.chunk(async () => ({ state: 'failed', problem }));
      else if (isTemporary(error)) await db.execute(giveBack, [row.id, worker]).catch(() => undefined);
      if (!(error instanceof CsvFault || error instanceof BranchSilent)) throw error;
    }
    if (this.#isStopped || !isStopped()) await db.execute(giveBack, [row.id, worker]);
    return true;
  }

  /** Postpones the import, or fails its dry run if Branch has been silent for too long. */
  async #endureSilence(run: ImportRun, worker: string, { message }: BranchSilent): Promise<true> {
    const { id, updated_at } = run.row;
    if (run.nowMs - updated_at.getTime() < silenceMsMax) await this.#parts.db.execute(hold, [id, worker]);
    else {
      const problem = `Branch has returned no link for an hour: ${message}. Create a new import later.`;
      await run.chunk(async () => ({ state: 'failed', problem }));
    }
    return true;
  }
}

function isTemporary(error: unknown): boolean {
  return error instanceof PostgresUnavailable || error instanceof BranchSilent;
}
