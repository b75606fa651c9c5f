/** Wires all parts of ingest together: main.ts runs it, and tests run it with failpoints. */
import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { ClickHouse } from '#clickhouse/client.ts';
import { RecentClicks } from '#common/attribution/recent-clicks.ts';
import { RecentInstalls } from '#common/attribution/recent-installs.ts';
import { systemClock } from '#common/clock.ts';
import { type CountryDatabase, openCountryDatabase } from '#common/country-database.ts';
import { keepLogStream } from '#common/log/log-stream.ts';
import { decodeMarksRequest } from '#common/log/marks.ts';
import type { ProcessConfig } from '#common/process/config-roles.ts';
import type { StoreLog, StoreName } from '#common/process/store-log.ts';
import { Nats } from '#common/stores/nats.ts';
import { Postgres, PostgresUnavailable } from '#common/stores/postgres.ts';
import { Redis } from '#common/stores/redis.ts';
import { sleep, systemTime } from '#common/time.ts';
import type { Tracing } from '#common/tracing/tracing.ts';
import { type ActiveInstalls, activeInstallsOf } from './active-installs.ts';
import { Attribution } from './attribution/attribution.ts';
import { ClickAgents } from './attribution/click-agents.ts';
import { ClickLookupServer } from './attribution/click-archive.ts';
import { ClickHouseRecords } from './attribution/clickhouse-records.ts';
import { FirstSeenGroup } from './attribution/first-seen-group.ts';
import { InstallLookup } from './attribution/install-lookup.ts';
import { appsIn, KnownApps } from './attribution/known-apps.ts';
import { PostgresLateCursors } from './attribution/late-cursors.ts';
import { LateEvents } from './attribution/late-events.ts';
import { ClickHouseLateStore } from './attribution/late-store.ts';
import { partsOfLearned } from './attribution/learned-events.ts';
import { NamedClicks } from './attribution/named-clicks.ts';
import { newFeedCounters, RecentClicksFeed } from './attribution/recent-clicks-feed.ts';
import { ClickHouseClicks } from './attribution/stored-clicks.ts';
import { BatchFormer } from './batch-former.ts';
import type { Checkpoints } from './checkpoints.ts';
import { Chores } from './chores.ts';
import { ClaimedName, processPlace } from './claimed-name.ts';
import { ClickHouseStore } from './clickhouse-store.ts';
import { Enrichment } from './enrichment.ts';
import { Erasures } from './erasures.ts';
import type { Failpoints } from './failpoints.ts';
import type { QueueLimits } from './frame-queue.ts';
import type { SinkParts } from './held-partition.ts';
import { partitionsInLog } from './log-partitions.ts';
import { LogRoom } from './log-room.ts';
import { OwnedPartitions } from './owned-partitions.ts';
import { PartitionOwner } from './partition-owner.ts';
import { PostgresCheckpoints } from './postgres-checkpoints.ts';
import { PostgresMembers } from './postgres-members.ts';
import { RefusedRows } from './refused-rows.ts';
import { Retention } from './retention.ts';
import { newSinkCounters } from './sink-counters.ts';
import { tracedSink } from './traced-sink.ts';
import { VisitorSalts } from './visitor-salts.ts';
import { Visitors } from './visitors.ts';

const insertTimeoutMs = 60_000;
const postgresRetryMs = 1_000;

export interface IngestOptions {
  readonly config: ProcessConfig<'ingest'>;
  readonly failpoints: Failpoints;
  /** If absent, no traces are written. */
  readonly tracing?: Tracing | undefined;
  readonly log: (fields: object, line: string, level?: 'warn') => void;
  /** Whether ClickHouse has the schema: until then, clicks are only copied to Redis. Yes if absent. */
  readonly hasSchema?: () => boolean;
  /** Where failures of stores are logged. */
  readonly stores?: StoreLog;
  /** Ends the process, because another process has its name. */
  readonly end: (reason: string) => void;
}

