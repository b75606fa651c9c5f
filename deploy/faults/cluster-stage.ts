/**
 * Signpost on several machines, as far as one machine can show it: three NATS servers with a replica of the log on
 * each, two edges (redirector, gateway, publisher) and two centers (ingest, API), each with its own name and folder.
 * Postgres, Redis and ClickHouse are single. Redirectors share a port, so that connections go to the one that is left.
 */
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { request as httpsRequest } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { processEnvironment } from '#common/process/config.ts';
import { packageRoot } from '#common/process/paths.ts';
import type { SettingName } from '#common/process/settings.ts';
import { type Call, login, type Reply, send } from '#deploy/journeys/stack.ts';
import type { Child } from '#deploy/local/child.ts';
import { ensureFirstUser } from '#deploy/local/first-user.ts';
import { addressKey, type CertificateFiles, certificate, secretKey } from '#deploy/local/made-once.ts';
import { migrateStores } from '#deploy/local/migrate-stores.ts';
import { startNodeProcess } from '#deploy/local/node-child.ts';
import { freePort } from '#deploy/local/ports.ts';
import { clusterSize, NatsCluster } from '#testing/nats-cluster.ts';
import { Store } from './store.ts';
import { StoredRecords } from './stored.ts';

const roles = ['ingest', 'publisher', 'api', 'gateway', 'redirector'] as const;
type Role = (typeof roles)[number];
export type ProcessName = `${Role}-${0 | 1}`;
export const processNames = roles.flatMap((role) => [`${role}-0`, `${role}-1`] as const);
const retentionDays = 730;

interface Ports {
  readonly redirector: number;
  readonly gateways: readonly number[];
  readonly apis: readonly number[];
}

interface Stores {
  readonly postgres: Store;
  readonly redis: Store;
  readonly clickhouse: Store;
}

function machineOf(role: Role, number: string): string {
  return `${role === 'ingest' || role === 'api' ? 'center' : 'edge'}-${number}`;
}

export class ClusterStage {
  readonly nats: NatsCluster;
  readonly stored: StoredRecords;
  readonly gatewayPorts: readonly number[];
  readonly port: number;
  host = '';
  apiKey = '';
  #appId = '';
  #authorization = '';
  readonly #folder: string;
  readonly #stores: Stores;
  readonly #ports: Ports;
  readonly #tls: CertificateFiles;
  readonly #running = new Map<ProcessName, { readonly child: Child; readonly metricsPort: number }>();
  /** LOG_PARTITIONS of processes that are started from now on. */
  partitions = 1;

  private constructor(folder: string, nats: NatsCluster, stores: Stores, ports: Ports, tls: CertificateFiles) {
    this.#folder = folder;
    this.nats = nats;
    this.#stores = stores;
    this.#ports = ports;
    this.#tls = tls;
    this.stored = new StoredRecords(stores.clickhouse.directUrl);
    this.gatewayPorts = ports.gateways;
    this.port = ports.redirector;
  }

  static async start(): Promise<ClusterStage> {
    const folder = mkdtempSync(join(tmpdir(), 'signpost-cluster-'));
    const [nats, postgres, redis, clickhouse, tls] = await Promise.all([
      NatsCluster.start(),
      Store.start('postgres'),
      Store.start('redis'),
      Store.start('clickhouse'),
      certificate(folder, 'localhost'),
    ]);
    const [redirector, ...others] = [
      await freePort(),
      await freePort(),
      await freePort(),
      await freePort(),
      await freePort(),
    ];
    const ports = { redirector, gateways: others.slice(0, 2), apis: others.slice(2) };
    const stage = new ClusterStage(folder, nats, { postgres, redis, clickhouse }, ports, tls);
    try {
      await stage.#prepare();
    } catch (error) {
      await stage.stop();
      throw error;
    }
    return stage;
  }

  async #prepare(): Promise<void> {
    const { postgres, clickhouse } = this.#stores;
    await migrateStores({ databaseUrl: postgres.url, clickhouseUrl: clickhouse.url, retentionDays });
    await ensureFirstUser(postgres.url, login);
    // Ingest first, because it creates the log.
    for (const role of roles) await Promise.all([this.start(`${role}-0`), this.start(`${role}-1`)]);
    await this.#logIn();
    const body = { name: 'Cluster', fallback_url: 'https://example.com/' };
    const app = (await this.api('/apps', { method: 'POST', body })).json<{
      id: string;
      host: string;
      api_key: string;
    }>();
    [this.#appId, this.host, this.apiKey] = [app.id, app.host, app.api_key];
  }

