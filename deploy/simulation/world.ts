/**
 * Everything that a seed simulates: machines with edges and publishers, the log, and its readers. Programs that die are
 * restarted.
 */
import { addressStart } from '#common/attribution/click-lines.ts';
import { PER_ADDRESS_MAX } from '#common/attribution/recent-clicks.ts';
import { HOUR_MS } from '#common/durations.ts';
import { readFrame } from '#common/log/frame.ts';
import { Answers, nameOf, wronglyAttributed } from './answers.ts';
import { type ClickFacts, clickAddress, clickApp, type SentClicks, windowHours } from './click-line.ts';
import type { SimulatedRow } from './clickhouse-content.ts';
import { Damage } from './damage.ts';
import { EdgeSlot, journalRoot, type RecentId } from './edge-program.ts';
import { GatewayProgram } from './gateway-program.ts';
import { IngestInstance } from './ingest-program.ts';
import { Machine } from './machine.ts';
import { Matches } from './matches.ts';
import type { Program } from './program.ts';
import { PublisherOfMachine } from './publisher-program.ts';
import type { Scheduler } from './scheduler.ts';
import { SimulatedClickHouse } from './simulated-clickhouse.ts';
import { SimulatedNats } from './simulated-nats.ts';
import { SimulatedPostgres } from './simulated-postgres.ts';
import { SimulatedRedis } from './simulated-redis.ts';
import { recordsOf, type SimulatedRecord } from './thin-former.ts';
import { clocksOf, errorOf } from './wrong-clocks.ts';

/** The sizes of a world, drawn from its seed. */
export interface WorldShape {
  readonly machines: number;
  readonly slots: number;
  /** The initial setting of the ingests. */
  readonly partitions: number;
  /** The initial setting of the edges; a different number while the setting is being changed. */
  readonly edgePartitions: number;
  readonly sync: 'after_answer' | 'before_answer';
  readonly segmentBytes: number;
  readonly journalBytesMax: number;
  readonly turnMs: number;
  readonly recordsPerTurnMax: number;
  readonly logBytesMax: number;
  /** Whether there are gateways that match devices to clicks, and a Redis. */
  readonly isMatching: boolean;
  /** Whether clocks are years off from the beginning, and may jump by years. */
  readonly areClocksOff: boolean;
  readonly ingests: number;
  readonly leaseSeconds: number;
  readonly batchRows: number;
  readonly bytesPerFence: number;
}

/** Something that is restarted when it is dead. */
interface Supervised {
  program: Program | undefined;
  start(): void;
}

const epochMs = 1_790_000_000_000;
/** Maximum share of its size that the log may fill at rest: above it, committed messages are purged. */
const logShareMax = 0.76;
/** The age of clicks that are checked in Redis: it gets those of the last six hours back. */
const fedMs = 5 * HOUR_MS;
const watchMs = 100;
const restartMsMax = 1_500;
/** Time within which every process is restarted with a changed setting. */
const rollMsMax = 5_000;
/** How long before the earliest required time a replay starts. */
const replayMarginMs = 120_000;

export class World {
  readonly epochMs = epochMs;
  readonly answers = new Answers();
  readonly nats: SimulatedNats;
  readonly edges: Machine[] = [];
  /** One for each ingest. */
  readonly centers: Machine[] = [];
  readonly slots: EdgeSlot[] = [];
  readonly publishers: PublisherOfMachine[] = [];
  readonly ingests: IngestInstance[] = [];
  readonly gateways: GatewayProgram[] = [];
  readonly clicks: SentClicks = { sent: [], kept: [] };
  readonly matches = new Matches();
  readonly damage = new Damage();
  readonly redis: SimulatedRedis | undefined;
  readonly postgres: SimulatedPostgres;
  readonly clickhouse: SimulatedClickHouse;
  isLoaded = true;
  /** Whether to report everything that is wrong, not just the first. */
  isJudged = false;
  readonly shape: WorldShape;
  readonly scheduler: Scheduler;
  /** Programs that ended with an uncaught error. */
  readonly failures: string[] = [];
  /** Rows that ClickHouse has lost in restores, until they are stored again or written off. */
  lostInRestore: readonly SimulatedRow[] = [];
  /** How many records existed nowhere any more when the log was replayed. */
  writtenOff = 0;
  /** Epoch ms from which on a replay is needed; infinite if none is. */
  replayFrom = Number.POSITIVE_INFINITY;
  readonly #committedAtBackup: number[] = [];
  readonly #recentIds: RecentId[] = [];
  readonly #supervised: Supervised[] = [];
  readonly #restarting = new Set<Supervised>();
  /** LOG_PARTITIONS once it was changed. */
  #partitions: number | undefined;

