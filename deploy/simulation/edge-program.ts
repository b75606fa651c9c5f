/**
 * An edge process of a simulated machine: the real journal, with clients that send records and enter the answers in the
 * ledger.
 */
import { DAY_MS } from '#common/durations.ts';
import { Journal } from '#common/journal/journal.ts';
import { partitionOf } from '#common/log/partition.ts';
import type { RecordKind } from '#common/log/record.ts';
import { ClickLanes } from '#redirector/click-lanes.ts';
import type { SeededRandom } from '#testing/seeded-random.ts';
import type { Answers } from './answers.ts';
import { clickFields, idOf, type SentClicks } from './click-line.ts';
import type { Machine } from './machine.ts';
import type { Program } from './program.ts';
import { dataFolder } from './simulated-disk.ts';
import { type SimulatedRecord, simulatedApp } from './thin-former.ts';

export interface EdgeOptions {
  readonly machine: Machine;
  readonly slot: string;
  readonly answers: Answers;
  /** The current LOG_PARTITIONS; a process keeps the value that it started with. */
  readonly partitions: () => number;
  readonly sync: 'after_answer' | 'before_answer';
  readonly segmentBytes: number;
  readonly bytesMax: number;
  /** Average milliseconds between two event-loop turns that write records. */
  readonly turnMs: number;
  readonly recordsPerTurnMax: number;
  /** Whether clients still send. */
  readonly isLoaded: () => boolean;
  /** Set if clicks are written in the real format, for matching. */
  readonly clicks: SentClicks | undefined;
  /** The most recent ids of installs and events: clients may send one of them again. */
  readonly recentIds: RecentId[];
}

/** The id of an install or event that was sent, and when it was received. */
export interface RecentId {
  readonly kind: 'install' | 'event';
  readonly id: string;
  readonly at: SentTime;
}

/** Epoch milliseconds. */
interface SentTime {
  /** By a right clock. */
  readonly right: number;
  /** By the clock of the machine. */
  readonly own: number;
}

const clickShare = 0.6;
const installShare = 0.25;
const matchShare = 0.15;
const repeatShare = 0.35;
const recentIdsMax = 20;
/** How often clients that are not sending check whether they should. */
const idleMs = 500;
/** Some clicks are backdated, so that a batch has parts of several months. */
const oldClickShare = 0.15;
const oldClickMs = 40 * DAY_MS;

/** With `sync: after_answer`, answered records are synced within this time unless a fault intervenes. */
const syncedWithinMs = 40;
/** The operating system writes back data that is older than this. */
const writtenBackMs = 30_000;

const unsyncedBytesMax = 65_536;

export const journalRoot = `${dataFolder}/journal`;

/** A slot of a machine. It outlives the processes that hold it. */
export class EdgeSlot {
  readonly name: string;
  /** When its processes were killed or frozen, and since when answered records were unsynced then. */
  readonly #hindrances: { readonly at: number; readonly since: number }[] = [];
  /** Periods in which answered records may not have been synced, each with the time until which that holds. */
  readonly #unsynced: { readonly from: number; readonly to: number; readonly until: number }[] = [];
  program: Program | undefined;
  journal: Journal | undefined;
  readonly #options: EdgeOptions;

  constructor(options: EdgeOptions) {
    this.#options = options;
    this.name = `${options.machine.name}/${options.slot}`;
  }

  /** If the power is lost now, records answered since this (true) time may not have been synced. */
  get unsafeSince(): number {
    const { machine } = this.#options;
    const { now } = machine;
    const recent = this.#hindrances.filter(({ at }) => at > now - writtenBackMs);
    return Math.min(now, ...recent.map(({ since }) => since), machine.disk.hinderedSince(now)) - syncedWithinMs;
  }

  /** Since when answered records may not have been synced because syncs are slow. */
  get hinderedSince(): number {
    const { machine } = this.#options;
    return machine.disk.hinderedSince(machine.now);
  }

  /** If the power is lost now, records answered in these periods may not have been synced either. */
  get unsynced(): readonly { readonly from: number; readonly to: number }[] {
    return this.#unsynced.filter(({ until }) => until > this.#options.machine.now);
  }

  /**
   * Records answered just before this are not synced in time; if syncs are slow, neither are those answered since they
   * became slow.
   */
  noteHindrance(): void {
    this.#hindrances.push({ at: this.#options.machine.now, since: this.hinderedSince });
  }

