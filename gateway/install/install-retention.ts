/**
 * Deletes, a few at a time, installs that exceed the retention of their rows in ClickHouse, aliases that no attribution
 * window reaches, and audit log rows older than a year, all by signpost_deletion_time(), and no row that is younger by
 * the clock that wrote it. Every SDK edge does this; concurrent runs lock different rows. A device that returns later is
 * a new install.
 */
import { HOUR_MS } from '#common/durations.ts';
import type { Part } from '#common/process/lifecycle.ts';
import { Worker, type WorkerOptions } from '#common/process/worker.ts';
import type { Queries } from '#common/stores/postgres.ts';

const lookMs = HOUR_MS;
/** The longest attribution window. */
const aliasDays = 90;
/**
 * Maximum installs per statement, and the pause before the next one, so that a large backlog does not keep an edge
 * busy.
 */
const stepInstallsMax = 1_000;
const stepPauseMs = 1_000;

export interface InstallRetentionParts {
  readonly db: Queries;
  readonly retentionDays: number;
  readonly log: WorkerOptions['log'];
}

export class InstallRetention implements Part {
  readonly name = 'install retention';
  readonly #parts: InstallRetentionParts;
  readonly #worker: Worker;

  constructor(parts: InstallRetentionParts) {
    this.#parts = parts;
    this.#worker = new Worker({
      ...{ name: this.name, pass: () => this.#pass(), everyMs: lookMs, log: parts.log },
      ...{ failing: 'old installs could not be deleted', working: 'old installs are deleted again' },
    });
  }

  start(): void {
    this.#worker.start();
  }

  async stop(): Promise<void> {
    await this.#worker.stop();
  }

  /** Deletes the oldest installs beyond the retention. @returns how many. @throws PostgresUnavailable */
  async step(installsMax = stepInstallsMax): Promise<number> {
    const { db, retentionDays } = this.#parts;
    return await db.execute(
      `WITH old AS MATERIALIZED (
         SELECT app_id, install_id FROM install_answers
          WHERE created_at < signpost_deletion_time() - make_interval(days => $1)
            AND coalesce(stored_at, created_at) < (SELECT signpost_deletion_time()) - make_interval(days => $1)
          ORDER BY created_at LIMIT $2 FOR UPDATE SKIP LOCKED),
       names AS (DELETE FROM install_names n USING old WHERE n.app_id = old.app_id AND n.install_id = old.install_id)
       DELETE FROM install_answers a USING old WHERE a.app_id = old.app_id AND a.install_id = old.install_id`,
      [retentionDays, installsMax],
    );
  }

  /** Deletes the oldest aliases that were not renewed in time. @returns how many. @throws PostgresUnavailable */
  async stepAliases(aliasesMax = stepInstallsMax): Promise<number> {
    return await this.#parts.db.execute(
      `DELETE FROM device_aliases WHERE ctid = ANY (ARRAY(
         SELECT ctid FROM device_aliases WHERE made_at < signpost_deletion_time() - make_interval(days => $1) ORDER BY made_at LIMIT $2 FOR UPDATE SKIP LOCKED))`,
      [aliasDays, aliasesMax],
    );
  }

  /**
   * Deletes the oldest rows of the audit log that are older than a year.
   * @returns how many.
   * @throws PostgresUnavailable
   */
  async stepAuditLog(rowsMax = stepInstallsMax): Promise<number> {
    const sql = 'SELECT signpost_trim_audit_log($1) AS trimmed';
    const [row] = await this.#parts.db.query<{ trimmed: number }>(sql, [rowsMax]);
    return row?.trimmed ?? 0;
  }

  async #pass(): Promise<number> {
    const forgotten = Math.max(await this.step(), await this.stepAliases(), await this.stepAuditLog());
    return forgotten === stepInstallsMax ? stepPauseMs : lookMs;
  }
}