  api(path: string, call: Call = {}): Promise<Reply> {
    const headers = { ...call.headers, ...(this.#authorization === '' ? {} : { authorization: this.#authorization }) };
    const target = { port: this.#ports.apis[0], path: `/v1${path}`, rejectUnauthorized: false };
    return send(httpsRequest, target, { ...call, headers });
  }

  /** Logs in again, since tokens expire after some minutes. */
  async #logIn(): Promise<void> {
    const reply = await this.api('/auth/login', { method: 'POST', body: login });
    this.#authorization = `Bearer ${reply.json<{ access_token: string }>().access_token}`;
  }

  async newLink(path: string): Promise<{ id: string; short_code: string }> {
    await this.#logIn();
    const body = { app_id: this.#appId, path, campaign: path };
    const reply = await this.api('/links', { method: 'POST', body });
    if (reply.status !== 201) throw new Error(`no link was created: ${reply.text}`);
    return reply.json();
  }

  /** The time up to which the figures of the API are complete. Epoch ms. */
  async asOf(): Promise<number> {
    const reply = await this.api(`/analytics/overview?app_id=${this.#appId}`);
    const { as_of } = reply.json<{ as_of: string | null }>();
    return as_of === null ? 0 : Date.parse(as_of);
  }

  async start(name: ProcessName): Promise<void> {
    const [role, number] = name.split('-') as [Role, string];
    const machine = machineOf(role, number);
    const metricsPort = await freePort();
    const { postgres, redis, clickhouse } = this.#stores;
    const dataDir = join(this.#folder, machine);
    const settings: Partial<Record<SettingName, string>> = {
      ...{ INSTANCE: name, MACHINE_NAME: machine, DATA_DIR: dataDir, METRICS_PORT: String(metricsPort) },
      ...{ DATABASE_URL: postgres.url, REDIS_URL: redis.url, CLICKHOUSE_URL: clickhouse.url, NATS_URL: this.nats.url },
      ...{ LOG_PARTITIONS: String(this.partitions), LOG_REPLICAS: String(clusterSize) },
      ...{ SECRET_KEY: secretKey(this.#folder), ADDRESS_KEY: addressKey(this.#folder) },
      ...{ TLS_CERT_FILE: this.#tls.certFile, TLS_KEY_FILE: this.#tls.keyFile },
      ...{ API_PORT: String((role === 'gateway' ? this.#ports.gateways : this.#ports.apis)[Number(number)]) },
      ...{ REDIRECTOR_HTTP_PORT: String(this.#ports.redirector), REDIRECTOR_HTTPS_PORT: '0' },
      ...{ RATE_LIMIT_EVENTS: '1000000', RATE_LIMIT_GENERAL: '1000000' },
    };
    const entry = join(packageRoot(), 'dist', role, 'main.js');
    const logFolder = join(this.#folder, 'logs');
    const env = processEnvironment(role, settings);
    const child = await startNodeProcess({ name, entry, env, logFolder, host: '127.0.0.1', metricsPort }, true);
    this.#running.set(name, { child, metricsPort });
  }

  async metric(name: ProcessName, metric: string): Promise<number> {
    const port = this.#running.get(name)?.metricsPort;
    const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
    return Number(
      text
        .split('\n')
        .find((line) => line.startsWith(`${metric} `) || line.startsWith(`${metric}{`))
        ?.split(' ')
        .at(-1),
    );
  }

  /** Sends SIGTERM and waits for the exit. */
  async end(name: ProcessName): Promise<void> {
    await this.#running.get(name)?.child.stop();
    this.#running.delete(name);
  }

  async restart(name: ProcessName): Promise<void> {
    await this.end(name);
    await this.start(name);
  }

  async kill(name: ProcessName): Promise<void> {
    const running = this.#running.get(name);
    running?.child.kill('SIGKILL');
    await running?.child.exited;
    await this.end(name);
  }

  /** Runs `npm run admin -- …`. @returns what it prints, or its error. */
  async admin(...args: string[]): Promise<string> {
    const env = { PATH: process.env['PATH'] ?? '', DATA_DIR: this.#folder, DATABASE_URL: this.#stores.postgres.url };
    try {
      const run = promisify(execFile);
      return (await run(process.execPath, [join(packageRoot(), 'dist/signpost.js'), 'admin', ...args], { env })).stdout;
    } catch (error) {
      return String((error as { stderr?: string }).stderr);
    }
  }

  async stop(): Promise<void> {
    const order = [...processNames].reverse();
    for (const name of order) await this.end(name);
    const { postgres, redis, clickhouse } = this.#stores;
    await Promise.all([this.nats.stop(), postgres.stop(), redis.stop(), clickhouse.stop()]);
    rmSync(this.#folder, { recursive: true, force: true });
  }
}
