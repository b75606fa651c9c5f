/** Counters of all sinks of a process, since its start. */
export interface SinkCounters {
  batches: number;
  rows: number;
  dead_letters: number;
  retries: number;
  refusals: number;
  in_doubt: number;
  in_doubt_stored: number;
  in_doubt_partial: number;
  in_doubt_discarded: number;
  filled_rollups: number;
  /** Rollups that have a batch whose raw rows are lost: an operator must rebuild them. */
  rollups_ahead: number;
  /** Rows that were already stored when their frames were delivered. */
  stored_before: number;
  /**
   * Frames below a publisher's oldest whose commits Postgres had lost; and the click frames among them that have no
   * row.
   */
  frames_closed: number;
  frames_missing: number;
  /** Takeovers that found batches in ClickHouse that Postgres did not know. */
  lost_commits: number;
  /** Events that were attributed after their install arrived. */
  learned: number;
  learned_refused: number;
  /** Lanes that were silent for so long that their marks had to be looked up. */
  marks_recalled: number;
}

export function newSinkCounters(): SinkCounters {
  return {
    batches: 0,
    rows: 0,
    dead_letters: 0,
    retries: 0,
    refusals: 0,
    in_doubt: 0,
    in_doubt_stored: 0,
    in_doubt_partial: 0,
    in_doubt_discarded: 0,
    filled_rollups: 0,
    rollups_ahead: 0,
    stored_before: 0,
    frames_closed: 0,
    frames_missing: 0,
    lost_commits: 0,
    learned: 0,
    learned_refused: 0,
    marks_recalled: 0,
  };
}
