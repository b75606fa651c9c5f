/** An ingest process of the simulation: the real partition owners, sink and recovery, on simulated stores. */

import { ClickHouseFailure } from '#clickhouse/client.ts';
import { RecentClicks } from '#common/attribution/recent-clicks.ts';
import { keepLogStream } from '#common/log/log-stream.ts';
import { decodeMarksRequest } from '#common/log/marks.ts';
import { PostgresUnavailable } from '#common/stores/postgres.ts';
import { sleep, type Time } from '#common/time.ts';
import { FirstSeenGroup } from '#ingest/attribution/first-seen-group.ts';
import { InstallLookup } from '#ingest/attribution/install-lookup.ts';
import { LateEvents } from '#ingest/attribution/late-events.ts';
import { newFeedCounters, RecentClicksFeed } from '#ingest/attribution/recent-clicks-feed.ts';
import type { Checkpoints } from '#ingest/checkpoints.ts';
import { Chores } from '#ingest/chores.ts';
import { noFailpoints } from '#ingest/failpoints.ts';
import type { SinkParts } from '#ingest/held-partition.ts';
import { partitionsInLog } from '#ingest/log-partitions.ts';
import { LogRoom } from '#ingest/log-room.ts';
import { OwnedPartitions } from '#ingest/owned-partitions.ts';
import { PartitionOwner } from '#ingest/partition-owner.ts';
import { Retention } from '#ingest/retention.ts';
import { newSinkCounters } from '#ingest/sink-counters.ts';
import { clickApp, windowHours } from './click-line.ts';
import type { Machine } from './machine.ts';
import type { Program } from './program.ts';
import { call } from './server-call.ts';
import type { SimulatedClickHouse } from './simulated-clickhouse.ts';
import { SimulatedLateStore, simulatedPartsOf } from './simulated-late-store.ts';
import type { SimulatedNats } from './simulated-nats.ts';
import { SimulatedNatsClient } from './simulated-nats-client.ts';
import type { SimulatedPostgres } from './simulated-postgres.ts';
import { queriesOf } from './simulated-queries.ts';
import { SimulatedRecords } from './simulated-records.ts';
import type { SimulatedRedis } from './simulated-redis.ts';
import { SimulatedStore } from './simulated-store.ts';
import { ThinFormer } from './thin-former.ts';

export interface IngestOptions {
  readonly machine: Machine;
  readonly name: string;
  /** The current LOG_PARTITIONS; a process keeps the value that it started with. */
  readonly partitions: () => number;
  readonly leaseSeconds: number;
  readonly batchRows: number;
  readonly logBytesMax: () => number;
  readonly nats: SimulatedNats;
  readonly postgres: SimulatedPostgres;
  readonly clickhouse: SimulatedClickHouse;
  /** Absent if no gateway matches devices to clicks. */
  readonly redis?: SimulatedRedis | undefined;
}

const flushIntervalMs = 200;
const batchBytes = 8_388_608;
const postgresRetryMs = 1_000;
const queryTimeoutMs = 60_000;
/** The memory for these is allocated whenever an ingest starts, which happens often here. */
const installsRememberedMax = 500;
const factsOfAll = new Map([[clickApp, { ...windowHours, has_ios: true, has_android: true }]]);

export class IngestInstance {
  program: Program | undefined;
  client: SimulatedNatsClient | undefined;
  partitions: OwnedPartitions | undefined;
  /** Summed over all of its processes. */
  readonly counters = newSinkCounters();
  readonly feedCounters = newFeedCounters();
  readonly #options: IngestOptions;

  constructor(options: IngestOptions) {
    this.#options = options;
  }

  start(): void {
    const program = this.#options.machine.start(this.#options.name);
    this.program = program;
    this.partitions = undefined;
    program.enter(() => {
      this.#run(program).catch((error: unknown) => program.failed(error));
    });
  }

