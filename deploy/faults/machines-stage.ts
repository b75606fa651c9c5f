/**
 * Signpost on many machines, each a network namespace: two edges (redirector, gateway, publisher), two ingests, an API,
 * webhooks, and the stores on hosts of their own. Processes have the users and permissions that docs/operating.md prints.
 */
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { request as httpsRequest } from 'node:https';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { HOUR_MS } from '#common/durations.ts';
import { processEnvironment, searchPath } from '#common/process/config.ts';
import { packageRoot } from '#common/process/paths.ts';
import type { SettingName } from '#common/process/settings.ts';
import { sleep, systemTime } from '#common/time.ts';
import { type Call, login, type Reply, send } from '#deploy/journeys/stack.ts';
import type { Child } from '#deploy/local/child.ts';
import { ensureFirstUser } from '#deploy/local/first-user.ts';
import { addressKey, type CertificateFiles, certificate, secretKey } from '#deploy/local/made-once.ts';
import { migrateStores } from '#deploy/local/migrate-stores.ts';
import { startNodeProcess } from '#deploy/local/node-child.ts';
import { documentedDatabaseUsers } from './documented-permissions.ts';
import { clusterSize, HostedStores } from './hosted-stores.ts';
import { type Host, Hosts, network } from './hosts.ts';
import { StoredRecords } from './stored.ts';

export const edgeRoles = ['publisher', 'gateway', 'redirector'] as const;
type Role = (typeof edgeRoles)[number] | 'ingest' | 'api' | 'webhooks';
const metricsPorts = { redirector: 9090, gateway: 9091, publisher: 9092, ingest: 9093, api: 9094, webhooks: 9095 };
const retentionDays = 730;
const library = '/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1';
const retriesMax = 40;
const retryMs = 500;

/** Whether the last line of a process's log is half an hour old, or more. */
function isBehind(logFile: string): boolean {
  const times = [...readFileSync(logFile, 'utf8').matchAll(/"time":"([^"]+)"/g)];
  return Date.parse(times.at(-1)?.[1] ?? '') < Date.now() - HOUR_MS / 2;
}

export class MachinesStage {
  readonly stores: HostedStores;
  readonly stored: StoredRecords;
  /** Of the redirectors and gateways that get requests. */
  readonly addresses: string[] = [];
  readonly port = 8080;
  readonly gatewayPorts = [8443];
  host = '';
  apiKey = '';
  #appId = '';
  readonly #hosts: Hosts;
  readonly #machines = new Map<string, Host>();
  readonly #running = new Map<string, Child>();
  readonly #tls: CertificateFiles;

  private constructor(hosts: Hosts, stores: HostedStores, tls: CertificateFiles) {
    this.#hosts = hosts;
    this.stores = stores;
    this.#tls = tls;
    this.stored = new StoredRecords(stores.clickhouseUrl('signpost'));
  }

  static async start(): Promise<MachinesStage> {
    const hosts = await Hosts.open();
    try {
      const [stores, tls] = [await HostedStores.start(hosts), await certificate(hosts.folder, 'localhost')];
      const stage = new MachinesStage(hosts, stores, tls);
      await stage.#prepare();
      return stage;
    } catch (error) {
      hosts.close();
      throw error;
    }
  }

  async #prepare(): Promise<void> {
    await this.#migrate();
    await this.stores.createDatabaseUsers();
    await this.#migrate();
    await ensureFirstUser(this.stores.databaseUrl(), login);
    const machines = [
      ['ingest-1', 81],
      ['ingest-2', 82],
      ['api', 83],
      ['webhooks', 84],
    ] as const;
    for (const [name, number] of machines) this.#machines.set(name, this.#hosts.add(name, number));
    // Ingest first, because it creates the log.
    for (const [name] of machines) await this.start(name, name.split('-')[0] as Role);
    await Promise.all([this.addEdge(1), this.addEdge(2)]);
    const body = { name: 'Machines', fallback_url: 'https://example.com/' };
    const made = (await this.api('/apps', { method: 'POST', body })).json<{
      id: string;
      host: string;
      api_key: string;
    }>();
    [this.#appId, this.host, this.apiKey] = [made.id, made.host, made.api_key];
  }

