/** Safeguards around the record path: lost frames, the ledger, deletion, shares, restored copies. */
import type { Mutation } from './mutation.ts';

export const mutationsBesideThePath: readonly Mutation[] = [
  {
    without: 'keeping a file with a damaged frame until it is counted',
    file: 'publisher/producer-reader.ts',
    from: 'seen.begun = header.frame_no;\n    this.#noteIn(segment, header);',
    to: 'seen.begun = header.frame_no;',
  },
  {
    without: 'rows in the ledger that Postgres had lost',
    file: 'ingest/recovery.ts',
    from: 'const lines = await held.patiently(() => store.rowsAbove(partition, lastBatchNo, committed));',
    to: 'const lines: never[] = [];',
    test: 'ingest/ledger.live.test.ts',
  },
  {
    without: 'rows in the ledger that a replay had stored before Postgres lost it',
    file: 'ingest/recovery.ts',
    from: 'if (lane !== undefined && first <= set.top) committed.push(lane);',
    to: '',
  },
  {
    without: 'taking back from the ledger what a restore has taken of a partial batch',
    file: 'ingest/partition-batches.ts',
    from: 'const gone = await inDoubt.goneOf(runsOf(fresh), parts.store);',
    to: 'const gone: never[] = [];',
  },
  {
    without: 'partial batches that a replay completes',
    file: 'ingest/in-doubt-frames.ts',
    from: 'this.#partial = known.#partial;',
    to: '',
    test: 'ingest/rows-of-partial-batches.live.test.ts',
  },
  {
    without: 'the deletion clock',
    file: 'ingest/deletion-clock.ts',
    from: 'const paceMax = 2;',
    to: 'const paceMax = 1e9;',
    test: 'ingest/deletion-clock.live.test.ts',
  },
  {
    without: 'giving up holders of shares that have not reported',
    file: 'pg-migrations/0966_shares_without_incarnations.sql',
    from: "OR h.reported_at NOT BETWEEN now() - interval '10 minutes' AND now() + interval '10 minutes')",
    to: ')',
    test: 'redirector/click-limit.live.test.ts',
  },
  {
    without: 'holding what a restored copy would send',
    file: 'common/installation-state.ts',
    from: "this.#secret === 'right' && this.#heldSince === null",
    to: "this.#secret === 'right'",
    test: 'common/installation-state.live.test.ts',
  },
];
