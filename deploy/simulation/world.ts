/** All that a seed simulates: machines with edges and publishers, the log, and who reads it. Whatever dies is started again. */
import { Answers } from './answers.ts';
import { EdgeSlot, journalRoot } from './edge-program.ts';
import { IngestInstance } from './ingest-program.ts';
import { Machine } from './machine.ts';
import type { Program } from './program.ts';
import { PublisherOfMachine } from './publisher-program.ts';
import type { Scheduler } from './scheduler.ts';
import { SimulatedClickHouse } from './simulated-clickhouse.ts';
import { SimulatedNats } from './simulated-nats.ts';
import { SimulatedPostgres } from './simulated-postgres.ts';
import { lineOf } from './thin-former.ts';

/** The sizes of a world, drawn from its seed. */
export interface WorldShape {
  readonly machines: number;
  readonly slots: number;
  readonly partitions: number;
  readonly sync: 'after_answer' | 'before_answer';
  readonly segmentBytes: number;
  readonly journalBytesMax: number;
  readonly turnMs: number;
  readonly recordsPerTurnMax: number;
  readonly logBytesMax: number;
  readonly ingests: number;
  readonly leaseSeconds: number;
  readonly batchRows: number;
}

/** Something that is started again when it is dead. */
interface Supervised {
  program: Program | undefined;
  start(): void;
}

const epochMs = 1_790_000_000_000;
const watchMs = 100;
const restartMsMax = 1_500;
const oldRecordEach = 7;
const oldRecordMs = 40 * 86_400_000;

export class World {
  readonly answers = new Answers();
  readonly nats: SimulatedNats;
  readonly edges: Machine[] = [];
  readonly center: Machine;
  readonly slots: EdgeSlot[] = [];
  readonly publishers: PublisherOfMachine[] = [];
  readonly ingests: IngestInstance[] = [];
  readonly postgres: SimulatedPostgres;
  readonly clickhouse: SimulatedClickHouse;
  isLoaded = true;
  readonly shape: WorldShape;
  readonly scheduler: Scheduler;
  /** Programs that ended with an error that nobody caught. */
  readonly failures: string[] = [];
  readonly #supervised: Supervised[] = [];
  readonly #restarting = new Set<Supervised>();

  constructor(scheduler: Scheduler, shape: WorldShape) {
    this.scheduler = scheduler;
    this.shape = shape;
    this.nats = new SimulatedNats(scheduler, epochMs);
    this.center = new Machine('center', scheduler, epochMs);
    for (let at = 0; at < shape.machines; at++) this.#addEdge(`edge${at}`);
    this.postgres = new SimulatedPostgres(scheduler, epochMs);
    this.clickhouse = new SimulatedClickHouse(scheduler);
    for (let at = 0; at < shape.ingests; at++) this.#addIngest(`ingest-${at}`);
    for (const one of this.#supervised) one.start();
    this.#watch();
  }

  get machines(): readonly Machine[] {
    return [...this.edges, this.center];
  }

  get programs(): Program[] {
    return this.machines.flatMap((machine) => [...machine.programs]);
  }

  /** How often each record is stored. */
  get stored(): ReadonlyMap<number, number> {
    const all = new Map<number, number>();
    for (const { n } of this.clickhouse.rows) all.set(n, (all.get(n) ?? 0) + 1);
    return all;
  }

  /** The power of a machine is lost. Where answers do not wait for the disk, what was answered since its last sync may be lost. */
  losePower(machine: Machine): void {
    if (this.shape.sync === 'after_answer') {
      for (const slot of this.slots) {
        if (slot.name.startsWith(`${machine.name}/`)) this.answers.forgive(slot.name, slot.unsafeSince);
      }
    }
    machine.losePower();
  }

  #addEdge(name: string): void {
    const { shape, answers } = this;
    const machine = new Machine(name, this.scheduler, epochMs);
    this.edges.push(machine);
    for (let at = 0; at < shape.slots; at++) {
      const slot = new EdgeSlot({
        machine,
        slot: `edge-${at}`,
        answers,
        partitions: shape.partitions,
        sync: shape.sync,
        segmentBytes: shape.segmentBytes,
        bytesMax: shape.journalBytesMax,
        turnMs: shape.turnMs,
        recordsPerTurnMax: shape.recordsPerTurnMax,
        isLoaded: () => this.isLoaded,
        // A few were made a while before they came, so that a batch has parts of several months.
        lineOf: (n, now) => lineOf(n, now - (n % oldRecordEach === 0 ? oldRecordMs : 0)),
      });
      this.slots.push(slot);
      this.#supervised.push(slot);
    }
    const publisher = new PublisherOfMachine(machine, this.nats, () => shape.logBytesMax);
    this.publishers.push(publisher);
    this.#supervised.push(publisher);
  }

