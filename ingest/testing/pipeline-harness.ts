/**
 * The whole record path for tests: journal and publisher in this process, real servers, and ingest as a child process
 * to kill.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ClickHouse } from '#clickhouse/client.ts';
import { utmFrom } from '#common/campaign-fields.ts';
import { newId } from '#common/ids.ts';
import { Journal } from '#common/journal/journal.ts';
import { nodeSystem } from '#common/journal/system.ts';
import { clickJson } from '#common/log/click-line.ts';
import { defaultInstallation } from '#common/log/log-names.ts';
import { keepLogStream } from '#common/log/log-stream.ts';
import type { Click } from '#common/log/record.ts';
import { childEnvironment, loadConfig } from '#common/process/config.ts';
import { packageRoot } from '#common/process/paths.ts';
import { Nats } from '#common/stores/nats.ts';
import { noFailpoints } from '#ingest/failpoints.ts';
import { Ingest } from '#ingest/ingest.ts';
import { Publisher } from '#publisher/publisher.ts';
import { clusterSize, NatsCluster } from '#testing/nats-cluster.ts';
import {
  clickhouseForTest,
  migrateForTest,
  natsForTest,
  ownClickhouseForTest,
  postgresForTest,
  type TestDatabase,
  type TestPostgres,
  type TestServer,
} from '#testing/servers.ts';

const [organization_id, app_id, link_id] = [newId('org', 1), newId('app', 1), newId('lnk', 1)];
/** The organization of the test clicks. */
export const testOrganizationId = organization_id;

export function testClick(time: number, privacy_mode: Click['privacy_mode'] = 'anonymize_ip'): string {
  return clickJson({
    click_id: newId('clk', time),
    organization_id,
    app_id,
    link_id,
    time,
    ip: '8.8.8.8',
    privacy_mode,
    user_agent:
      'Mozilla/5.0 (iPhone; CPU iPhone OS 17_4 like Mac OS X) AppleWebKit/605.1.15 Version/17.4 Mobile/15E148 Safari/604.1',
    language: 'de-DE,de;q=0.9',
    referrer: 'https://example.com/a',
    query: 'a=b',
    campaign: 'spring',
    ...utmFrom(() => ''),
    trigger: 'link',
    rule: '',
    is_prefetch: false,
    is_preview: false,
  });
}

/** What ClickHouse contains, and how far the rollups deviate from it. */
export interface Figures {
  rows: number;
  distinct: number;
  dead_letters: number;
  /** Sum of the absolute deviations over all buckets and rollups. */
  rollup_difference: number;
}

export interface IngestChild {
  readonly process: ChildProcess;
  readonly exited: Promise<void>;
  output: string;
  stop(): Promise<void>;
}

export class PipelineHarness {
  readonly folder: string;
  readonly postgres: TestPostgres;
  readonly client: ClickHouse;
  readonly journal: Journal;
  readonly publisher: Publisher;
  readonly damage: string[];
  readonly #store: TestServer | TestDatabase;
  readonly #log: TestServer | NatsCluster;
  readonly #logBytesMax: number;
  readonly #connection: Nats;
  readonly #ingests: IngestChild[] = [];
  /** Records whose append was acknowledged. */
  kept = 0;
  /** Additional settings of ingest processes that are started from now on. */
  more: Record<string, string> = {};

  private constructor(parts: {
    folder: string;
    postgres: TestPostgres;
    store: TestServer | TestDatabase;
    log: TestServer | NatsCluster;
    client: ClickHouse;
    journal: Journal;
    publisher: Publisher;
    connection: Nats;
    damage: string[];
    logBytesMax: number;
  }) {
    this.folder = parts.folder;
    this.postgres = parts.postgres;
    this.client = parts.client;
    this.journal = parts.journal;
    this.publisher = parts.publisher;
    this.damage = parts.damage;
    this.#connection = parts.connection;
    this.#store = parts.store;
    this.#log = parts.log;
    this.#logBytesMax = parts.logBytesMax;
  }

