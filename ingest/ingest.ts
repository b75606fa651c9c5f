/** All parts of ingest put together: what main.ts runs, and what tests run with places to die at. */
import { hostname } from 'node:os';
import { ClickHouse } from '#clickhouse/client.ts';
import { systemClock } from '#common/clock.ts';
import type { Config } from '#common/config.ts';
import { isObject, keepLogStream } from '#common/log/log-stream.ts';
import { Nats } from '#common/nats.ts';
import { Postgres, PostgresUnavailable } from '#common/postgres.ts';
import { RecentClicks } from '#common/recent-clicks.ts';
import { RecentInstalls } from '#common/recent-installs.ts';
import { Redis } from '#common/redis.ts';
import { systemTime } from '#common/time.ts';
import { Attribution } from './attribution/attribution.ts';
import { ClickArchive } from './attribution/click-archive.ts';
import { ClickHouseRecords } from './attribution/clickhouse-records.ts';
import { FirstSeen, newIdFilters } from './attribution/first-seen.ts';
import { InstallLookup } from './attribution/install-lookup.ts';
import { RecentClicksFeed } from './attribution/recent-clicks-feed.ts';
import { BatchFormer } from './batch.ts';
import type { Checkpoints } from './checkpoints.ts';
import type { Failpoints } from './failpoints.ts';
import { LogRoom } from './log-room.ts';
import { PartitionOwner } from './partition-owner.ts';
import { PipelineRun } from './pipeline.ts';
import { PostgresCheckpoints } from './postgres-checkpoints.ts';
import { RefusedRows } from './refused-rows.ts';
import { Rollups } from './rollups.ts';
import { newSinkCounters } from './sink.ts';
import { addressStep, openCountryDatabase } from './steps/address.ts';
import { deviceStep } from './steps/device.ts';
import { headersStep } from './steps/headers.ts';
import { linkStep } from './steps/link.ts';
import { Visitors, visitorStep } from './steps/visitor.ts';
import { VisitorSalts } from './visitor-salts.ts';

/** Distinct texts that are remembered; about 60 MB together when they are many. */
const agentsMax = 50_000;
const addressesMax = 100_000;
const headersMax = 20_000;
const linksMax = 50_000;
const linkBytesMax = 32_000_000;
const insertTimeoutMs = 60_000;

export interface IngestOptions {
  readonly config: Config;
  readonly failpoints: Failpoints;
  readonly log: (fields: object, line: string) => void;
}

export class Ingest {
  readonly counters = newSinkCounters();
  readonly pipeline: PipelineRun;
  readonly owners: readonly PartitionOwner[];
  readonly nats: Nats;
  readonly postgres: Postgres;
  readonly clickhouse: ClickHouse;
  /** Null without REDIS_URL: clicks and installs are then found in ClickHouse alone. */
  readonly redis: Redis | null;
  readonly feeds: readonly RecentClicksFeed[];
  readonly logRoom: LogRoom;
  readonly #options: IngestOptions;
  readonly #checkpoints: Checkpoints;
  readonly #ends: (() => void)[] = [];
  readonly #archive: ClickArchive;