  constructor(scheduler: Scheduler, shape: WorldShape) {
    this.scheduler = scheduler;
    this.shape = shape;
    this.nats = new SimulatedNats(scheduler, epochMs);
    this.redis = shape.isMatching ? new SimulatedRedis(scheduler) : undefined;
    this.postgres = new SimulatedPostgres(scheduler, epochMs);
    for (let at = 0; at < shape.machines; at++) this.#addEdge(`edge${at}`);
    this.clickhouse = new SimulatedClickHouse(scheduler, epochMs);
    this.clickhouse.fenceFiles.bytesEach = shape.bytesPerFence;
    for (let at = 0; at < shape.ingests; at++) this.#addIngest(`ingest-${at}`);
    for (const clock of shape.areClocksOff ? clocksOf(this) : [])
      if (scheduler.random.next() < 0.5) clock.setOff(errorOf(clock, scheduler.random));
    for (const one of this.#supervised) one.start();
    this.#watch();
  }

  get machines(): readonly Machine[] {
    return [...this.edges, ...this.centers];
  }

  get programs(): Program[] {
    return this.machines.flatMap((machine) => [...machine.programs]);
  }

  /** An operator changes LOG_PARTITIONS and restarts edges and ingests with it, one after the other in any order. */
  changePartitions(partitions: number, withinMs = rollMsMax): void {
    this.#partitions = partitions;
    this.scheduler.note(() => `the number of partitions becomes ${partitions}`);
    for (const one of [...this.slots, ...this.ingests])
      this.scheduler.after(this.scheduler.random.next() * withinMs, () => one.program?.kill());
  }

  /** Backs up ClickHouse roughly as it is now. */
  backUpClickHouse(): void {
    this.#committedAtBackup.push(this.postgres.committedTo ?? epochMs);
    this.clickhouse.backUp();
  }

  /** An operator stops ingest, restores the backup, and restarts everything. */
  restoreClickHouse(): void {
    for (const { program } of this.ingests) program?.kill();
    const { lost, begunAt } = this.clickhouse.restore();
    this.lostInRestore = [...this.lostInRestore, ...lost];
    this.scheduler.note(() => `the restore has lost ${lost.map(({ n, id }) => nameOf(n, id)).join(' ')}`);
    // Ingest may have lagged by more than a few minutes: then the log is read from there on.
    this.replayFrom = Math.min(this.replayFrom, epochMs + begunAt, ...this.#committedAtBackup);
  }

  /** An operator requests a replay of the log, from the time of a backup or from any other. */
  askForReplay(from = this.replayFrom): void {
    if (this.postgres.openRevisions > 0 || !this.postgres.isUp) return;
    // The log may have wrong times: then all of it is read.
    const replay_from = this.answers.areTimesRight ? Math.max(0, Math.floor(from - replayMarginMs)) : 0;
    this.postgres.revise({ replay_from, days_from: null, days_to: null });
  }

  /** Writes off rows that a restore lost and the log does not have either: the record path did not lose them. */
  writeOffWhatIsNowhere(): void {
    const inLog = new Map<string, number[]>();
    for (const { bytes } of this.nats.stream('log')?.messages ?? []) {
      for (const { n, id, time } of recordsInMessage(bytes))
        inLog.set(nameOf(n, id), [...(inLog.get(nameOf(n, id)) ?? []), time]);
    }
    this.scheduler.note(
      () =>
        `the log has ${[...inLog.keys()].join(' ')}, ClickHouse ${this.clickhouse.rows.map(({ n, id }) => nameOf(n, id)).join(' ')}`,
    );
    const stored = new Set(this.clickhouse.rows.map(placeOf));
    this.lostInRestore = this.lostInRestore.filter((row) => !stored.has(placeOf(row)));
    this.writtenOff += this.answers.writeOff(this.lostInRestore, inLog);
  }

  /**
   * Lets time pass in which nothing runs. Data that was not synced before is still not synced after it, however long it
   * was.
   */
  leap(ms: number): void {
    const since = this.slots.map((slot) => slot.hinderedSince);
    this.scheduler.leap(ms);
    for (const [at, slot] of this.slots.entries()) slot.noteSleep(since[at] ?? this.scheduler.now);
  }

  /** A machine loses power. If answers do not wait for the disk, what was answered since its last sync may be lost. */
  losePower(machine: Machine): void {
    if (this.shape.sync === 'after_answer') {
      for (const slot of this.slots) {
        if (!slot.name.startsWith(`${machine.name}/`)) continue;
        this.answers.forgive(slot.name, slot.unsafeSince);
        for (const { from, to } of slot.unsynced) this.answers.forgive(slot.name, from, to);
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
        partitions: () => this.#partitions ?? shape.edgePartitions,
        sync: shape.sync,
        segmentBytes: shape.segmentBytes,
        bytesMax: shape.journalBytesMax,
        turnMs: shape.turnMs,
        recordsPerTurnMax: shape.recordsPerTurnMax,
        isLoaded: () => this.isLoaded,
        clicks: shape.isMatching ? this.clicks : undefined,
        recentIds: this.#recentIds,
      });
      this.slots.push(slot);
      this.#supervised.push(slot);
    }
    this.#addGateway(machine);
    const publisher = new PublisherOfMachine(machine, this.nats, () => shape.logBytesMax);
    this.publishers.push(publisher);
    this.#supervised.push(publisher);
  }

  #addGateway(machine: Machine): void {
    const { redis, postgres, shape, matches } = this;
    const clicks = this.clicks.kept;
    if (redis === undefined) return;
    const isLoaded = () => this.isLoaded;
    const gateway = new GatewayProgram({ machine, postgres, redis, turnMs: shape.turnMs, isLoaded, clicks, matches });
    this.gateways.push(gateway);
    this.#supervised.push(gateway);
  }