  /** The ClickHouse server, if this test has its own. */
  get clickhouse(): TestServer {
    if ('pid' in this.#store) return this.#store;
    throw new Error('The ClickHouse of this test is a database of the shared server.');
  }

  /** The NATS server, unless the log is a cluster. */
  get nats(): TestServer {
    if (this.#log instanceof NatsCluster) throw new Error('The log of this test is a cluster.');
    return this.#log;
  }

  get clickhouseUrl(): string {
    return databaseUrlOf(this.#store);
  }

  get cluster(): NatsCluster {
    if (this.#log instanceof NatsCluster) return this.#log;
    throw new Error('The log of this test is a single server.');
  }

  /**
   * @param options.hasCluster whether the log is on three servers, with a replica on each.
   * @param options.hasOwnClickhouse whether to start a server that the test may stop.
   */
  static async start({
    logBytesMax = 1_073_741_824,
    hasCluster = false,
    hasOwnClickhouse = false,
  } = {}): Promise<PipelineHarness> {
    const folder = mkdtempSync(join(tmpdir(), 'way-'));
    const root = join(folder, 'journal');
    const [postgres, store, log] = await Promise.all([
      postgresForTest(),
      hasOwnClickhouse ? ownClickhouseForTest() : clickhouseForTest(),
      hasCluster ? NatsCluster.start() : natsForTest(),
    ]);
    const client = new ClickHouse({ url: databaseUrlOf(store), requestTimeoutMs: 10_000 });
    if (hasOwnClickhouse) await migrateForTest(client);
    const options = { root, slot: 'edge-0', segmentBytes: 100_000, bytesMax: 1e9, sync: 'after_answer' } as const;
    const journal = await Journal.open(options);
    const connection = await Nats.connect({ url: log.url, name: 'test', installation: defaultInstallation });
    const damage: string[] = [];
    const publisher = new Publisher({
      root,
      machine: 'test',
      nats: connection,
      system: nodeSystem,
      ensureLog: () => keepLogStream(connection, { bytesMax: logBytesMax, replicas: replicasOf(log) }, () => undefined),
      onDamage: (_, reason) => damage.push(reason),
      log: () => undefined,
    });
    await publisher.start();
    return new PipelineHarness({
      ...{ folder, postgres, store, log, client, journal, publisher, connection, damage, logBytesMax },
    });
  }

  /**
   * Appends clicks, `perTurn` at once, and waits until all are acknowledged.
   * @param partitions turns alternate between them.
   */
  async keep(count: number, perTurn = 5, partitions = 1): Promise<void> {
    for (let n = 0; n < count; n += perTurn) {
      const lane = this.journal.lane('click', Math.floor(n / perTurn) % partitions);
      const turn = Array.from({ length: Math.min(perTurn, count - n) }, () => {
        return new Promise<void>((done, fail) => {
          this.journal.append(lane, testClick(Date.now()), {
            committed: done,
            refused: () => fail(new Error('refused')),
          });
        });
      });
      await Promise.all(turn);
      this.kept += turn.length;
    }
  }

  /** Ingest in this process, not started. */
  ingestHere(instance = 'ingest-0'): Promise<Ingest> {
    const config = loadConfig(['INGEST_DATABASE_URL', 'NATS_URL', 'CLICKHOUSE_URL'], this.#settings(instance, 3));
    return Ingest.create({ config, failpoints: noFailpoints, log: () => undefined, end: () => undefined });
  }

  #settings(instance: string, leaseSeconds: number): Record<string, string> {
    return {
      INGEST_DATABASE_URL: this.postgres.urlAs('signpost_ingest'),
      CLICKHOUSE_URL: databaseUrlOf(this.#store),
      NATS_URL: this.#log.url,
      LOG_REPLICAS: String(replicasOf(this.#log)),
      INSTANCE: instance,
      LOG_BYTES_MAX: String(this.#logBytesMax),
      LEASE_SECONDS: String(leaseSeconds),
      INGEST_FLUSH_INTERVAL_MS: '20',
      ...this.more,
    };
  }

  /** @param failpoint where it dies, if at all. */
  ingest(
    failpoint = '',
    instance = 'ingest-0',
    leaseSeconds = 3,
    clickhouseUrl = databaseUrlOf(this.#store),
  ): IngestChild {
    const child = spawn(process.execPath, [join(packageRoot(), 'dist/ingest/testing/ingest-to-kill.js'), failpoint], {
      env: childEnvironment({ ...this.#settings(instance, leaseSeconds), CLICKHOUSE_URL: clickhouseUrl }),
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const exited = new Promise<void>((done) => child.once('exit', () => done()));
    const ingest: IngestChild = {
      process: child,
      exited,
      output: '',
      stop: async () => {
        child.kill('SIGCONT');
        child.kill('SIGTERM');
        await exited;
      },
    };
    const hear = (text: string) => {
      ingest.output += text;
    };
    this.#ingests.push(ingest);
    child.stdout.setEncoding('utf8').on('data', hear);
    child.stderr.setEncoding('utf8').on('data', hear);
    return ingest;
  }

  /** Kills the ingest processes that a test has left running. */
  async stopIngests(): Promise<void> {
    for (const { process: child, exited } of this.#ingests.splice(0)) {
      if (child.exitCode !== null || child.signalCode !== null) continue;
      child.kill('SIGKILL');
      await exited;
    }
  }

  async figures(): Promise<Figures> {
    const [raw] = await this.client.query<{ rows: number; distinct: number; dead_letters: number }>(
      `SELECT count() AS rows, uniqExact(log_partition, producer_id, frame_no, idx) AS distinct,
              (SELECT count() FROM dead_letters) AS dead_letters FROM clicks`,
    );
    const sums = await this.client.query<{ rows: number }>(
      `SELECT sum(rows) AS rows FROM clicks_by_link
       UNION ALL SELECT sum(rows) FROM clicks_by_dimension WHERE dimension = 'day'
       UNION ALL SELECT sum(rows) FROM clicks_by_dimension WHERE dimension = 'quarter'`,
    );
    const rows = Number(raw?.rows);
    return {
      rows,
      distinct: Number(raw?.distinct),
      dead_letters: Number(raw?.dead_letters),
      rollup_difference: sums.reduce((difference, sum) => difference + Math.abs(Number(sum.rows) - rows), 0),
    };
  }

  /** The expected figures. */
  get wanted(): Figures {
    return { rows: this.kept, distinct: this.kept, dead_letters: 0, rollup_difference: 0 };
  }

  async stop(): Promise<void> {
    await this.journal.close();
    await this.publisher.stop();
    await this.#connection.close();
    await this.client.close();
    await Promise.all([this.postgres.stop(), this.#store.stop(), this.#log.stop()]);
    rmSync(this.folder, { recursive: true });
  }
}

function databaseUrlOf(store: TestServer | TestDatabase): string {
  return 'pid' in store ? `${store.url}/test` : store.url;
}

function replicasOf(log: TestServer | NatsCluster): number {
  return log instanceof NatsCluster ? clusterSize : 1;
}
