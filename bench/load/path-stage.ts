/**
 * The path of a click with its own servers and processes, and rounds of clicks through it (see path.ts).
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ClickHouse } from '#clickhouse/client.ts';
import { migrateClickHouse } from '#clickhouse/migrate.ts';
import { defaultInstallation } from '#common/log/log-names.ts';
import { decodeAnnouncement } from '#common/log/marks.ts';
import { Nats } from '#common/stores/nats.ts';
import { sleep, systemTime } from '#common/time.ts';
import { startClickHouse } from '#deploy/local/clickhouse/spawn.ts';
import { startNats, startPostgres, startRedis } from '#deploy/local/servers.ts';
import { migratePostgres } from '#pg-migrations/migrate.ts';
import { ownFolder } from './result-file.ts';
import { Subject, treeCpuUs } from './subject.ts';

const drainedWithinMs = 30_000;
/** Enough for the recent clicks of all rounds, at about a kilobyte each. */
const redisBytesMax = 4_294_967_296;

export interface Round {
  readonly rate: number;
  readonly clicks: number;
  /** CPU microseconds per click, by process. */
  readonly us: Readonly<Record<string, number>>;
  readonly lag_p50_ms: number;
  readonly lag_p99_ms: number;
  readonly lost: number;
  readonly rollup_difference: number;
}

interface Answer {
  readonly producer_id: string;
  /** By partition. */
  readonly last_frames: readonly number[];
  readonly committed: number;
}

export const tell = (line: string) => process.stderr.write(`${new Date().toISOString().slice(11, 19)} ${line}\n`);

interface Server {
  readonly pid: number;
  stop(): Promise<void>;
}

interface StageOptions {
  /** The checkout whose processes are measured, as they were built there. */
  readonly root: string;
  readonly turn: string;
  readonly people: string;
  readonly isWithRedis: boolean;
  /** The name of the process to profile. */
  readonly profile: string;
  readonly partitions: number;
  readonly ingests: number;
}

interface StageParts {
  readonly name: string;
  readonly folder: string;
  readonly nats: Nats;
  readonly clickhouse: ClickHouse;
  readonly source: Subject;
  /** Measured processes by name, in the order of the path. */
  readonly measured: ReadonlyMap<string, Server>;
}

export class PathStage {
  /** Rounds by rate. */
  readonly figures = new Map<number, Round[]>();
  readonly #parts: StageParts;
  /** The marks that the sink has announced, each with its time. */
  #seen: { readonly partition: number; readonly mark: number; readonly at: number }[] = [];
  #fromFrames: readonly number[] = [];

  private constructor(parts: StageParts) {
    this.#parts = parts;
    parts.nats.subscribe(parts.nats.names.marks, ({ bytes }) => {
      const now = Date.now();
      for (const { partition, mark } of decodeAnnouncement(bytes)?.lanes ?? [])
        this.#seen.push({ partition, mark, at: now });
    });
  }

  get name(): string {
    return this.#parts.name;
  }

  static async open(options: StageOptions): Promise<PathStage> {
    const folder = mkdtempSync(join(tmpdir(), 'signpost-bench-'));
    tell('starting the servers');
    const [postgres, clickhouse, nats, redis] = await Promise.all([
      startPostgres({ dataDir: join(folder, 'postgres') }),
      startClickHouse({ dataDir: join(folder, 'clickhouse'), port: 0 }),
      startNats({ dataDir: join(folder, 'nats') }),
      startRedis({ dataDir: join(folder, 'redis'), warn: tell, bytesMax: redisBytesMax }),
    ]);
    const client = new ClickHouse({ url: `${clickhouse.url}/bench` });
    await migratePostgres({ url: postgres.url });
    await migrateClickHouse(client, { retentionDays: 730 });
    const settings = {
      DATA_DIR: folder,
      INSTANCE: 'edge-0',
      DATABASE_URL: postgres.url,
      CLICKHOUSE_URL: `${clickhouse.url}/bench`,
      NATS_URL: nats.url,
      REDIS_URL: options.isWithRedis ? redis.url : '',
      LOG_PARTITIONS: String(options.partitions),
      LOG_LEVEL: 'info',
    };
    const profiling = (name: string) =>
      options.profile === name ? ['--cpu-prof', `--cpu-prof-dir=${join(ownFolder, 'path-profiles')}`] : [];
    const source = Subject.start('source', 'bench/load/click-source.ts', settings, profiling('source'), [
      options.turn,
      options.people,
    ]);
    await source.line(/"ready"/);
    const built = (name: string, INSTANCE: string) =>
      Subject.start(name, join(options.root, 'dist', name, 'main.js'), { ...settings, INSTANCE }, profiling(name));
    const publisher = built('publisher', settings.INSTANCE);
    const ingests = Array.from({ length: options.ingests }, (_, at) => built('ingest', `ingest-${at}`));
    await Promise.all([publisher.line(/"part":"publisher"/), ...ingests.map((one) => one.line(/"part":"ingest"/))]);
    const measured = new Map<string, Server>([
      ['source', source],
      ['publisher', publisher],
      ['nats', nats],
      ...ingests.map((ingest, at) => [at === 0 ? 'ingest' : `ingest ${at + 1}`, ingest] as const),
      ['clickhouse', clickhouse],
      ['postgres', postgres],
      ...(options.isWithRedis ? [['redis', redis] as const] : []),
    ]);
    if (!options.isWithRedis) await redis.stop();
    const connection = await Nats.connect({ url: nats.url, name: 'bench', installation: defaultInstallation });
    const several = options.partitions * options.ingests > 1;
    const name = `${options.root}${several ? `, ${options.partitions} partitions, ${options.ingests} ingests` : ''}`;
    return new PathStage({ name, folder, nats: connection, clickhouse: client, source, measured });
  }