  #addIngest(name: string): void {
    const { shape, nats, postgres, clickhouse, redis } = this;
    const machine = new Machine(`center-${name}`, this.scheduler, epochMs);
    this.centers.push(machine);
    const { leaseSeconds, batchRows } = shape;
    const ingest = new IngestInstance({
      machine,
      name,
      partitions: () => this.#partitions ?? shape.partitions,
      leaseSeconds,
      batchRows,
      logBytesMax: () => shape.logBytesMax,
      nats,
      postgres,
      clickhouse,
      redis,
    });
    this.ingests.push(ingest);
    this.#supervised.push(ingest);
  }

  /** Dead programs are restarted after a while, as by a supervisor. */
  #watch(): void {
    const { random } = this.scheduler;
    this.scheduler.after(watchMs, () => {
      for (const one of this.#supervised) {
        if (one.program?.isDead !== true || this.#restarting.has(one)) continue;
        if (one.program.failure !== undefined)
          this.failures.push(`${one.program.name}: ${textOf(one.program.failure)}`);
        this.#restarting.add(one);
        this.scheduler.after(random.next() * restartMsMax, () => {
          this.#restarting.delete(one);
          one.start();
        });
      }
      this.#watch();
    });
  }

  /** Whether no edge has any data left on its disk. */
  get isDrained(): boolean {
    return this.edges.every((machine) => machine.disk.bytes === 0);
  }

  /** Whether a damaged journal waits for an operator. */
  get isDamaged(): boolean {
    return this.publishers.some(({ publisher }) => publisher !== undefined && publisher.damaged.length > 0);
  }

  /** @returns what is not settled although all processes have started again. */
  leftovers(): string[] {
    const { openBatches } = this.postgres;
    return openBatches === 0 ? [] : [`${openBatches} batches are not settled`];
  }

  /** Why the world is not at rest: what is not committed, and what is not within its bounds. Empty if it is. */
  unrest(): string[] {
    const found = this.#untidiness();
    // An expensive check that cannot pass before the others do.
    if (found.length > 0 && !this.isJudged) return found;
    const { postgres, damage } = this;
    const lost = this.answers
      .judge(this.clickhouse.rows, this.clickhouse.expired)
      .lost.filter((n) => !damage.isCounted(n, postgres));
    if (this.isJudged)
      for (const n of lost.slice(0, 20)) this.scheduler.note(() => `not stored: ${this.answers.describe(n)}`);
    if (lost.length > 0)
      found.push(`${lost.length} records are not stored, the first ${this.answers.describe(lost[0] ?? 0)}`);
    if (lost.length > 0 && !this.isJudged) return found;
    const { rollupDifference } = this.clickhouse;
    if (rollupDifference > 0) found.push(`the rollups differ from the raw rows by ${rollupDifference}`);
    const wrong = wronglyAttributed(this.clickhouse.rows, windowHours.attribution_window_hours * HOUR_MS);
    if (wrong.length > 0) found.push(`${wrong.length} events are attributed wrongly, the first: ${wrong[0]}`);
    const unfed = this.#unfed();
    if (unfed.length > 0) found.push(`${unfed.length} clicks are not in Redis, the first ${unfed[0]?.click_id}`);
    return found;
  }

  /**
   * Recent clicks that the log has but Redis lacks, although Redis did not evict them; only of the newest, which are
   * all that Redis keeps.
   */
  #unfed(): readonly ClickFacts[] {
    const { redis, nats } = this;
    if (redis === undefined || this.ingests.some(({ feedCounters }) => feedCounters.clicks_skipped > 0)) return [];
    const inLog = new Set<number>();
    for (const { bytes, storedAt } of nats.stream('log')?.messages ?? [])
      if (storedAt > nats.now - fedMs) for (const { n } of recordsInMessage(bytes)) inLog.add(n);
    const place = `near:${clickApp}:${clickAddress}`;
    const recent = this.clicks.sent.filter(({ time }) => time > nats.now - fedMs);
    // Redis keeps the newest by id; ids of the same millisecond are ordered by their random part.
    const newest = recent.sort((a, b) => (a.click_id < b.click_id ? -1 : 1)).slice(-PER_ADDRESS_MAX);
    return newest.filter(({ n, click_id }) => inLog.has(n) && !redis.holdsOrEvicted(place, addressStart(click_id)));
  }

  #untidiness(): string[] {
    const found: string[] = [];
    const damaged = this.publishers.flatMap(({ publisher }) => publisher?.damaged ?? []);
    for (const machine of this.edges) {
      // If power was lost during a slow sync, a later segment may have outlived an earlier one: its journal stays for
      // an operator.
      const isLeft = (path: string) =>
        machine.disk.hits.power_lost + this.damage.count > 0 &&
        damaged.some(({ producer_id }) => path.includes(producer_id));
      const files = machine.disk.filesIn(journalRoot).filter((path) => !isLeft(path));
      if (files.length > this.shape.slots) found.push(`${machine.name} still has ${files.join(' ')}`);
    }
    for (const { publisher } of this.publishers) {
      if (publisher === undefined) found.push('a publisher is not running');
      else if (publisher.messagesInFlight > 0) found.push('a publisher waits for the log');
    }
    for (const { partitions, program } of this.ingests) {
      const busy = partitions?.owners.filter((owner) => owner.state === 'running' && !owner.isIdle) ?? [];
      for (const { partition } of busy)
        found.push(`${program?.name} has frames of partition ${partition} that are not stored`);
    }
    const { openRevisions } = this.postgres;
    if (openRevisions > 0) found.push(`${openRevisions} partitions have not done what the operator requested`);
    const log = this.nats.stream('log');
    const share = (log?.bytes ?? 0) / (log?.config.max_bytes ?? 1);
    if (share >= logShareMax) found.push(`the log is ${Math.round(share * 100)} % full`);
    return found;
  }
}

function recordsInMessage(bytes: Buffer): SimulatedRecord[] {
  const records: SimulatedRecord[] = [];
  for (let at = 0; at < bytes.length; ) {
    const read = readFrame(bytes, at);
    if (read.state !== 'frame') break;
    records.push(...recordsOf({ header: read.header, bytes: bytes.subarray(at, at + read.bytes) }));
    at += read.bytes;
  }
  return records;
}

export function placeOf({ table, log_partition, producer_id, frame_no, idx }: SimulatedRow): string {
  return `${table}:${log_partition}:${producer_id}:${frame_no}:${idx}`;
}

function textOf(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}