  async #migrate(): Promise<void> {
    const clickhouseUrl = this.stores.clickhouseUrl('signpost');
    await migrateStores({ databaseUrl: this.stores.databaseUrl(), clickhouseUrl, retentionDays });
  }

  machine(name: string): Host {
    const host = this.#machines.get(name);
    if (host === undefined) throw new Error(`there is no machine ${name}`);
    return host;
  }

  get processes(): readonly (readonly [machine: string, role: Role])[] {
    return [...this.#running.keys()].map((name) => name.split('/') as [string, Role]);
  }

  /** A new machine with an edge, which gets requests as soon as it is ready. */
  async addEdge(number: number): Promise<void> {
    const name = `edge-${number}`;
    const host = this.#hosts.add(name, 64 + number);
    this.#machines.set(name, host);
    for (const role of edgeRoles) await this.start(name, role);
    this.addresses.push(host.address);
  }

  /** @param clock for libfaketime, such as -1h; absent: the right one. */
  async start(machine: string, role: Role, clock?: string): Promise<void> {
    const name = `${machine}/${role}`;
    const { address, within: host } = this.machine(machine);
    const env = processEnvironment(role, this.#settings(machine, role));
    // Only for the process: a command before it would leave shared memory of libfaketime on this machine.
    const faked = ['env', `LD_PRELOAD=${library}`, `FAKETIME=${clock}`, 'FAKETIME_DONT_FAKE_MONOTONIC=1'];
    const within = clock === undefined ? host : [...host, ...faked];
    const entry = join(packageRoot(), 'dist', role, 'main.js');
    const logFolder = join(this.#hosts.folder, 'logs', machine);
    const place = { name: role, entry, env, within, logFolder, host: address, metricsPort: metricsPorts[role] };
    this.#running.set(name, await startNodeProcess(place, true));
    if (clock !== undefined && !isBehind(join(logFolder, `${role}.log`)))
      throw new Error(`libfaketime does not change the clock of ${role}`);
  }

  #settings(machine: string, role: Role): Partial<Record<SettingName, string>> {
    const { address } = this.machine(machine);
    const user = documentedDatabaseUsers().get(role);
    const writes = role === 'ingest';
    return {
      ...{ INSTANCE: role, MACHINE_NAME: machine, DATA_DIR: join(this.#hosts.folder, machine) },
      ...{ METRICS_HOST: address, METRICS_PORT: String(metricsPorts[role]) },
      ...(user === undefined ? {} : { [user.setting]: this.stores.databaseUrl(user.user) }),
      REDIS_URL: this.stores.redisUrl(role === 'redirector' ? 'redirector' : 'general'),
      [role === 'api' ? 'API_NATS_URL' : 'NATS_URL']: this.stores.natsUrl(role),
      CLICKHOUSE_URL: this.stores.clickhouseUrl(writes ? 'signpost' : 'reader'),
      ...{ LOG_PARTITIONS: '2', LOG_REPLICAS: String(clusterSize) },
      ...{ SECRET_KEY: secretKey(this.#hosts.folder), ADDRESS_KEY: addressKey(this.#hosts.folder) },
      ...{ TLS_CERT_FILE: this.#tls.certFile, TLS_KEY_FILE: this.#tls.keyFile, API_HOST: address },
      ...{ REDIRECTOR_HOST: address, REDIRECTOR_HTTPS_PORT: '0' },
      ...{ WEBHOOK_HTTP: 'true', WEBHOOK_ALLOWED_NETWORKS: network },
      ...{ RATE_LIMIT_EVENTS: '1000000', RATE_LIMIT_GENERAL: '1000000', RATE_LIMIT_AUTH: '1000000' },
    };
  }

  /** Sends SIGTERM and waits for the exit. */
  async end(machine: string, role: Role): Promise<void> {
    await this.#running.get(`${machine}/${role}`)?.stop();
    this.#running.delete(`${machine}/${role}`);
  }

  async restart(machine: string, role: Role, clock?: string): Promise<void> {
    await this.end(machine, role);
    await this.start(machine, role, clock);
  }

  /** The machine loses its power: every process ends at once, and nothing answers at its address. */
  async loseMachine(name: string): Promise<void> {
    this.machine(name).unplug();
    for (const [machine, role] of this.processes.filter(([one]) => one === name)) {
      this.#running.get(`${machine}/${role}`)?.kill('SIGKILL');
      await this.end(machine, role);
    }
  }

  /** As a person with the dashboard sends it. A request that fails is repeated, as during a fail-over. */
  async api(path: string, call: Call = {}): Promise<Reply> {
    for (let tries = 1; ; tries++) {
      const reply = await this.#askApi(path, call).catch(() => undefined);
      if (reply !== undefined && reply.status < 500) return reply;
      if (tries === retriesMax) throw new Error(`the API answers ${reply?.status} to ${path}: ${reply?.text}`);
      await sleep(systemTime, retryMs);
    }
  }

  async #askApi(path: string, call: Call): Promise<Reply> {
    const target = { host: this.machine('api').address, port: 8443, rejectUnauthorized: false, timeout: 10_000 };
    const at = (of: string) => ({ ...target, path: `/v1${of}` });
    const reply = await send(httpsRequest, at('/auth/login'), { method: 'POST', body: login });
    if (reply.status !== 200) return reply;
    const authorization = `Bearer ${reply.json<{ access_token: string }>().access_token}`;
    return await send(httpsRequest, at(path), { ...call, headers: { authorization } });
  }

  async newLink(path: string): Promise<{ id: string; short_code: string }> {
    const reply = await this.api('/links', { method: 'POST', body: { app_id: this.#appId, path, campaign: path } });
    if (reply.status !== 201) throw new Error(`no link was created: ${reply.text}`);
    return reply.json();
  }

  /** The time up to which the figures of the API are complete. Epoch ms. */
  async asOf(): Promise<number> {
    const reply = await this.api(`/analytics/overview?app_id=${this.#appId}`);
    return Date.parse(reply.json<{ as_of: string | null }>().as_of ?? '1970-01-01T00:00:00Z');
  }

  async metric(machine: string, role: Role, metric: string): Promise<number> {
    const text = await (await fetch(`http://${this.machine(machine).address}:${metricsPorts[role]}/metrics`)).text();
    const line = text.split('\n').find((one) => one.startsWith(`${metric} `) || one.startsWith(`${metric}{`));
    return Number(line?.split(' ').at(-1));
  }

  /** Runs `admin …` with the settings of an operator. @returns what it prints, or its error. */
  async admin(...words: string[]): Promise<string> {
    const env = {
      ...{ PATH: searchPath(), DATA_DIR: this.#hosts.folder, DATABASE_URL: this.stores.databaseUrl() },
      ...{ CLICKHOUSE_URL: this.stores.clickhouseUrl('signpost'), SECRET_KEY: secretKey(this.#hosts.folder) },
    };
    try {
      const args = [join(packageRoot(), 'dist/signpost.js'), 'admin', ...words];
      return (await promisify(execFile)(process.execPath, args, { env })).stdout;
    } catch (error) {
      return String((error as { stderr?: string }).stderr);
    }
  }

  async stop(): Promise<void> {
    try {
      await Promise.all([...this.#running.values()].map((child) => child.stop()));
      await this.stores.stop();
    } finally {
      this.#hosts.close();
    }
  }
}
