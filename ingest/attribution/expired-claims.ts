/** Deletes claims whose attribution window has ended, a bounded number at a time. */
import type { Queries } from '#common/stores/postgres.ts';

const STEP_ROWS = 5_000;
const STEPS_MAX = 20;

export class ExpiredClaims {
  readonly #postgres: Queries;

  constructor(postgres: Queries) {
    this.#postgres = postgres;
  }

  /** @returns how many were deleted; if there are more, the next call deletes them. @throws PostgresUnavailable */
  async delete(stepRows = STEP_ROWS, stepsMax = STEPS_MAX): Promise<number> {
    let deleted = 0;
    for (let step = 0; step < stepsMax; step++) {
      const rows = await this.#postgres.execute(
        `DELETE FROM claims WHERE click_id IN (
           SELECT click_id FROM claims WHERE expires_at < signpost_deletion_time() ORDER BY expires_at LIMIT $1 FOR UPDATE SKIP LOCKED)`,
        [stepRows],
        'delete_expired_claims',
      );
      deleted += rows;
      if (rows < stepRows) break;
    }
    return deleted;
  }
}
