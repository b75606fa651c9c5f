/** `npm run admin -- replay` and `rebuild`: sends the request to the owners of all partitions, waits until they are done, and reports the result. */
import { type Command, InvalidArgumentError } from 'commander';
import { type ClickHouse, ClickHouseFailure } from '#clickhouse/client.ts';
import { missingFrames } from '#clickhouse/queries/missing-frames.ts';
import { DAY_MS } from '#common/durations.ts';
import type { Postgres } from '#common/stores/postgres.ts';
import { sleep, systemTime } from '#common/time.ts';
import { AdminError } from './questions.ts';

export interface RevisionContext {
  readonly postgres: () => Postgres;
  /** @throws AdminError if none is configured. */
  readonly clickhouse: () => ClickHouse;
  /** Asks for an answer within seconds. @throws ClickHouseFailure, or AdminError if none is configured. */
  readonly reachClickHouse: () => Promise<void>;
  readonly nowMs: () => number;
  readonly print: (line: string) => void;
  /** Called when records are missing, for the exit code. */
  readonly onFaults: () => void;
}

interface Wanted {
  readonly replay_from: number | null;
  readonly days_from: number | null;
  readonly days_to: number | null;
}

/** The progress of a request in one partition. */
interface AskedRow {
  readonly partition: number;
  readonly is_done: boolean;
  readonly rows: number;
  readonly cells: number;
}

const requestGone =
  'Postgres no longer has this request: it was restored, or failed over to an older copy. How much of it ingest completed is ' +
  'unknown. Run the command again.';
const pollMs = 500;
const remindMs = 10_000;
/** Same margin as in ingest: a batch's number is roughly the time at which it was stored. */
const numberMarginMs = DAY_MS;
/** Producer ids begin with their creation time: 10 characters of Crockford's base 32. */
const alphabet = '0123456789abcdefghjkmnpqrstvwxyz';

function timeOption(text: string): number {
  const ms = /^\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}(:\d{2}(\.\d{1,3})?)?Z)?$/.test(text) ? Date.parse(text) : Number.NaN;
  if (Number.isNaN(ms)) throw new InvalidArgumentError('must be a time (UTC) such as 2026-01-31T04:30Z, or a date.');
  return ms;
}

export function addRevisionCommands(program: Command, context: RevisionContext): void {
  program
    .command('replay')
    .description(
      'After a restore of ClickHouse: reread the log from a time before the backup, store each record that ClickHouse does ' +
        'not have, and correct the rollups of the affected days. Ingest does the work and must be running. Exits with 1 if ' +
        'records are missing from both ClickHouse and the log.',
    )
    .requiredOption('--from <time>', 'start time (UTC), a few minutes before the backup began', timeOption)
    .action(async ({ from }: { from: number }) => {
      await requireUsableStart(context, from);
      await context.reachClickHouse();
      await revise(context, { replay_from: from, days_from: null, days_to: null });
      await reportMissing(context, from);
    });

  program
    .command('rebuild')
    .description('Recompute the rollups of some days from their records. Ingest does the work and must be running.')
    .requiredOption('--from <date>', 'first day (UTC)', timeOption)
    .option('--to <date>', 'last day (UTC), inclusive; default: today', timeOption)
    .action(async ({ from, to = context.nowMs() }: { from: number; to?: number }) => {
      if (to < from) throw new AdminError('--to is before --from, or --from is in the future: no day is in between.');
      const [first, last] = [Math.floor(from / DAY_MS) * DAY_MS, Math.floor(to / DAY_MS) * DAY_MS];
      await revise(context, { replay_from: null, days_from: first, days_to: last + DAY_MS });
    });
}

/** @throws for a time of which no record can be, or of which records cannot be told from duplicates. */
async function requireUsableStart({ postgres }: RevisionContext, from: number): Promise<void> {
  const [clock] = await postgres().query<{ is_ahead: boolean }>(
    'SELECT to_timestamp($1 / 1000.0) > now() AS is_ahead',
    [from],
  );
  if (clock?.is_ahead !== false) throw new AdminError('--from is in the future: no record is of that time.');
  const [row] = await postgres().query<{ since_ms: number }>('SELECT since_ms FROM ingest.numbering');
  if (row !== undefined && from < row.since_ms) {
    throw new AdminError(
      `Records stored before ${new Date(row.since_ms).toISOString()} cannot be distinguished from duplicates, because an older version stored them. Give a later --from.`,
    );
  }
}

