/**
 * The name of an ingest process, which holds its leases: only one process may have it. A process that died leaves its
 * name behind. So a name can be taken over from a process that is dead according to its pid, or that has not sent a
 * heartbeat for a while.
 *
 *   taking ──free, or its holder is dead──▶ held ──another run has it──▶ taking again
 *      └──its holder is alive──▶ refused: this process ends
 */
import { readFileSync, readlinkSync } from 'node:fs';
import { hostname } from 'node:os';
import { PostgresUnavailable, type Queries } from '#common/stores/postgres.ts';
import { sleep, type Time, type Timer } from '#common/time.ts';

const beatMs = 1_000;
/** Several heartbeats, because a busy holder is not dead. */
const watchMs = 4_000;
const watchPollMs = 500;
/** A holder that has been silent for this long is dead without further watching. */
const silentSeconds = 60;

export interface NameHolder {
  readonly name: string;
  /** Unique to this run of the process. */
  readonly run: string;
  readonly place: string;
  readonly pid: number;
}

/** The scope in which process ids are comparable: the host since its last boot, and on Linux the pid namespace. */
export function processPlace(): string {
  const read = (get: () => string) => {
    try {
      return get().trim();
    } catch {
      return '';
    }
  };
  const boot = read(() => readFileSync('/proc/sys/kernel/random/boot_id', 'utf8'));
  return [hostname(), boot, read(() => readlinkSync('/proc/self/ns/pid'))].join(' ');
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return !(error instanceof Error && 'code' in error && error.code === 'ESRCH');
  }
}

interface HolderRow {
  readonly run: string;
  readonly place: string;
  readonly pid: number;
  readonly beats: number;
}

export interface ClaimedNameOptions {
  readonly postgres: Queries;
  readonly holder: NameHolder;
  readonly time: Time;
  /** Called if another live process has the name. */
  readonly onTaken: () => void;
}

export class ClaimedName {
  readonly #options: ClaimedNameOptions;
  #timer: Timer | undefined;
  #isBeating = false;
  #isStopped = false;

  constructor(options: ClaimedNameOptions) {
    this.#options = options;
  }

  get name(): string {
    return this.#options.holder.name;
  }

  /** @returns false if a live process has the name. @throws PostgresUnavailable */
  async take(): Promise<boolean> {
    const { time, holder } = this.#options;
    const until = time.elapsed() + watchMs;
    let first: HolderRow | undefined;
    while (!this.#isStopped) {
      if (await this.#takeFrom(null)) return true;
      const [row] = await this.#options.postgres.query<HolderRow>(
        'SELECT run, place, pid, beats FROM ingest.name WHERE name = $1',
        [holder.name],
      );
      if (row === undefined) continue;
      if (first !== undefined && (row.run !== first.run || row.beats !== first.beats)) return false;
      first ??= row;
      const isDead = row.place === holder.place && (row.pid === holder.pid || !isAlive(row.pid));
      if ((isDead || time.elapsed() >= until) && (await this.#takeFrom(row.run))) return true;
      await sleep(time, watchPollMs);
    }
    return true;
  }

  start(): void {
    this.#timer = this.#options.time.every(beatMs, () => void this.#beat());
  }

  /** Releases the name. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#options.time.clear(this.#timer);
    const { name, run } = this.#options.holder;
    await this.#ifThere(() =>
      this.#options.postgres.execute('DELETE FROM ingest.name WHERE name = $1 AND run = $2', [name, run]),
    );
  }

  async #takeFrom(run: string | null): Promise<boolean> {
    const { name, run: own, place, pid } = this.#options.holder;
    const taken = await this.#options.postgres.execute(
      `INSERT INTO ingest.name AS held (name, run, place, pid) VALUES ($1, $2, $3, $4)
       ON CONFLICT (name) DO UPDATE SET run = excluded.run, place = excluded.place, pid = excluded.pid, beats = 0, beat_at = now()
         WHERE held.run = excluded.run OR held.run = $5 OR held.beat_at NOT BETWEEN now() - make_interval(secs => $6) AND now() + make_interval(secs => $6)`,
      [name, own, place, pid, run, silentSeconds],
    );
    return taken > 0;
  }

  /**
   * If the row is gone (Postgres was restored) or has another run (this process was paused), tries to claim the name
   * again.
   */
  async #beat(): Promise<void> {
    if (this.#isBeating || this.#isStopped) return;
    this.#isBeating = true;
    const { name, run } = this.#options.holder;
    await this.#ifThere(async () => {
      const beaten = await this.#options.postgres.execute(
        'UPDATE ingest.name SET beats = beats + 1, beat_at = now() WHERE name = $1 AND run = $2',
        [name, run],
        'beat_of_name',
      );
      if (beaten === 0 && !this.#isStopped && !(await this.take())) this.#options.onTaken();
    });
    this.#isBeating = false;
  }

  async #ifThere(work: () => Promise<unknown>): Promise<void> {
    try {
      await work();
    } catch (error) {
      if (!(error instanceof PostgresUnavailable)) throw error;
    }
  }
}
