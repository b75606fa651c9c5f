/**
 * Partition owners for tests: the sink and its recovery on a real Postgres and ClickHouse, with frames made by the
 * test.
 */
import { ClickHouse } from '#clickhouse/client.ts';
import { columnsOf, rollups } from '#clickhouse/rollups.ts';
import { openCountryDatabase } from '#common/country-database.ts';
import { encodeFrame, readFrame } from '#common/log/frame.ts';
import { Postgres } from '#common/stores/postgres.ts';
import { systemTime, type Time } from '#common/time.ts';
import { Attribution } from '#ingest/attribution/attribution.ts';
import { ClickHouseRecords } from '#ingest/attribution/clickhouse-records.ts';
import { FirstSeen, newIdFilters } from '#ingest/attribution/first-seen.ts';
import { InstallLookup } from '#ingest/attribution/install-lookup.ts';
import { PostgresLateCursors } from '#ingest/attribution/late-cursors.ts';
import { LateEvents } from '#ingest/attribution/late-events.ts';
import { ClickHouseLateStore } from '#ingest/attribution/late-store.ts';
import { partsOfLearned } from '#ingest/attribution/learned-events.ts';
import { BatchFormer } from '#ingest/batch-former.ts';
import { ClickHouseStore } from '#ingest/clickhouse-store.ts';
import { Enrichment } from '#ingest/enrichment.ts';
import { Erasures } from '#ingest/erasures.ts';
import { noFailpoints } from '#ingest/failpoints.ts';
import type { LogFrame } from '#ingest/formed-batch.ts';
import type { StoreTimes } from '#ingest/frame-clock.ts';
import { FrameQueue } from '#ingest/frame-queue.ts';
import { HeldLease } from '#ingest/held-lease.ts';
import { HeldPartition } from '#ingest/held-partition.ts';
import { PostgresCheckpoints } from '#ingest/postgres-checkpoints.ts';
import type { RawStore } from '#ingest/raw-store.ts';
import { recoverBatches } from '#ingest/recovery.ts';
import { RefusedRows } from '#ingest/refused-rows.ts';
import { Sink } from '#ingest/sink.ts';
import { newSinkCounters } from '#ingest/sink-counters.ts';
import { Visitors } from '#ingest/visitors.ts';
import { clickhouseForTest, postgresForTest, type TestDatabase, type TestPostgres } from '#testing/servers.ts';
import { testClick } from './pipeline-harness.ts';

const leaseSeconds = 30;
const limits = { batchRows: 10_000, batchBytes: 8_000_000, flushIntervalMs: 10 };
const countries = openCountryDatabase('');
const visitors = new Visitors(() => 'salt');

type Owned = Pick<TestPostgres, 'url' | 'urlAs' | 'stop'>;

export interface TestOwner {
  readonly partition: number;
  readonly sink: Sink;
  readonly late: LateEvents;
  readonly queue: FrameQueue;
  readonly log: string[];
  /** Ends the owner as a kill would: its lease is not released. */
  die(): void;
}

export class SinkStage {
  postgres: Postgres;
  readonly clickhouse: ClickHouse;
  checkpoints: PostgresCheckpoints;
  readonly erasures: Erasures;
  readonly store: ClickHouseStore;
  readonly #databases: readonly [postgres: Owned, clickhouse: Pick<TestDatabase, 'url' | 'stop'>];
  readonly #time: Time;
  readonly #storeTimes: StoreTimes | undefined;
  readonly #owners: TestOwner[] = [];
  #owner = 0;
  #frameNo = 0;

  /** @param time the clock of the sinks. @param storeTimes that of ClickHouse, if they know it. */
  constructor(
    databases: readonly [postgres: Owned, clickhouse: Pick<TestDatabase, 'url' | 'stop'>],
    time: Time = systemTime,
    storeTimes?: StoreTimes,
  ) {
    this.#storeTimes = storeTimes;
    this.#databases = databases;
    this.#time = time;
    this.postgres = new Postgres({ url: databases[0].urlAs('signpost_ingest'), name: 'test' });
    this.clickhouse = new ClickHouse({ url: databases[1].url });
    this.checkpoints = new PostgresCheckpoints(this.postgres);
    this.store = new ClickHouseStore(this.clickhouse, systemTime);
    this.erasures = new Erasures(this.postgres);
  }