async function revise(context: RevisionContext, wanted: Wanted): Promise<void> {
  const db = context.postgres();
  const asked = await db.query<{ partition: number; request: string }>(
    `INSERT INTO ingest.revision (partition, replay_from, days_from, days_to)
     SELECT partition, $1, $2, $3 FROM (
       SELECT partition FROM ingest.lease UNION SELECT partition FROM ingest.checkpoint
       UNION SELECT partition FROM ingest.last_batch) AS known
     WHERE NOT EXISTS (SELECT FROM ingest.revision WHERE done_at IS NULL)
     ON CONFLICT (partition) DO UPDATE SET replay_from = excluded.replay_from, days_from = excluded.days_from,
       days_to = excluded.days_to, rows_stored = 0, cells_corrected = 0, requested_at = now(), done_at = NULL
     RETURNING partition, requested_at::text AS request`,
    [wanted.replay_from, wanted.days_from, wanted.days_to],
  );
  const [first] = asked;
  if (first === undefined)
    throw new AdminError('Ingest has never run here, or a replay or rebuild is already in progress.');
  const remindedAt = { ms: context.nowMs() };
  for (;;) {
    const rows = await db.query<AskedRow>(
      `SELECT partition, done_at IS NOT NULL AS is_done, rows_stored AS rows, cells_corrected AS cells
       FROM ingest.revision WHERE requested_at = $1::timestamptz ORDER BY partition`,
      [first.request],
    );
    if (rows.length < asked.length) throw new AdminError(requestGone);
    const open = rows.filter((row) => !row.is_done);
    if (open.length === 0) {
      const sum = (of: 'rows' | 'cells') => rows.reduce((total, row) => total + row[of], 0);
      context.print(`${sum('rows')} rows stored, ${sum('cells')} rollup cells corrected`);
      break;
    }
    if (context.nowMs() - remindedAt.ms >= remindMs) {
      remindedAt.ms = context.nowMs();
      const waiting = `waiting for ingest: partitions ${open.map(({ partition }) => partition).join(', ')}`;
      context.print(waiting + (await clickhouseFault(context)));
    }
    await sleep(systemTime, pollMs);
  }
  await db.execute('DELETE FROM ingest.revision WHERE done_at IS NOT NULL');
}

/** Why ingest may make no progress; empty if ClickHouse answers, or if this command does not know it. */
async function clickhouseFault({ reachClickHouse }: RevisionContext): Promise<string> {
  try {
    await reachClickHouse();
    return '';
  } catch (error) {
    return error instanceof ClickHouseFailure ? `, and ClickHouse is unavailable: ${error.message}` : '';
  }
}

/** Clicks committed since `from` that neither ClickHouse nor the log has. */
async function reportMissing(context: RevisionContext, from: number): Promise<void> {
  const lanes = await context.postgres().query<{ partition: number; producer_id: string; mark: number }>(
    `SELECT partition, producer_id, mark FROM ingest.mark
     WHERE kind = 'click' AND updated_at >= to_timestamp($1 / 1000.0) ORDER BY partition, producer_id`,
    [from - numberMarginMs],
  );
  let frames = 0;
  for (const lane of lanes) {
    const above = Math.max(0, from - numberMarginMs);
    for (const gap of await missingFrames(context.clickhouse(), lane, above, begunAt(lane.producer_id) > above)) {
      frames += gap.to - gap.from + 1;
      context.print(`missing: frames ${gap.from} to ${gap.to} of ${gap.producer_id} (partition ${gap.partition})`);
    }
  }
  context.print(
    frames === 0
      ? '0 click frames are missing'
      : `${frames} click frames are missing from ClickHouse, and from the log since ${new Date(from).toISOString()}: if the backup began earlier, repeat with an earlier --from; otherwise they are lost`,
  );
  if (frames > 0) context.onFaults();
}

function begunAt(producerId: string): number {
  return [...producerId.slice(0, 10)].reduce((ms, digit) => ms * 32 + Math.max(0, alphabet.indexOf(digit)), 0);
}
