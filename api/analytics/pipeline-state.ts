/**
 * The state of the pipeline from a visit to the statistics, as far as the API knows it. State that only the recording
 * machines know, such as the size of their journals, is in their metrics.
 */
import { Type } from 'typebox';
import type { Postgres } from '#common/stores/postgres.ts';
import type { LogState } from './log-state.ts';

/** After this time without a report, a machine counts as silent; ingest records progress several times a second. */
const silentSeconds = 60;

export interface PipelineState {
  /** Machines that record clicks and events. */
  readonly machines: { readonly count: number; readonly silent: number };
  /** Log partitions, how many of them have an owner, and the number of owners. */
  readonly storing: { readonly parts: number; readonly owned: number; readonly processes: number };
  /** Null if unknown. */
  readonly log: LogState | null;
}

const question = `
  SELECT (SELECT count(*)::int FROM ingest.progress) AS machines,
         (SELECT count(*)::int FROM ingest.progress
           WHERE updated_at NOT BETWEEN now() - make_interval(secs => $1) AND now() + make_interval(secs => $1)) AS silent,
         (SELECT count(*)::int FROM ingest.lease) AS parts,
         (SELECT count(*)::int FROM ingest.lease WHERE signpost_is_live(expires_at)) AS owned,
         (SELECT count(DISTINCT owner)::int FROM ingest.lease WHERE signpost_is_live(expires_at)) AS processes`;

interface Row {
  readonly machines: number;
  readonly silent: number;
  readonly parts: number;
  readonly owned: number;
  readonly processes: number;
}

export function pipelineStateFrom(
  db: Pick<Postgres, 'query'>,
  logState: () => Promise<LogState | null>,
): () => Promise<PipelineState> {
  return async () => {
    const [[row], log] = await Promise.all([db.query<Row>(question, [silentSeconds], 'trust_pipeline'), logState()]);
    if (!row) throw new Error('a query of counts answered no row');
    const { machines, silent, parts, owned, processes } = row;
    return { machines: { count: machines, silent }, storing: { parts, owned, processes }, log };
  };
}

export const pipelineSchema = Type.Object(
  {
    machines: Type.Object(
      {
        count: Type.Integer(),
        silent: Type.Integer({ description: 'Machines that have not reported their progress in the last minute.' }),
      },
      { description: 'Machines that record clicks and events.' },
    ),
    storing: Type.Object(
      {
        parts: Type.Integer(),
        owned: Type.Integer({ description: 'Parts that a process is storing now.' }),
        processes: Type.Integer(),
      },
      { description: 'Partitions of the log, and the processes that store them.' },
    ),
    log: Type.Union(
      [
        Type.Object({
          bytes: Type.Integer({
            description: 'Records that are already stored are kept until the log is about three quarters full.',
          }),
          bytes_max: Type.Integer(),
          copies: Type.Integer(),
          copies_current: Type.Integer({ description: 'Replicas that are up to date.' }),
        }),
        Type.Null(),
      ],
      { description: 'The log between the machines and the database. null: the API has no access to it.' },
    ),
  },
  { title: 'PipelineState' },
);