  async round(rate: number, seconds: number): Promise<Round> {
    const { measured, source } = this.#parts;
    this.#seen = [];
    const read = () => [...measured].map(([name, { pid }]) => [name, treeCpuUs(pid)] as const);
    const before = new Map(read());
    const started = source.line(/\{"producer_id".*\}/);
    source.write(`${rate} ${seconds}\n`);
    const answer: Answer = JSON.parse((await started)[0]);
    await this.#drained(answer.last_frames);
    const clicks = answer.committed;
    const us = Object.fromEntries(read().map(([name, cpuUs]) => [name, (cpuUs - (before.get(name) ?? 0)) / clicks]));
    const stored = await this.#stored(answer);
    this.#fromFrames = answer.last_frames;
    return { rate, clicks, us: { ...us, total: sum(Object.values(us)) }, ...stored, lost: clicks - stored.rows };
  }

  async #drained(lastFrames: readonly number[]): Promise<void> {
    const deadline = performance.now() + drainedWithinMs;
    const isSeen = (frame: number, partition: number) =>
      frame === (this.#fromFrames[partition] ?? 0) || this.#seenAt(partition, frame) < Number.POSITIVE_INFINITY;
    while (!lastFrames.every(isSeen)) {
      if (performance.now() > deadline) throw new Error('the clicks were not all committed in time');
      await sleep(systemTime, 5);
    }
  }

  #seenAt(partition: number, frame: number): number {
    return this.#seen.find((one) => one.partition === partition && one.mark >= frame)?.at ?? Number.POSITIVE_INFINITY;
  }

  /** How long each click of the round took until it was announced, and what the tables contain. */
  async #stored({
    producer_id,
    last_frames,
  }: Answer): Promise<{ rows: number; lag_p50_ms: number; lag_p99_ms: number; rollup_difference: number }> {
    const { clickhouse } = this.#parts;
    const lags: number[] = [];
    for (const [partition, to] of last_frames.entries()) {
      const frames = await clickhouse.query<{ frame_no: number; time: number; rows: number }>(
        `SELECT frame_no, toUnixTimestamp64Milli(min(time)) AS time, count() AS rows FROM clicks
          WHERE producer_id = {producer_id:String} AND log_partition = {partition:UInt16}
            AND frame_no > {from:UInt64} AND frame_no <= {to:UInt64}
          GROUP BY frame_no ORDER BY frame_no`,
        { producer_id, partition, from: this.#fromFrames[partition] ?? 0, to },
      );
      for (const { frame_no, time, rows } of frames) {
        const seenAt = this.#seenAt(partition, frame_no);
        for (let n = 0; n < rows; n++) lags.push(seenAt - time);
      }
    }
    const [sums] = await clickhouse.query<{ difference: number }>(
      `SELECT abs((SELECT sum(rows) FROM clicks_by_link) - toInt64(count()))
            + abs((SELECT sum(rows) FROM clicks_by_dimension WHERE dimension = 'day') - toInt64(count())) AS difference FROM clicks`,
    );
    lags.sort((a, b) => a - b);
    const at = (share: number) => lags[Math.floor(lags.length * share)] ?? Number.NaN;
    return {
      rows: lags.length,
      lag_p50_ms: at(0.5),
      lag_p99_ms: at(0.99),
      rollup_difference: Number(sums?.difference),
    };
  }

  async close(): Promise<void> {
    const { measured, nats, clickhouse, folder } = this.#parts;
    await nats.close();
    await clickhouse.close();
    const servers = ['nats', 'clickhouse', 'postgres', 'redis'];
    for (const [name, one] of measured) if (!servers.includes(name)) await one.stop();
    for (const name of servers) await measured.get(name)?.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
