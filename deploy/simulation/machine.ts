/** A simulated machine: its disk, its clocks, the locks of its programs, and its connection to NATS. */
import type { System } from '#common/journal/system.ts';
import { type MachineClock, Program } from './program.ts';
import type { Scheduler } from './scheduler.ts';
import { SimulatedDisk } from './simulated-disk.ts';
import { SimulatedLocks } from './simulated-locks.ts';

/** The state of the network between a machine and the servers. */
export interface LinkCondition {
  /** Maximum latency one way, in milliseconds. */
  latencyMsMax: number;
  /** Nothing gets through in either direction; both ends notice only by their pings. */
  isCut: boolean;
}

const alphabet = '0123456789abcdefghjkmnpqrstvwxyz';
const stampChars = 10;
const chanceChars = 16;

export class Machine {
  readonly name: string;
  readonly disk: SimulatedDisk;
  readonly clock: MachineClock;
  readonly link: LinkCondition = { latencyMsMax: 1, isCut: false };
  readonly programs = new Set<Program>();
  readonly lockFaults = { unknown: 0 };
  #locks = new SimulatedLocks(this.lockFaults);
  readonly #scheduler: Scheduler;
  #started = 0;

  constructor(name: string, scheduler: Scheduler, epochMs: number) {
    this.name = name;
    this.#scheduler = scheduler;
    this.disk = new SimulatedDisk(scheduler);
    this.clock = { wallAtZero: epochMs, wallOffsetMs: 0, bootedAt: scheduler.now };
  }

  /** The true time. */
  get now(): number {
    return this.#scheduler.now;
  }

  start(what: string): Program {
    const program = new Program(`${this.name}/${what}#${++this.#started}`, this.#scheduler, this.clock);
    this.programs.add(program);
    program.atDeath(() => this.programs.delete(program));
    return program;
  }

  /** What the journal and publisher get from this machine. */
  systemOf(program: Program): System {
    const { random } = this.#scheduler;
    return {
      time: program.time,
      disk: this.disk.of(program),
      locks: this.#locks.of(program),
      producerId: (ms) => stamped(ms, () => random.next()),
    };
  }

  /** Ends all programs at once and loses what was not synced. Supervisors start the programs again. */
  losePower(): void {
    this.#end(() => this.disk.losePower());
  }

  /** @returns a function that restarts the machine with the disk as it is now. */
  snapshot(): () => void {
    const setBack = this.disk.snapshot();
    return () => this.#end(setBack);
  }

  #end(change: () => void): void {
    for (const program of [...this.programs]) program.kill();
    change();
    this.#locks = new SimulatedLocks(this.lockFaults);
    this.clock.bootedAt = this.#scheduler.now;
  }
}

/** 26 characters that sort by time and form the part of an id after its prefix. */
function stamped(ms: number, chance: () => number): string {
  let text = '';
  for (let left = ms, at = 0; at < stampChars; at++, left = Math.floor(left / 32))
    text = alphabet.charAt(left % 32) + text;
  for (let at = 0; at < chanceChars; at++) text += alphabet.charAt(Math.floor(chance() * 32));
  return text;
}