  private constructor(options: IngestOptions, nats: Nats) {
    const { config, failpoints, log } = options;
    this.#options = options;
    this.nats = nats;
    this.postgres = new Postgres({ url: config.DATABASE_URL, name: 'ingest', connectionsMax: 4 });
    this.clickhouse = new ClickHouse({ url: config.CLICKHOUSE_URL, requestTimeoutMs: insertTimeoutMs });
    this.#checkpoints = new PostgresCheckpoints(this.postgres);
    const salts = new VisitorSalts(this.#checkpoints, systemTime);
    const countries = openCountryDatabase(config.GEOIP_DB);
    const visitors = new Visitors(salts.of, agentsMax);
    this.pipeline = new PipelineRun([
      ['link', linkStep(linksMax, linkBytesMax)],
      ['device', deviceStep(agentsMax)],
      ['headers', headersStep(headersMax)],
      ['address', addressStep(countries, addressesMax)],
      ['visitor', visitorStep(visitors, addressesMax)],
    ]);
    this.redis = config.REDIS_URL === '' ? null : new Redis({ url: config.REDIS_URL, name: 'ingest' });
    const clicks = this.redis && new RecentClicks(this.redis);
    this.#archive = new ClickArchive(this.clickhouse);
    this.feeds = Array.from({ length: config.LOG_PARTITIONS }, (_, partition) => partition).flatMap((partition) => {
      const { redis } = this;
      if (!redis || !clicks) return [];
      const logLine = (line: string) => log({ partition }, line);
      return [new RecentClicksFeed({ nats, redis, clicks, partition, clock: systemClock, log: logLine })];
    });
    const partitions = config.LOG_PARTITIONS;
    const stored = new ClickHouseRecords(this.clickhouse);
    const seen = { stored, clock: systemClock, partitions, filters: newIdFilters() };
    const attribution = new Attribution({
      firstSeen: Array.from({ length: partitions }, (_, partition) => new FirstSeen({ ...seen, partition })),
      installs: new InstallLookup(this.redis && new RecentInstalls(this.redis), stored),
      clicks,
      countries,
    });
    const former = new BatchFormer({ pipeline: this.pipeline, visitors, days: salts, attribution });
    const sink = {
      checkpoints: this.#checkpoints,
      clickhouse: this.clickhouse,
      rollups: new Rollups(this.clickhouse),
      former,
      refusedRows: new RefusedRows(this.clickhouse),
      failpoints,
      time: systemTime,
      log,
    };
    this.owners = Array.from({ length: config.LOG_PARTITIONS }, (_, partition) => {
      return new PartitionOwner({
        partition,
        owner: `${hostname()}/${config.INSTANCE || process.pid}`,
        leaseSeconds: config.LEASE_SECONDS,
        nats,
        limits: {
          batchRows: config.INGEST_BATCH_ROWS,
          batchBytes: config.INGEST_BATCH_BYTES,
          flushIntervalMs: config.INGEST_FLUSH_INTERVAL_MS,
        },
        sink,
        counters: this.counters,
        time: systemTime,
      });
    });
    this.logRoom = new LogRoom({
      nats,
      time: systemTime,
      partitions: () =>
        this.owners.map(({ partition, reader }) => ({ partition, committedSequence: reader?.committedSequence })),
      log: (line) => log({}, line),
    });
  }

  /** Connects to the log and makes sure that it is as it must be. */
  static async create(options: IngestOptions): Promise<Ingest> {
    const { config, log } = options;
    const nats = await Nats.connect({ url: config.NATS_URL, name: 'ingest', installation: config.INSTALLATION });
    const streamOptions = { bytesMax: config.LOG_BYTES_MAX, replicas: Number(config.LOG_REPLICAS) };
    await keepLogStream(nats, streamOptions, (line) => log({}, line), { isOwner: true });
    return new Ingest(options, nats);
  }

  start(): void {
    void this.redis?.connect();
    this.#ends.push(
      this.nats.subscribe(this.nats.names.marksRequest, (message) => {
        const producerIds = producersIn(message.bytes);
        if (producerIds === undefined) return;
        for (const owner of this.owners) owner.announceAll(producerIds);
      }),
      this.nats.subscribe(this.nats.names.progress, (message) => void this.#onProgress(message.bytes)),
    );
    this.#ends.push(this.#archive.serve(this.nats));
    for (const feed of this.feeds) {
      void feed.start();
      this.#ends.push(() => feed.stop());
    }
    for (const owner of this.owners) owner.start();
    this.logRoom.start();
    this.#ends.push(() => this.logRoom.stop());
  }

  async stop(): Promise<void> {
    for (const end of this.#ends) end();
    await Promise.all(this.owners.map((owner) => owner.stop()));
    await this.redis?.close();
    await this.nats.close();
    await this.clickhouse.close();
    await this.postgres.close();
  }

  /** What publishers tell of their journals is kept where queries find it; the owner of partition 0 does it for all. */
  async #onProgress(bytes: Buffer): Promise<void> {
    if (this.owners[0]?.state !== 'running') return;
    const { machine, committed_to } = objectIn(bytes);
    if (typeof machine !== 'string' || machine.length > 255 || typeof committed_to !== 'number') return;
    try {
      await this.#checkpoints.reportProgress(machine, Math.floor(committed_to));
    } catch (error) {
      if (!(error instanceof PostgresUnavailable)) throw error;
      this.#options.log({ reason: error.message }, 'progress could not be kept');
    }
  }
}

function objectIn(bytes: Buffer): Record<string, unknown> {
  try {
    const parsed: unknown = JSON.parse(bytes.toString());
    return isObject(parsed) ? parsed : {};
  } catch {
    return {};
  }
}

/** The producer ids in a request; `undefined` for what is no request. */
function producersIn(bytes: Buffer): Set<string> | undefined {
  const text = bytes.toString();
  if (!text.startsWith('["') && text !== '[]') return undefined;
  try {
    const parsed: unknown = JSON.parse(text);
    return Array.isArray(parsed) ? new Set(parsed.filter((id) => typeof id === 'string')) : undefined;
  } catch {
    return undefined;
  }
}
