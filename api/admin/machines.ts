/**
 * Machines that were removed permanently. Their last report would hold `as_of` back forever, so it is deleted once all
 * their records are stored. The marks of their journals stay, so that a journal restored from a backup is not counted
 * twice.
 */
import type { Postgres, Queries } from '#common/stores/postgres.ts';
import { type Refused, refused } from './refusal.ts';

/**
 * A publisher reports twice a second, an ingest once, a redirector with shares of limited links every two seconds. A
 * report that is dated ahead by more was written by a Postgres whose clock was ahead.
 */
const silentSeconds = 15;
/** How far a report of a drained machine may lag behind the time at which it was stored, because clocks differ. */
const drainedMs = 10_000;

interface Known {
  readonly machine: string;
  readonly committed_to: number;
  readonly silent_seconds: number;
  /** Lag at its last report. */
  readonly behind_ms: number;
}

export interface Retired {
  readonly kind: 'retired';
  /** Seconds of records that were given up, according to its last report; 0 for a drained machine. */
  readonly given_up_seconds: number;
  /** Clicks of links with max_clicks that its redirectors held: they count as used. */
  readonly held_clicks: number;
}

/**
 * Lets the time by which old rows are deleted (pg-migrations/0963_deletion_clock.sql) reach the clock of Postgres at once.
 * @returns the new and the former time.
 */
export async function catchUpDeletion(
  db: Pick<Postgres, 'query'>,
): Promise<{ readonly now: Date; readonly reached: Date }> {
  const [row] = await db.query<{ now: Date; reached: Date }>(
    `UPDATE ingest.deletion_clock c SET reached = now() FROM ingest.deletion_clock before RETURNING c.reached AS now, before.reached`,
  );
  if (row === undefined) throw new Error('the deletion clock has no row');
  return row;
}

/** A machine that `as_of` waits for. */
export interface ReportingMachine {
  readonly machine: string;
  /** Up to when everything that it accepted is stored, epoch ms. */
  readonly committed_to: number;
  readonly silent_seconds: number;
}

/** The machines by their names in reports; first the one that holds `as_of` back. */
export async function reportingMachines(db: Pick<Postgres, 'query'>): Promise<ReportingMachine[]> {
  return await db.query(
    `SELECT machine, committed_to, abs(extract(epoch FROM now() - updated_at))::integer AS silent_seconds
       FROM ingest.progress ORDER BY committed_to, machine`,
  );
}

/** @param isGivenUp whether to give up its unstored records. */
export async function retireMachine(db: Postgres, name: string, isGivenUp: boolean): Promise<Retired | Refused> {
  return await db.transaction(async (queries) => {
    const progress = await queries.query<Known>(
      `SELECT machine, committed_to, abs(extract(epoch FROM now() - updated_at))::integer AS silent_seconds,
              greatest(0, extract(epoch FROM least(updated_at, now())) * 1000 - committed_to)::bigint AS behind_ms
         FROM ingest.progress ORDER BY machine FOR UPDATE`,
    );
    const ingests = await ingestsOf(queries, name);
    const known = progress.find(({ machine }) => machine === name);
    const redirectors = await redirectorsOf(queries, name);
    if (known === undefined && ingests.length + redirectors.length === 0) {
      const names = progress.map(({ machine }) => machine).join(', ') || 'none';
      return refused(`there is no machine ${name}; these machines report: ${names}`);
    }
    const living = ingests.find(({ silent_seconds }) => silent_seconds < silentSeconds);
    if (living !== undefined)
      return refused(`the ingest ${living.name} is running: stop the processes of ${name} first`);
    if (known !== undefined && known.silent_seconds < silentSeconds) {
      return refused(
        `${name} reported ${known.silent_seconds} seconds ago: stop its edge processes, wait until signpost_publisher_uncommitted_seconds is near 0, then stop its publisher`,
      );
    }
    const holding = redirectors.find(({ silent_seconds }) => silent_seconds < silentSeconds);
    if (holding !== undefined)
      return refused(`the redirector ${holding.instance} of ${name} is running: stop the processes of ${name} first`);
    const behindMs = known?.behind_ms ?? 0;
    if (behindMs > drainedMs && !isGivenUp) {
      const since = new Date(known?.committed_to ?? 0).toISOString();
      return refused(
        `${name} has records since ${since} that are not stored: run its publisher until they are, or give them up with --give-up`,
      );
    }
    await queries.execute('DELETE FROM ingest.progress WHERE machine = $1', [name]);
    const names = ingests.map((one) => one.name);
    await queries.execute('DELETE FROM ingest.name WHERE name = ANY ($1)', [names]);
    await queries.execute('DELETE FROM ingest.member WHERE owner = ANY ($1)', [names]);
    return {
      kind: 'retired',
      given_up_seconds: behindMs > drainedMs ? Math.ceil(behindMs / 1000) : 0,
      held_clicks: await giveUpShares(
        queries,
        redirectors.map(({ holder }) => holder),
      ),
    };
  });
}

/** Ingests are named `<machine>/<instance>`. */
async function ingestsOf(queries: Queries, machine: string): Promise<{ name: string; silent_seconds: number }[]> {
  return await queries.query(
    `SELECT name, abs(extract(epoch FROM now() - beat_at))::integer AS silent_seconds FROM ingest.name
      WHERE split_part(name, '/', 1) = $1 FOR UPDATE`,
    [machine],
  );
}

interface Redirector {
  readonly holder: string;
  readonly instance: string;
  readonly silent_seconds: number;
}

async function redirectorsOf(queries: Queries, machine: string): Promise<Redirector[]> {
  return await queries.query(
    `SELECT holder, instance, abs(extract(epoch FROM now() - reported_at))::integer AS silent_seconds
       FROM click_holders WHERE machine = $1 AND gone_at IS NULL ORDER BY holder FOR UPDATE`,
    [machine],
  );
}

/** Clicks that they held count as used, until one of them reports again. @returns the number of these clicks. */
async function giveUpShares(queries: Queries, holders: readonly string[]): Promise<number> {
  await queries.execute('UPDATE click_holders SET gone_at = now() WHERE holder = ANY ($1)', [holders]);
  const [row] = await queries.query<{ held: number }>(
    `WITH given_up AS (
       UPDATE click_shares SET is_given_up = true, is_wanted = false WHERE holder = ANY ($1) AND NOT is_given_up
       RETURNING granted - returned - used AS held
     ) SELECT coalesce(sum(held), 0)::bigint AS held FROM given_up`,
    [holders],
  );
  return row?.held ?? 0;
}