  static async start(): Promise<SinkStage> {
    return new SinkStage([await postgresForTest(), await clickhouseForTest()]);
  }

  /** A new stage on the same databases, which it empties: faster than creating new ones. Ends this stage. */
  async renewed(): Promise<SinkStage> {
    await this.disconnect();
    const next = new SinkStage(this.#databases, this.#time, this.#storeTimes);
    await next.#empty();
    return next;
  }

  async #empty(): Promise<void> {
    const owner = new Postgres({ url: this.#databases[0].url, name: 'test-operator' });
    await owner.execute(`DO $$ BEGIN
      EXECUTE format('ALTER DATABASE %I RESET ALL', current_database());
      EXECUTE (SELECT 'TRUNCATE ' || string_agg(format('%I.%I', schemaname, tablename), ', ') || ' RESTART IDENTITY CASCADE'
                 FROM pg_tables WHERE schemaname = 'ingest' AND tablename <> ALL ('{installation,numbering,deletion_clock}'));
    END $$`);
    await owner.close();
    const filled = await this.clickhouse.query<{ name: string }>(
      "SELECT name FROM system.tables WHERE database = currentDatabase() AND total_rows > 0 AND name != 'migrations'",
    );
    for (const { name } of filled) await this.clickhouse.command(`TRUNCATE TABLE ${name}`);
  }

  /** Opens new sessions, to which new settings of the database apply. */
  async reconnect(): Promise<void> {
    await this.postgres.close();
    this.postgres = new Postgres({ url: this.#databases[0].urlAs('signpost_ingest'), name: 'test' });
    this.checkpoints = new PostgresCheckpoints(this.postgres);
  }

  /** Runs SQL as the operator, who has more privileges than ingest. */
  async administer(sql: string, params: readonly unknown[] = []): Promise<void> {
    const owner = new Postgres({ url: this.#databases[0].url, name: 'test-operator' });
    await owner.execute(sql, params);
    await owner.close();
  }

  /** A new owner of a partition, as after a restart: it has reconciled what was left. */
  async own(partition = 0, store: RawStore = this.store): Promise<TestOwner> {
    const { checkpoints, postgres, clickhouse } = this;
    await postgres.execute("UPDATE ingest.lease SET expires_at = now() - interval '1 second' WHERE partition = $1", [
      partition,
    ]);
    const held = await HeldLease.acquire({
      checkpoints,
      partition,
      owner: `owner-${++this.#owner}`,
      seconds: leaseSeconds,
      time: systemTime,
      onLost: () => undefined,
    });
    if (held === undefined) throw new Error('the lease is held');
    const queue = new FrameQueue(limits, await checkpoints.marks(partition), systemTime, () => undefined);
    const log: string[] = [];
    const note = (fields: object, line: string) => void log.push(`${line} ${JSON.stringify(fields)}`);
    const refusedRows = new RefusedRows(clickhouse);
    const late = this.#late();
    const parts = {
      checkpoints,
      store,
      former: this.#former(),
      refusedRows,
      failpoints: noFailpoints,
      late,
      ...(this.#storeTimes === undefined ? {} : { storeTimes: this.#storeTimes }),
      time: this.#time,
      log: note,
    };
    const sink = new Sink(new HeldPartition(parts, held, queue, { sink: newSinkCounters() }));
    const owner = { partition, sink, queue, late, log, die: () => held.abandon() };
    this.#owners.push(owner);
    const [entries, marks] = [await checkpoints.batches(partition), await checkpoints.marks(partition)];
    await recoverBatches({ sink, entries, marks });
    await late.begin(partition);
    return owner;
  }

  #late(): LateEvents {
    return new LateEvents({
      store: new ClickHouseLateStore(this.clickhouse),
      cursors: new PostgresLateCursors(this.postgres),
      installs: { appeared: () => undefined, forgetAbsent: () => undefined },
      apps: { of: async () => new Map() },
      partsOf: partsOfLearned,
      erasures: this.erasures,
      time: this.#time,
    });
  }

  #former(): BatchFormer {
    const { erasures } = this;
    const stored = new ClickHouseRecords(this.clickhouse);
    const seen = { stored, clock: Date.now, partitions: 2, filters: newIdFilters() };
    return new BatchFormer({
      enrichment: new Enrichment({ countries, visitors }),
      visitors,
      days: { has: () => true, prepare: async () => undefined },
      attribution: new Attribution({
        firstSeen: [0, 1].map((partition) => new FirstSeen({ ...seen, partition })),
        installs: new InstallLookup(null, stored),
        clicks: { of: async () => new Map() },
        countries,
      }),
      erasures,
    });
  }

  /** The next frame of clicks of a partition, one click for each time. */
  frame(times: readonly number[], partition = 0): LogFrame {
    const payload = times.map((time) => `${testClick(time)}\n`).join('');
    const bytes = Buffer.alloc(64 + 3 * payload.length);
    const place = { kind: 'click', partition, producer_id: 'p'.repeat(26), frame_no: ++this.#frameNo } as const;
    const length = encodeFrame(bytes, 0, { ...place, records: times.length, written_at: Date.now() }, payload);
    const read = readFrame(bytes, 0);
    if (read.state !== 'frame') throw new Error(read.state);
    return { header: read.header, bytes: bytes.subarray(0, length), streamTime: Date.now() };
  }

  /** Disables views while work runs, which leaves the same state as a crash between the raw table and a rollup. */
  async withoutViews<T>(views: readonly string[], work: () => Promise<T>): Promise<T> {
    const kept = await this.clickhouse.query<{ name: string; as_select: string }>(
      'SELECT name, as_select FROM system.tables WHERE database = currentDatabase() AND name IN {views:Array(String)}',
      { views },
    );
    for (const { name, as_select } of kept) {
      await this.clickhouse.command(`ALTER TABLE ${name} MODIFY QUERY SELECT * FROM (${as_select}) WHERE 0`);
    }
    try {
      return await work();
    } finally {
      for (const { name, as_select } of kept) {
        await this.clickhouse.command(`ALTER TABLE ${name} MODIFY QUERY ${as_select}`);
      }
    }
  }

  /**
   * What ClickHouse contains: rows, distinct positions of records, and rows by which the rollups differ from the raw
   * rows.
   */
  async figures() {
    const [raw] = await this.clickhouse.query<{ rows: number; places: number }>(
      'SELECT count() AS rows, uniqExact(log_partition, producer_id, frame_no, idx) AS places FROM clicks',
    );
    let rollup_difference = 0;
    for (const rollup of rollups.filter((one) => one.raw === 'clicks')) {
      const cell = columnsOf(rollup).filter((name) => name !== 'rows' && name !== 'visitors' && name !== 'batch_no');
      const [row] = await this.clickhouse.query<{ n: number }>(
        `SELECT sum(abs(d)) AS n FROM (SELECT sum(n) AS d FROM (
           SELECT ${cell.join(', ')}, toInt64(rows) AS n FROM ${rollup.table}
           UNION ALL SELECT ${cell.join(', ')}, -toInt64(rows) AS n FROM (${rollup.select('1')})) GROUP BY ${cell.join(', ')})`,
      );
      rollup_difference += Number(row?.n);
    }
    return { ...raw, rollup_difference };
  }

  /** Ends the owners and the connections, not the databases. */
  async disconnect(): Promise<void> {
    for (const owner of this.#owners) owner.die();
    await this.postgres.close();
    await this.clickhouse.close();
  }

  async stop(): Promise<void> {
    await this.disconnect();
    for (const database of this.#databases) await database.stop();
  }
}
