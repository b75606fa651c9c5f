/** All parts of ingest wired together: main.ts runs it, and tests run it with failpoints. */

import { hostname } from 'node:os';
import { ClickHouse } from '#clickhouse/client.ts';
import { AttributionWindows, defaultWindows } from '#common/attribution/attribution-windows.ts';
import { RecentClicks } from '#common/attribution/recent-clicks.ts';
import { RecentInstalls } from '#common/attribution/recent-installs.ts';
import { systemClock } from '#common/clock.ts';
import { keepLogStream } from '#common/log/log-stream.ts';
import { decodeMarksRequest } from '#common/log/marks.ts';
import type { ProcessConfig } from '#common/process/config-roles.ts';
import { Nats } from '#common/stores/nats.ts';
import { Postgres, PostgresUnavailable } from '#common/stores/postgres.ts';
import { Redis } from '#common/stores/redis.ts';
import { sleep, systemTime } from '#common/time.ts';
import { AppWindows } from './attribution/app-windows.ts';
import { Attribution } from './attribution/attribution.ts';
import { ClickLookupServer } from './attribution/click-archive.ts';
import { ClickHouseRecords } from './attribution/clickhouse-records.ts';
import { FirstSeenGroup } from './attribution/first-seen-group.ts';
import { InstallLookup } from './attribution/install-lookup.ts';
import { PostgresLateCursors } from './attribution/late-cursors.ts';
import { LateEvents } from './attribution/late-events.ts';
import { ClickHouseLateStore } from './attribution/late-store.ts';
import { partsOfLearned } from './attribution/learned-events.ts';
import { newFeedCounters, RecentClicksFeed } from './attribution/recent-clicks-feed.ts';
import { BatchFormer } from './batch-former.ts';
import type { Checkpoints } from './checkpoints.ts';
import { Chores } from './chores.ts';
import { ClickHouseStore } from './clickhouse-store.ts';
import { openCountryDatabase } from './country-database.ts';
import { Enrichment } from './enrichment.ts';
import { Erasures } from './erasures.ts';
import type { Failpoints } from './failpoints.ts';
import type { QueueLimits } from './frame-queue.ts';
import { partitionsInLog } from './log-partitions.ts';
import { LogRoom } from './log-room.ts';
import { OwnedPartitions } from './owned-partitions.ts';
import { PartitionOwner } from './partition-owner.ts';
import { PostgresCheckpoints } from './postgres-checkpoints.ts';
import { PostgresMembers } from './postgres-members.ts';
import { RefusedRows } from './refused-rows.ts';
import { newSinkCounters } from './sink-counters.ts';
import { VisitorSalts } from './visitor-salts.ts';
import { Visitors } from './visitors.ts';

const insertTimeoutMs = 60_000;
const postgresRetryMs = 1_000;

export interface IngestOptions {
  readonly config: ProcessConfig<'ingest'>;
  readonly failpoints: Failpoints;
  readonly log: (fields: object, line: string) => void;
}

export class Ingest {
  readonly counters = newSinkCounters();
  readonly enrichment: Enrichment;
  readonly partitions: OwnedPartitions;
  /** Of the feed of recent clicks to Redis. */
  readonly feedCounters = newFeedCounters();
  readonly nats: Nats;
  readonly postgres: Postgres;
  readonly clickhouse: ClickHouse;
  /** Null without REDIS_URL: clicks and installs are then found in ClickHouse alone. */
  readonly redis: Redis | null;
  readonly logRoom: LogRoom;
  readonly chores: Chores;
  readonly #options: IngestOptions;
  readonly #checkpoints: Checkpoints;
  readonly #ends: (() => void)[] = [];
  readonly #archive: ClickLookupServer;
  readonly #installationId: string;
  readonly #erasures: Erasures;