export class Ingest {
  readonly counters = newSinkCounters();
  readonly enrichment: Enrichment;
  readonly partitions: OwnedPartitions;
  /** Counters of the feed of recent clicks to Redis. */
  readonly feedCounters = newFeedCounters();
  readonly nats: Nats;
  readonly postgres: Postgres;
  readonly clickhouse: ClickHouse;
  /** Null without REDIS_URL: clicks and installs are then found only in ClickHouse. */
  readonly redis: Redis | null;
  readonly logRoom: LogRoom;
  readonly chores: Chores;
  readonly retention: Retention;
  readonly #options: IngestOptions;
  readonly #checkpoints: Checkpoints;
  readonly #ends: (() => void)[] = [];
  readonly archive: ClickLookupServer;
  readonly #installationId: string;
  readonly #name: ClaimedName;
  readonly #erasures: Erasures;
  readonly #apps: KnownApps;
  readonly #agents = new ClickAgents();
  readonly #activeInstalls: ActiveInstalls;
  /** The clock of this process decides nothing once that of ClickHouse is known. */
  readonly #storeClock = () => this.retention.now ?? systemClock();

  private constructor(options: IngestOptions, nats: Nats, postgres: Postgres, id: string, name: ClaimedName) {
    const { config, failpoints, log, tracing } = options;
    this.#options = options;
    this.#installationId = id;
    this.#name = name;
    this.nats = nats;
    this.postgres = postgres;
    this.clickhouse = new ClickHouse({
      url: config.CLICKHOUSE_URL,
      requestTimeoutMs: insertTimeoutMs,
      ...errorsOf(options, 'ClickHouse', 'CLICKHOUSE_URL'),
    });
    this.#checkpoints = new PostgresCheckpoints(this.postgres);
    const salts = new VisitorSalts(this.#checkpoints);
    const countries = openCountryDatabase(config.GEOIP_DB);
    const visitors = new Visitors(salts.of);
    this.#erasures = new Erasures(this.postgres);
    this.enrichment = new Enrichment({ countries, visitors });
    this.redis =
      config.REDIS_URL === ''
        ? null
        : new Redis({ url: config.REDIS_URL, name: 'ingest', ...errorsOf(options, 'Redis', 'REDIS_URL') });
    this.retention = new Retention(this.clickhouse, systemTime);
    this.archive = new ClickLookupServer(this.clickhouse, this.postgres, this.#storeClock);
    this.#apps = new KnownApps(appsIn(this.postgres), systemClock);
    const partitions = config.LOG_PARTITIONS;
    const stored = new ClickHouseRecords(this.clickhouse);
    const installs = new InstallLookup(this.redis && new RecentInstalls(this.redis), stored);
    const attribution = this.#newAttribution(stored, installs, countries);
    const [enrichment, erasures, retention] = [this.enrichment, this.#erasures, this.retention];
    const former = new BatchFormer({ enrichment, visitors, days: salts, attribution, erasures, retention });
    const parts: SinkParts = {
      checkpoints: this.#checkpoints,
      store: new ClickHouseStore(this.clickhouse, systemTime),
      former,
      refusedRows: new RefusedRows(this.clickhouse),
      failpoints,
      late: this.#newLateEvents(installs),
      storeTimes: retention,
      time: systemTime,
      log,
    };
    const sink = tracing === undefined ? parts : tracedSink(parts, tracing);
    const owner = name.name;
    const [leaseSeconds, limits] = [config.LEASE_SECONDS, limitsOf(config)];
    const { counters } = this;
    const common = { owner, leaseSeconds, nats, installationId: id, limits, sink, counters, time: systemTime };
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
          hasSchema: options.hasSchema,
          mayRun: () => this.partitions.mayRun(),
        }),
      partitionsInLog: () => partitionsInLog(nats),
      partitionsInStore: () => parts.store.partitions(),
      time: systemTime,
      log,
    });
    this.logRoom = this.#newLogRoom();
    this.chores = this.#newChores();
    const isFirst = () => this.partitions.of(0)?.state === 'running';
    this.#activeInstalls = activeInstallsOf(config.CLICKHOUSE_URL, postgres, isFirst, log);
  }

  #newAttribution(stored: ClickHouseRecords, installs: InstallLookup, countries: CountryDatabase): Attribution {
    const { redis, clickhouse } = this;
    const recent = redis && new RecentClicks(redis);
    const partitions = this.#options.config.LOG_PARTITIONS;
    const allowStrays = (partition: number) => this.partitions.allowStrays(partition);
    const clock = this.#storeClock;
    const time = { elapsed: systemTime.elapsed, now: clock };
    return new Attribution({
      firstSeen: new FirstSeenGroup({ stored, clock, partitions, allowStrays }),
      installs,
      clicks: new NamedClicks({ recent, stored: new ClickHouseClicks(clickhouse), apps: this.#apps, time }),
      countries,
    });
  }

  #newLateEvents(installs: InstallLookup): LateEvents {
    return new LateEvents({
      store: new ClickHouseLateStore(this.clickhouse),
      cursors: new PostgresLateCursors(this.postgres),
      installs,
      apps: this.#apps,
      partsOf: partsOfLearned,
      erasures: this.#erasures,
      time: systemTime,
    });
  }

  #newChores(): Chores {
    const { nats, postgres, redis } = this;
    return new Chores({
      ...{ nats, postgres, redis, checkpoints: this.#checkpoints, erasures: this.#erasures, retention: this.retention },
      isFirst: () => this.partitions.of(0)?.state === 'running',
      time: systemTime,
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
    const [apps, counters, agents] = [this.#apps, this.feedCounters, this.#agents];
    const storeTimes = this.retention;
    return new RecentClicksFeed({
      ...{ nats, redis, clicks, apps, partition, storeTimes, time: systemTime, log, counters, agents },
    });
  }

  /** Connects to the log, and creates or corrects its stream. */
  static async create(options: IngestOptions): Promise<Ingest> {
    const { config, log } = options;
    const nats = await Nats.connect({
      url: config.NATS_URL,
      name: 'ingest',
      installation: config.INSTALLATION,
      onRefusal: (line) => log({}, line),
      ...errorsOf(options, 'NATS', 'NATS_URL'),
    });
    const postgres = new Postgres({
      url: config.INGEST_DATABASE_URL || config.DATABASE_URL,
      name: 'ingest',
      connectionsMax: 4,
      ...errorsOf(options, 'Postgres', config.INGEST_DATABASE_URL ? 'INGEST_DATABASE_URL' : 'DATABASE_URL'),
    });
    const warn = (line: string) => log({}, line);
    const checkpoints = new PostgresCheckpoints(postgres);
    const id = await patiently(() => checkpoints.installationId(), warn);
    await keepLog(nats, options, id);
    const name = new ClaimedName({
      postgres,
      holder: {
        name: `${config.MACHINE_NAME || hostname()}/${config.INSTANCE || process.pid}`,
        run: randomUUID(),
        place: processPlace(),
        pid: process.pid,
      },
      time: systemTime,
      onTaken: () => options.end(nameTaken(name.name)),
    });
    if (!(await patiently(() => name.take(), warn))) throw new Error(nameTaken(name.name));
    return new Ingest(options, nats, postgres, id, name);
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
    this.#ends.push(this.archive.serve(this.nats));
    this.#name.start();
    this.partitions.start();
    this.chores.start();
    this.#activeInstalls.start();
    this.logRoom.start();
    this.#ends.push(
      () => this.chores.stop(),
      () => this.logRoom.stop(),
    );
  }

  async stop(): Promise<void> {
    for (const end of this.#ends) end();
    await this.#activeInstalls.stop();
    await this.partitions.stop();
    await this.#name.stop();
    await this.redis?.close();
    await this.nats.close();
    await this.clickhouse.close();
    await this.postgres.close();
  }
}

/** Ensures that the log exists with these settings and belongs to this installation. @throws as `keepLogStream` does */
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

function nameTaken(name: string): string {
  return `another ingest runs as ${name}: give each machine a MACHINE_NAME of its own, and each ingest of a machine an INSTANCE`;
}

/** Retries until Postgres is available. */
async function patiently<T>(ask: () => Promise<T>, warn: (line: string) => void): Promise<T> {
  for (;;) {
    try {
      return await ask();
    } catch (error) {
      if (!(error instanceof PostgresUnavailable)) throw error;
      warn(`waiting for Postgres: ${error.message}`);
      await sleep(systemTime, postgresRetryMs);
    }
  }
}

function errorsOf(
  { stores }: IngestOptions,
  store: StoreName,
  setting: string,
): { readonly onError?: (error: unknown) => void } {
  return stores === undefined ? {} : { onError: stores.of(store, setting) };
}
