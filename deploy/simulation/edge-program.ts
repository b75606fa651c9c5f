/** An edge process of a simulated machine: the real journal, and clients who send records and note what was answered. */
import { Journal } from '#common/log/journal.ts';
import type { Answers } from './answers.ts';
import type { Machine } from './machine.ts';
import type { Program } from './program.ts';
import { dataFolder } from './simulated-disk.ts';

export interface EdgeOptions {
  readonly machine: Machine;
  readonly slot: string;
  readonly answers: Answers;
  readonly partitions: number;
  readonly sync: 'after_answer' | 'before_answer';
  readonly segmentBytes: number;
  readonly bytesMax: number;
  /** Milliseconds between two turns with records, on the average. */
  readonly turnMs: number;
  readonly recordsPerTurnMax: number;
  /** Whether clients still send. */
  readonly isLoaded: () => boolean;
  /** The line of a record with this number. */
  readonly lineOf: (number: number, now: number) => string;
}

/** With the setting after_answer, what was answered is synced within so many milliseconds as long as nothing hinders it. */
const syncedWithinMs = 40;
/** The system itself writes out what is older. */
const writtenBackMs = 30_000;

const unsyncedBytesMax = 65_536;

export const journalRoot = `${dataFolder}/journal`;

/** A slot of a machine. It outlives the processes that hold it. */
export class EdgeSlot {
  readonly name: string;
  /** When processes of it were killed or stood still: what they had answered just before was not synced in time. */
  readonly hindrances: number[] = [];
  program: Program | undefined;
  journal: Journal | undefined;
  readonly #options: EdgeOptions;

  constructor(options: EdgeOptions) {
    this.#options = options;
    this.name = `${options.machine.name}/${options.slot}`;
  }

  /** True time from which on answers may not have been synced yet, now that the power is lost. */
  get unsafeSince(): number {
    const { machine } = this.#options;
    const { now } = machine;
    const since = [now, ...this.hindrances.filter((at) => at > now - writtenBackMs), machine.disk.hinderedSince(now)];
    return Math.min(...since) - syncedWithinMs;
  }

  start(): void {
    const { machine, slot, segmentBytes, bytesMax, sync } = this.#options;
    const program = machine.start(slot);
    this.program = program;
    this.journal = undefined;
    program.atDeath(() => this.hindrances.push(program.scheduler.now));
    program.atFreeze(() => this.hindrances.push(program.scheduler.now));
    const system = machine.systemOf(program);
    program.enter(() => {
      Journal.open({ root: journalRoot, slot, segmentBytes, bytesMax, sync, unsyncedBytesMax }, system).then(
        (journal) => {
          this.journal = journal;
          this.#send(program, journal);
        },
        (error: unknown) => {
          // As the real process does: it says why, ends, and is started again.
          program.scheduler.note(() => `${program.name} does not start: ${String(error)}`);
          program.kill();
        },
      );
    });
  }

  #send(program: Program, journal: Journal): void {
    const { scheduler } = program;
    const { turnMs, recordsPerTurnMax, partitions, isLoaded, answers, lineOf } = this.#options;
    const { dice } = scheduler;
    const lanes = Array.from({ length: partitions }, (_, partition) => journal.lane('click', partition));
    const turn = () => {
      if (!isLoaded()) return;
      for (let left = dice.between(1, recordsPerTurnMax); left > 0; left--) {
        const number = answers.open(this.name, scheduler.now);
        const settle = (answer: 'kept' | 'refused') => {
          if (program.isDead) return;
          scheduler.note(() => `${program.name} record ${number} is ${answer}`);
          answers.settle(number, answer, scheduler.now);
        };
        journal.append(dice.pick(lanes), lineOf(number, program.time.now()), {
          committed: () => settle('kept'),
          refused: () => settle('refused'),
        });
      }
      next();
    };
    const next = () => void scheduler.after(-Math.log(1 - dice.next()) * turnMs, () => program.enter(turn));
    next();
  }
}