  #feedOf(
    partition: number,
    program: Program,
    nats: SimulatedNatsClient,
    storeTimes: Retention,
    log: (line: string) => void,
  ) {
    const { machine, redis: server } = this.#options;
    if (server === undefined) return undefined;
    const [redis, { time }] = [server.of(program, machine), program];
    const clicks = new RecentClicks(redis);
    const [apps, counters] = [{ lastOf: async () => factsOfAll }, this.feedCounters];
    return new RecentClicksFeed({ nats, redis, clicks, apps, partition, storeTimes, time, log, counters });
  }

  #sinkOf(
    program: Program,
    partitions: number,
    checkpoints: Checkpoints,
    retention: Retention,
    allowStrays: (partition: number) => Promise<void>,
    log: SinkParts['log'],
  ): SinkParts {
    const { machine, postgres, clickhouse } = this.#options;
    const { time } = program;
    const stored = new SimulatedRecords(clickhouse, program, machine);
    const installs = new InstallLookup(null, stored, time, installsRememberedMax);
    const clock = () => retention.now ?? time.now();
    const firstSeen = new FirstSeenGroup({ stored, clock, partitions, allowStrays });
    return {
      checkpoints,
      storeTimes: retention,
      store: new SimulatedStore(clickhouse, program, machine),
      former: new ThinFormer({ firstSeen, installs, retention }),
      late: new LateEvents({
        store: new SimulatedLateStore(clickhouse, program, machine),
        cursors: postgres.lateCursorsOf(program, machine),
        installs,
        apps: { of: async () => new Map() },
        partsOf: simulatedPartsOf,
        time,
      }),
      refusedRows: { find: () => Promise.resolve(new Set<string>()) },
      failpoints: noFailpoints,
      time,
      log,
    };
  }

  async #run(program: Program): Promise<void> {
    const { machine, name, leaseSeconds, batchRows, logBytesMax, postgres } = this.#options;
    const partitions = this.#options.partitions();
    const nats = new SimulatedNatsClient(program, this.#options.nats, machine.link);
    this.client = nats;
    await nats.connected();
    const log = (fields: object, line: string) =>
      program.scheduler.note(() => `${program.name}: ${line} ${JSON.stringify(fields)}`);
    const { time } = program;
    const checkpoints = postgres.checkpointsOf(program, machine);
    const installationId = await installationIdOf(checkpoints, time);
    const stream = { bytesMax: logBytesMax(), replicas: 1 };
    const stampLog = () =>
      keepLogStream(nats, stream, (line) => log({}, line), { time, isOwner: true, installationId });
    await stampLog();
    const allowStrays = (partition: number) => owned.allowStrays(partition);
    const retention = this.#retentionOf(program);
    const sink = this.#sinkOf(program, partitions, checkpoints, retention, allowStrays, log);
    const owned: OwnedPartitions = new OwnedPartitions({
      owner: name,
      partitions,
      leaseSeconds,
      members: postgres.membersOf(program, machine),
      makeOwner: (partition) =>
        new PartitionOwner({
          partition,
          owner: name,
          leaseSeconds,
          installationId,
          nats,
          limits: { batchRows, batchBytes, flushIntervalMs },
          sink,
          counters: this.counters,
          time,
          feed: this.#feedOf(partition, program, nats, retention, (line) => log({ partition }, line)),
          mayRun: () => owned.mayRun(),
        }),
      partitionsInLog: () => partitionsInLog(nats),
      partitionsInStore: () => sink.store.partitions(),
      time,
      log,
    });
    this.partitions = owned;
    nats.subscribe(nats.names.marksRequest, (message) => {
      const request = decodeMarksRequest(message.bytes);
      if (request === undefined) return;
      for (const owner of owned.owners) {
        owner.announceAll(request.producerIds);
        owner.noteFloors(request.floors);
      }
    });
    owned.start();
    const readPartitions = () =>
      owned.owners.map(({ partition, reader }) => ({ partition, committedSequence: reader?.committedSequence }));
    new LogRoom({
      nats,
      time,
      partitions: readPartitions,
      checkpoints,
      stampLog,
      log: (line) => log({}, line),
    }).start();
    new Chores({
      ...{ nats, postgres: postgres.choresOf(program, machine), redis: null, checkpoints, retention, time, log },
      erasures: { refresh: () => Promise.resolve() },
      isFirst: () => owned.of(0)?.state === 'running',
    }).start();
  }

  #retentionOf(program: Program): Retention {
    const { machine, clickhouse } = this.#options;
    const unavailable = (why: string) => new ClickHouseFailure('unavailable', 0, why, undefined);
    const caller = { program, link: machine.link, timeoutMs: queryTimeoutMs, unavailable };
    const { query } = queriesOf(clickhouse);
    const asked: typeof query = (sql, params) => call(caller, clickhouse, () => query(sql, params));
    return new Retention({ query: asked }, program.time);
  }
}

/** Waits for Postgres, as the real ingest does when it starts. */
async function installationIdOf(checkpoints: Checkpoints, time: Time): Promise<string> {
  for (;;) {
    try {
      return await checkpoints.installationId();
    } catch (error) {
      if (!(error instanceof PostgresUnavailable)) throw error;
      await sleep(time, postgresRetryMs);
    }
  }
}