  #addIngest(name: string): void {
    const { shape, center, nats, postgres, clickhouse } = this;
    const { partitions, leaseSeconds, batchRows } = shape;
    const ingest = new IngestInstance({
      machine: center,
      name,
      partitions,
      leaseSeconds,
      batchRows,
      logBytesMax: () => shape.logBytesMax,
      nats,
      postgres,
      clickhouse,
    });
    this.ingests.push(ingest);
    this.#supervised.push(ingest);
  }

  /** What is dead is started again after a while, as any supervisor does. */
  #watch(): void {
    const { dice } = this.scheduler;
    this.scheduler.after(watchMs, () => {
      for (const one of this.#supervised) {
        if (one.program?.isDead !== true || this.#restarting.has(one)) continue;
        if (one.program.failure !== undefined)
          this.failures.push(`${one.program.name}: ${textOf(one.program.failure)}`);
        this.#restarting.add(one);
        this.scheduler.after(dice.next() * restartMsMax, () => {
          this.#restarting.delete(one);
          one.start();
        });
      }
      this.#watch();
    });
  }

  /** Whether no edge has anything on its disk any more. */
  get isDrained(): boolean {
    return this.edges.every((machine) => machine.disk.bytes === 0);
  }

  /** What the sinks have counted. */
  get repairs(): ReadonlyMap<string, number> {
    const sums = new Map<string, number>();
    for (const { counters } of this.ingests) {
      for (const [what, count] of Object.entries(counters)) sums.set(what, (sums.get(what) ?? 0) + count);
    }
    return sums;
  }

  /** What must be settled once all processes have started again. */
  leftovers(): string[] {
    const { openBatches } = this.postgres;
    return openBatches === 0 ? [] : [`${openBatches} batches are not settled`];
  }

  /** Why the world is not at rest: what is not committed, and what is not within its bounds. Empty when it is. */
  unrest(): string[] {
    const found: string[] = [];
    const { lost } = this.answers.judge(this.stored);
    if (lost.length > 0)
      found.push(`${lost.length} records are not stored, the first ${this.answers.describe(lost[0] ?? 0)}`);
    const damaged = this.publishers.flatMap(({ publisher }) => publisher?.damaged ?? []);
    const { rollupDifference } = this.clickhouse;
    if (rollupDifference > 0) found.push(`the rollups differ from the raw rows by ${rollupDifference}`);
    for (const machine of this.edges) {
      // Where power was lost while a sync took long, a later segment may have outlived an earlier one: its journal stays for a person.
      const isLeft = (path: string) =>
        machine.disk.hits.power_lost > 0 && damaged.some(({ producer_id }) => path.includes(producer_id));
      const files = machine.disk.filesIn(journalRoot).filter((path) => !isLeft(path));
      if (files.length > this.shape.slots) found.push(`${machine.name} still has ${files.join(' ')}`);
    }
    for (const { publisher } of this.publishers) {
      if (publisher === undefined) found.push('a publisher is not running');
      else if (publisher.messagesInFlight > 0) found.push('a publisher waits for the log');
    }
    return found;
  }
}

function textOf(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}
