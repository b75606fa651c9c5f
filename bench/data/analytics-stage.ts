/**
 * Servers with generated records and the API in its own process, queried over HTTPS as by a dashboard. A folder given
 * with --keep is reused as it is.
 */
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { Agent, request } from 'node:https';
import { join } from 'node:path';
import { Subject } from '#bench/load/subject.ts';
import { ClickHouse } from '#clickhouse/client.ts';
import { migrateClickHouse } from '#clickhouse/migrate.ts';
import { AccessTokens } from '#common/access-token.ts';
import { DAY_MS, HOUR_MS } from '#common/durations.ts';
import { newSecretKey, parseSecretKeys } from '#common/encryption.ts';
import { packageRoot } from '#common/process/paths.ts';
import { Postgres } from '#common/stores/postgres.ts';
import { startClickHouse } from '#deploy/local/clickhouse/spawn.ts';
import type { LocalServer } from '#deploy/local/local-server.ts';
import { certificate } from '#deploy/local/made-once.ts';
import { freePort } from '#deploy/local/ports.ts';
import { startPostgres, startRedis } from '#deploy/local/servers.ts';
import { migratePostgres } from '#pg-migrations/migrate.ts';
import { storeTenants, storeUsers } from './made-up-links.ts';

interface Parts {
  readonly store: LocalServer;
  readonly postgres: LocalServer;
  readonly redis: LocalServer;
  readonly api: Subject;
  readonly apiPort: number;
  readonly clickhouse: ClickHouse;
  readonly tokens: AccessTokens;
  readonly users: readonly string[];
}

/** What ClickHouse has read since it started. */
export interface ReadSoFar {
  readonly queries: number;
  readonly rows: number;
}

const connectionsMax = 64;

export class AnalyticsStage {
  readonly #parts: Parts;
  readonly #agent = new Agent({ keepAlive: true, rejectUnauthorized: false, maxSockets: connectionsMax });

  private constructor(parts: Parts) {
    this.#parts = parts;
  }

  get clickhouse(): ClickHouse {
    return this.#parts.clickhouse;
  }

  get api(): Subject {
    return this.#parts.api;
  }

  get postgresUrl(): string {
    return this.#parts.postgres.url;
  }

  get storePid(): number {
    return this.#parts.store.pid;
  }

  /** @param folder holds the data of ClickHouse, Postgres and the rest, for this number of clicks only. */
  static async start(folder: string): Promise<AnalyticsStage> {
    execFileSync(process.execPath, ['build.mjs', '--if-stale'], { cwd: packageRoot(), stdio: 'inherit' });
    mkdirSync(folder, { recursive: true });
    const [store, postgres, redis] = await Promise.all([
      startClickHouse({ dataDir: join(folder, 'clickhouse'), port: 0 }),
      startPostgres({ dataDir: join(folder, 'postgres'), isDurable: false }),
      startRedis({ dataDir: join(folder, 'redis'), warn: () => undefined }),
    ]);
    const clickhouse = new ClickHouse({ url: `${store.url}/bench`, requestTimeoutMs: HOUR_MS });
    await migrateClickHouse(clickhouse, { retentionDays: 3_650 });
    await migratePostgres({ url: postgres.url });
    const db = new Postgres({ url: postgres.url, name: 'bench', statementTimeoutMs: 600_000 });
    await storeTenants(db);
    const users = await storeUsers(db);
    await db.close();
    const secret = newSecretKey('bench');
    const apiPort = await freePort();
    const { certFile, keyFile } = await certificate(folder, 'localhost');
    const api = Subject.start('api', 'dist/api/main.js', {
      DATABASE_URL: postgres.url,
      REDIS_URL: redis.url,
      CLICKHOUSE_URL: `${store.url}/bench`,
      SECRET_KEY: secret,
      DATA_DIR: join(folder, 'api'),
      API_PORT: String(apiPort),
      API_HTTP_PORT: '0',
      TLS_CERT_FILE: certFile,
      TLS_KEY_FILE: keyFile,
      RETENTION_DAYS: '3650',
      RATE_LIMIT_GENERAL: '10000000',
      LOG_LEVEL: 'info',
    });
    await api.line(/"listening"/);
    const tokens = new AccessTokens(parseSecretKeys(secret));
    return new AnalyticsStage({ store, postgres, redis, api, apiPort, clickhouse, tokens, users });
  }

  /** The UTC midnight after the last click, epoch ms; 0 without any. */
  async end(): Promise<number> {
    const rows = await this.clickhouse.query<{ s: number }>(
      "SELECT toUnixTimestamp(max(bucket)) AS s FROM clicks_by_dimension WHERE dimension = 'day'",
    );
    const seconds = rows[0]?.s ?? 0;
    return seconds > 0 ? seconds * 1000 + DAY_MS : 0;
  }

  /**
   * @param path below /v1. @param tenant 0 is the largest. @param onPart consumes the body instead of collecting it;
   * its result is awaited. @returns the status and, without onPart, the length of the body.
   */
  get(
    path: string,
    tenant = 0,
    onPart?: (part: Buffer) => Promise<void> | undefined,
  ): Promise<{ status: number; bytes: number }> {
    const { apiPort, tokens, users } = this.#parts;
    const authorization = `Bearer ${tokens.issue(users[tenant % users.length] ?? '')}`;
    return new Promise((settle, fail) => {
      const options = { host: '127.0.0.1', port: apiPort, path: `/v1${path}`, agent: this.#agent };
      const outgoing = request({ ...options, headers: { authorization } });
      outgoing.once('error', fail);
      outgoing.once('response', (response) => {
        const take = async () => {
          let bytes = 0;
          for await (const part of response) {
            bytes += part.length;
            await onPart?.(part);
          }
          return { status: response.statusCode ?? 0, bytes };
        };
        take().then(settle, fail);
      });
      outgoing.end();
    });
  }

  async readSoFar(): Promise<ReadSoFar> {
    const rows = await this.clickhouse.query<{ event: string; value: number }>(
      "SELECT event, value FROM system.events WHERE event IN ('SelectedRows', 'SelectQuery')",
    );
    const of = (event: string) => rows.find((row) => row.event === event)?.value ?? 0;
    return { queries: of('SelectQuery'), rows: of('SelectedRows') };
  }

  /** Drops ClickHouse's own caches; the system's file cache stays. */
  async forgetCaches(): Promise<void> {
    for (const cache of ['MARK', 'UNCOMPRESSED', 'PRIMARY INDEX', 'QUERY CONDITION']) {
      await this.clickhouse.command(`SYSTEM DROP ${cache} CACHE`);
    }
  }

  async stop(): Promise<void> {
    const { store, postgres, redis, clickhouse, api } = this.#parts;
    this.#agent.destroy();
    await Promise.all([clickhouse.close(), api.stop()]);
    await Promise.all([store.stop(), postgres.stop(), redis.stop()]);
  }
}

/** Resets the peak memory, so that the next reading belongs to what follows. Source: proc(5), clear_refs. */
export function forgetPeak(pid: number): void {
  writeFileSync(`/proc/${pid}/clear_refs`, '5');
}

/** Peak memory of a process since the last reset, in MB. */
export function peakMb(pid: number): number {
  return Math.round(Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0) / 1024);
}