  /**
   * The machine has slept. Records answered just before the sleep (or since syncs became slow) are synced just after
   * it, or written back by the operating system if their process dies first. @param since - `hinderedSince` when the
   * machine fell asleep.
   */
  noteSleep(since: number): void {
    const { now } = this.#options.machine;
    this.#unsynced.push({ from: since - syncedWithinMs, to: now + syncedWithinMs, until: now + writtenBackMs });
  }

  start(): void {
    const { machine, slot, segmentBytes, bytesMax, sync } = this.#options;
    const program = machine.start(slot);
    const { scheduler } = program;
    this.program = program;
    this.journal = undefined;
    program.atDeath(() => this.noteHindrance());
    program.atFreeze(() => this.noteHindrance());
    const system = machine.systemOf(program);
    const log = (line: string) => {
      scheduler.note(() => `${program.name}: ${line}`);
      if (!line.includes('could not be synced')) return;
      const to = scheduler.now;
      // After repeated failed syncs the journal gives up its producer, and that data is never synced.
      const from = machine.disk.hinderedSince(to) - syncedWithinMs;
      this.#unsynced.push({ from, to, until: Number.POSITIVE_INFINITY });
    };
    program.enter(() => {
      Journal.open({ root: journalRoot, slot, segmentBytes, bytesMax, sync, unsyncedBytesMax, log }, system).then(
        (journal) => {
          this.journal = journal;
          this.#send(program, journal);
        },
        (error: unknown) => {
          // Like the real process, it reports the reason and exits; it is then started again.
          program.scheduler.note(() => `${program.name} does not start: ${String(error)}`);
          program.kill();
        },
      );
    });
  }

  #send(program: Program, journal: Journal): void {
    const { scheduler } = program;
    const { machine, turnMs, recordsPerTurnMax, isLoaded, answers, clicks } = this.#options;
    const { random } = scheduler;
    const partitions = this.#options.partitions();
    const clickLanes = new ClickLanes(journal, partitions, random.between(0, partitions - 1));
    const turn = () => {
      if (!isLoaded()) {
        scheduler.after(idleMs, () => program.enter(turn));
        return;
      }
      for (let left = random.between(1, recordsPerTurnMax); left > 0; left--) {
        const own = program.time.now();
        const what = this.#draw(random, { own, right: Math.floor(machine.clock.wallAtZero + scheduler.now) });
        const { kind, id, at } = what;
        const lane =
          kind === 'click'
            ? clickLanes.at(program.time.now())
            : journal.lane(kind, partitionOf(simulatedApp, id, partitions));
        const number = answers.open(this.name, scheduler.now, { kind, id, time: at.right });
        const click_id = kind === 'click' && clicks !== undefined ? idOf('clk', at.own, scheduler) : undefined;
        const click = click_id === undefined ? undefined : { n: number, click_id, time: at.own };
        if (click !== undefined) clicks?.sent.push(click);
        const settle = (answer: 'kept' | 'refused') => {
          if (program.isDead) return;
          scheduler.note(() => `${program.name} ${kind} ${number} ${id} of partition ${lane.partition} is ${answer}`);
          answers.settle(number, answer, scheduler.now);
          if (click !== undefined && answer === 'kept') clicks?.kept.push(click);
        };
        const more = click_id === undefined ? {} : clickFields(click_id);
        const record: SimulatedRecord = { n: number, time: at.own, ...(id === '' ? {} : { id }), ...more };
        journal.append(lane, JSON.stringify(record), {
          committed: () => settle('kept'),
          refused: () => settle('refused'),
        });
      }
      next();
    };
    const next = () => void scheduler.after(-Math.log(1 - random.next()) * turnMs, () => program.enter(turn));
    next();
  }

  #draw(random: SeededRandom, at: SentTime): { kind: RecordKind; id: string; at: SentTime } {
    if (random.next() < clickShare) {
      const age = random.next() < oldClickShare ? oldClickMs : 0;
      return { kind: 'click', id: '', at: { own: Math.max(1, at.own - age), right: at.right - age } };
    }
    const { recentIds } = this.#options;
    if (recentIds.length > 0 && random.next() < repeatShare) {
      const repeated = random.pick(recentIds);
      // A repeated install keeps the time of the first one.
      return repeated.kind === 'install' ? repeated : { ...repeated, at };
    }
    const share = random.next();
    // A match is never sent again.
    if (share >= 1 - matchShare) return { kind: 'match', id: `match-${Math.floor(random.next() * 1e12)}`, at };
    const kind = share < installShare ? 'install' : 'event';
    const fresh = { kind, id: `${kind}-${Math.floor(random.next() * 1e12)}`, at } as const;
    recentIds.push(fresh);
    if (recentIds.length > recentIdsMax) recentIds.shift();
    return fresh;
  }
}