  private constructor(options: IngestOptions, nats: Nats, postgres: Postgres, installationId: string) {
    const { config, failpoints, log } = options;
    this.#options = options;
    this.#installationId = installationId;
    this.nats = nats;
    this.postgres = postgres;
    this.clickhouse = new ClickHouse({ url: config.CLICKHOUSE_URL, requestTimeoutMs: insertTimeoutMs });
    this.#checkpoints = new PostgresCheckpoints(this.postgres);
    const salts = new VisitorSalts(this.#checkpoints, systemTime);
    const countries = openCountryDatabase(config.GEOIP_DB);
    const visitors = new Visitors(salts.of);
    this.#erasures = new Erasures(this.postgres);
    this.enrichment = new Enrichment({ countries, visitors });
    this.redis = config.REDIS_URL === '' ? null : new Redis({ url: config.REDIS_URL, name: 'ingest' });
    const clicks = this.redis && new RecentClicks(this.redis);
    this.#archive = new ClickLookupServer(this.clickhouse);
    const partitions = config.LOG_PARTITIONS;
    const stored = new ClickHouseRecords(this.clickhouse);
    const allowStrays = (partition: number) => this.partitions.allowStrays(partition);
    const installs = new InstallLookup(this.redis && new RecentInstalls(this.redis), stored);
    const attribution = new Attribution({
      firstSeen: new FirstSeenGroup({ stored, clock: systemClock, partitions, allowStrays }),
      installs,
      clicks,
      countries,
    });
    const [enrichment, erasures] = [this.enrichment, this.#erasures];
    const former = new BatchFormer({ enrichment, visitors, days: salts, attribution, erasures });
    const sink = {
      checkpoints: this.#checkpoints,
      store: new ClickHouseStore(this.clickhouse, systemTime),
      former,
      refusedRows: new RefusedRows(this.clickhouse),
      failpoints,
      late: this.#newLateEvents(installs),
      time: systemTime,
      log,
    };
    const owner = `${hostname()}/${config.INSTANCE || process.pid}`;
    const leaseSeconds = config.LEASE_SECONDS;
    const limits = limitsOf(config);
    const common = {
      owner,
      leaseSeconds,
      nats,
      installationId,
      limits,
      sink,
      counters: this.counters,
      time: systemTime,
    };
    this.partitions = new OwnedPartitions({
      owner,
      partitions,
      leaseSeconds,
      members: new PostgresMembers(this.postgres),
      makeOwner: (partition) =>
        new PartitionOwner({
          ...common,
          partition,
          feed: this.#feedOf(partition),
          mayRun: () => this.partitions.mayRun(),
        }),
      partitionsInLog: () => partitionsInLog(nats),
      time: systemTime,
      log,
    });
    this.logRoom = this.#newLogRoom();
    this.chores = this.#newChores();
  }

  #newLateEvents(installs: InstallLookup): LateEvents {
    const { redis, clickhouse } = this;
    const read = async (appIds: readonly string[]) =>
      redis === null ? appIds.map(() => defaultWindows) : await new AttributionWindows(redis).of(appIds);
    const windows = new AppWindows(read, systemClock);
    return new LateEvents({
      store: new ClickHouseLateStore(clickhouse),
      cursors: new PostgresLateCursors(this.postgres),
      installs,
      windows: (appIds) => windows.of(appIds),
      partsOf: partsOfLearned,
      erasures: this.#erasures,
      time: systemTime,
    });
  }

  #newChores(): Chores {
    const { nats, postgres, redis } = this;
    return new Chores({
      ...{ nats, postgres, redis, checkpoints: this.#checkpoints, erasures: this.#erasures },
      isFirst: () => this.partitions.of(0)?.state === 'running',
      log: this.#options.log,
    });
  }

  #newLogRoom(): LogRoom {
    return new LogRoom({
      nats: this.nats,
      time: systemTime,
      partitions: () =>
        this.owners.map(({ partition, reader }) => ({ partition, committedSequence: reader?.committedSequence })),
      checkpoints: this.#checkpoints,
      stampLog: () => keepLog(this.nats, this.#options, this.#installationId),
      log: (line) => this.#options.log({}, line),
    });
  }

  get owners(): readonly PartitionOwner[] {
    return this.partitions.owners;
  }

  #feedOf(partition: number): RecentClicksFeed | undefined {
    const { redis, nats } = this;
    if (!redis) return undefined;
    const log = (line: string) => this.#options.log({ partition }, line);
    const clicks = new RecentClicks(redis);
    return new RecentClicksFeed({ nats, redis, clicks, partition, time: systemTime, log, counters: this.feedCounters });
  }

  /** Connects to the log, and creates or corrects it. */
  static async create(options: IngestOptions): Promise<Ingest> {
    const { config, log } = options;
    const nats = await Nats.connect({
      url: config.NATS_URL,
      name: 'ingest',
      installation: config.INSTALLATION,
      onRefusal: (line) => log({}, line),
    });
    const postgres = new Postgres({
      url: config.INGEST_DATABASE_URL || config.DATABASE_URL,
      name: 'ingest',
      connectionsMax: 4,
    });
    const warn = (line: string) => log({}, line);
    const id = await installationId(new PostgresCheckpoints(postgres), warn);
    await keepLog(nats, options, id);
    return new Ingest(options, nats, postgres, id);
  }

  start(): void {
    void this.redis?.connect().then(() => this.chores.readMemoryPolicy());
    this.#ends.push(
      this.nats.subscribe(this.nats.names.marksRequest, (message) => {
        const request = decodeMarksRequest(message.bytes);
        if (request === undefined) return;
        for (const owner of this.owners) {
          owner.announceAll(request.producerIds);
          if (request.floors.length > 0) owner.noteFloors(request.floors);
        }
      }),
    );
    this.#ends.push(this.#archive.serve(this.nats));
    this.partitions.start();
    this.chores.start();
    this.logRoom.start();
    this.#ends.push(
      () => this.chores.stop(),
      () => this.logRoom.stop(),
    );
  }

  async stop(): Promise<void> {
    for (const end of this.#ends) end();
    await this.partitions.stop();
    await this.redis?.close();
    await this.nats.close();
    await this.clickhouse.close();
    await this.postgres.close();
  }
}

/** Makes sure that the log exists with these settings and belongs to this installation. @throws as `keepLogStream` does */
async function keepLog(nats: Nats, { config, log }: IngestOptions, installationId: string): Promise<void> {
  const stream = { bytesMax: config.LOG_BYTES_MAX, replicas: Number(config.LOG_REPLICAS) };
  await keepLogStream(nats, stream, (line) => log({}, line), { isOwner: true, installationId });
}

function limitsOf(config: ProcessConfig<'ingest'>): QueueLimits {
  return {
    batchRows: config.INGEST_BATCH_ROWS,
    batchBytes: config.INGEST_BATCH_BYTES,
    flushIntervalMs: config.INGEST_FLUSH_INTERVAL_MS,
  };
}

/** Waits for Postgres. */
async function installationId(checkpoints: Checkpoints, warn: (line: string) => void): Promise<string> {
  for (;;) {
    try {
      return await checkpoints.installationId();
    } catch (error) {
      if (!(error instanceof PostgresUnavailable)) throw error;
      warn(`waiting for Postgres: ${error.message}`);
      await sleep(systemTime, postgresRetryMs);
    }
  }
}
