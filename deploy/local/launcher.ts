/**
 * Runs everything on one machine with one command. Starts, in order: servers without a configured URL, migrations, the
 * first user, Signpost's processes. Stops them in reverse order.
 *
 *   starting → ready → stopping → ended
 *      └→ waiting for an external Postgres or ClickHouse, with redirectors that serve links from their caches → ready
 *
 * An error during startup prints one sentence and exits with 1. A child that dies is restarted; a child that keeps
 * dying stops everything with exit code 1. SIGTERM, SIGINT and the end of npm stop everything with exit code 0.
 */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { holdOutbound } from '#api/admin/outbound.ts';
import { processEnvironment } from '#common/process/config.ts';
import { fileFault } from '#common/process/file-fault.ts';
import { packageRoot } from '#common/process/paths.ts';
import type { Config } from '#common/process/settings.ts';
import { Postgres, patientConnectMs } from '#common/stores/postgres.ts';
import { refuseInterruptedRestore } from './backup/restore.ts';
import { StartupError } from './child.ts';
import { builtClickHouse, startClickHouse } from './clickhouse/spawn.ts';
import { type ServerSetting, unreachableServers } from './configured-servers.ts';
import { isCopiedFolder, markOriginal } from './copied-folder.ts';
import { ensureDatabaseRoles } from './database-roles.ts';
import { FirstLoginWatch } from './first-login-watch.ts';
import { ensureFirstUser } from './first-user.ts';
import { instructions } from './instructions.ts';
import { type DatabaseUrls, type LaunchFacts, type ProcessPlan, processPlans, type StoreUrls } from './launch-plan.ts';
import type { LocalServer } from './local-server.ts';
import {
  addressKey,
  type CertificateFiles,
  certificate,
  firstLogin,
  forgetUnusedLogin,
  loginFile,
  secretKey,
} from './made-once.ts';
import { migrateStores } from './migrate-stores.ts';
import type { NatsServer } from './nats.ts';
import { boundLog, startNodeProcess } from './node-child.ts';
import { portFor } from './ports.ts';
import { writeProcesses } from './processes-file.ts';
import type { Progress } from './progress.ts';
import { RememberedPorts } from './remembered-ports.ts';
import { checkSecret } from './secret-check.ts';
import { startNats, startPostgres, startRedis } from './servers.ts';
import type { Supervisor } from './supervisor.ts';
import type { Systemd } from './systemd.ts';

const logCheckMs = 30_000;
const storePauseMs = 5_000;

export interface LauncherParts {
  readonly config: Config;
  readonly dataDir: string;
  readonly supervisor: Supervisor;
  readonly systemd: Systemd;
  readonly progress: Progress;
  /** Resolves once dist/ is up to date. */
  readonly built: Promise<void>;
  /** External servers that accept no connections. */
  readonly away: ReadonlyMap<ServerSetting, string>;
}

export class Launcher {
  readonly #parts: LauncherParts;
  readonly #metricsUrls = new Map<string, string>();
  readonly #logFiles: string[] = [];
  readonly #ports: RememberedPorts;
  /** Kept while the launcher runs, because its clients know it. */
  #natsPort = 0;
  #logTimer: NodeJS.Timeout | undefined;
  #loginWatch: FirstLoginWatch | undefined;

  constructor(parts: LauncherParts) {
    this.#parts = parts;
    this.#ports = new RememberedPorts(join(parts.dataDir, 'ports.json'));
  }

  get processesFile(): string {
    return join(this.#parts.dataDir, 'processes.json');
  }

  /** Starts everything; redirectors at once if external stores are away. @returns the text with the addresses. */
  async start(): Promise<string> {
    const { config, dataDir, progress, away } = this.#parts;
    refuseInterruptedRestore(dataDir);
    const apiPort = await portFor('The API', config.API_PORT, 'API_PORT', config.API_HOST);
    await this.#checkPorts();
    const key = config.SECRET_KEY === '' ? secretKey(dataDir) : config.SECRET_KEY;
    const hashKey = config.ADDRESS_KEY === '' ? addressKey(dataDir) : config.ADDRESS_KEY;
    const [tls, { owner, ...servers }] = await Promise.all([this.#certificate(), this.#startServers()]);
    const database = await this.#databaseUrls(owner);
    const stores = { ...servers, database };
    const facts: LaunchFacts = { dataDir, secretKey: key, addressKey: hashKey, apiPort, ...tls, stores };
    this.#logTimer = setInterval(() => this.#boundLogs(), logCheckMs);
    const isWaiting = hasNoStore(away);
    if (isWaiting) {
      await this.#startProcesses(facts, ({ role }) => role === 'redirector');
      progress.note('Redirectors serve the links that they know. The rest starts once Postgres and ClickHouse answer.');
    }
    await this.#parts.systemd.patiently(() => this.#prepareStores(owner, servers.clickhouse.signpost, isWaiting));
    await this.#checkInstallation(owner, key);
    return await this.#finish(facts, owner, isWaiting);
  }

  /** @param isPatient while the stores are away or starting, it tries again instead of failing. */
  async #prepareStores(owner: string, clickhouseUrl: string, isPatient: boolean): Promise<void> {
    const { config, progress } = this.#parts;
    for (let said = ''; ; await sleep(storePauseMs)) {
      if (isPatient && hasNoStore(await unreachableServers(config))) continue;
      try {
        await migrateStores({ databaseUrl: owner, clickhouseUrl, retentionDays: config.RETENTION_DAYS });
        break;
      } catch (error) {
        if (!isPatient) throw error;
        const fault = faultText(error);
        if (fault !== said) progress.fault(`${fault}. It is tried again.`);
        said = fault;
      }
    }
    progress.done('Postgres and ClickHouse are migrated');
  }

  /** @returns the text with the addresses. */
  async #finish(facts: LaunchFacts, owner: string, hasRedirectors: boolean): Promise<string> {
    const { config, dataDir } = this.#parts;
    const login = firstLogin(dataDir, { email: config.ADMIN_EMAIL, password: config.ADMIN_PASSWORD });
    const [{ isNew: isNewUser, weakness }] = await Promise.all([
      ensureFirstUser(owner, login),
      this.#startProcesses(facts, ({ role }) => !(hasRedirectors && role === 'redirector')),
    ]);
    if (!isNewUser) forgetUnusedLogin(dataDir, login);
    if (weakness !== null) this.#parts.progress.note(`Warning: ADMIN_PASSWORD ${weakness}.`);
    this.#loginWatch = new FirstLoginWatch(owner, dataDir, (line) => this.#parts.progress.note(line));
    this.#loginWatch.start();
    this.listProcesses();
    return instructions({
      apiUrl: `https://${shownHost(config.API_HOST)}:${facts.apiPort}/v1`,
      redirectorHttp: shownUrl('http', config.REDIRECTOR_HOST, config.REDIRECTOR_HTTP_PORT),
      redirectorHttps: shownUrl('https', config.REDIRECTOR_HOST, config.REDIRECTOR_HTTPS_PORT),
      dataDir,
      certFile: facts.certFile.split(',')[0] ?? '',
      email: login.email,
      newPassword: isNewUser && login.isMadeUp && this.#parts.progress.isTerminal ? login.password : null,
      loginFile: existsSync(loginFile(dataDir)) ? loginFile(dataDir) : null,
      processesFile: this.processesFile,
    });
  }

  async #checkInstallation(owner: string, key: string): Promise<void> {
    const { config, dataDir, progress } = this.#parts;
    const db = new Postgres({ url: owner, name: 'launcher', connectionsMax: 1, connectTimeoutMs: patientConnectMs });
    const note = (line: string) => progress.note(line);
    try {
      const source = config.SECRET_KEY === '' ? join(dataDir, 'secret-key') : 'SECRET_KEY';
      await checkSecret({ db, secretKey: key, source, onLost: config.LOST_API_KEYS, note });
      // A database elsewhere is not a copy because this folder is.
      if (config.DATABASE_URL === '' && isCopiedFolder(dataDir)) await holdOutbound(db);
      markOriginal(dataDir);
      const [state] = await db.query<{ is_held: boolean }>(
        'SELECT outbound_held_since IS NOT NULL AS is_held FROM signpost_installation()',
      );
      if (state?.is_held === true)
        note(
          'This is a restored copy: webhooks, postbacks and mail are held. Once the original no longer sends them, run npm run admin -- resume-outbound.',
        );
    } finally {
      await db.close();
    }
  }

  /** Each process gets its own role in the local Postgres, or the one configured for it in an external Postgres. */
  async #databaseUrls(owner: string): Promise<DatabaseUrls> {
    const { config, dataDir, progress } = this.#parts;
    if (config.DATABASE_URL === '') return ensureDatabaseRoles(owner, join(dataDir, 'postgres'));
    const names = {
      api: 'API_DATABASE_URL',
      gateway: 'GATEWAY_DATABASE_URL',
      ingest: 'INGEST_DATABASE_URL',
      redirector: 'EDGE_DATABASE_URL',
      webhooks: 'WEBHOOKS_DATABASE_URL',
    } as const satisfies Record<keyof DatabaseUrls, keyof Config>;
    const missing = Object.values(names).filter((name) => config[name] === '');
    if (missing.length > 0) {
      progress.note(`Not set: ${missing.join(', ')}. DATABASE_URL, whose role has all rights, is used instead.`);
    }
    const urlOf = (process: keyof DatabaseUrls) => config[names[process]] || owner;
    return {
      api: urlOf('api'),
      gateway: urlOf('gateway'),
      ingest: urlOf('ingest'),
      redirector: urlOf('redirector'),
      webhooks: urlOf('webhooks'),
    };
  }

  /** Rewrites the table of processes. */
  listProcesses(): void {
    const processes = this.#parts.supervisor.list();
    writeProcesses(
      this.processesFile,
      processes.map(({ name, pid }) => ({ name, pid, metrics_url: this.#metricsUrls.get(name) ?? null })),
    );
  }

  async stop(): Promise<void> {
    clearInterval(this.#logTimer);
    await this.#loginWatch?.stop();
    await this.#parts.supervisor.stop();
    this.listProcesses();
  }

  async #checkPorts(): Promise<void> {
    const { config, dataDir } = this.#parts;
    // deploy/single/upgrade keeps a redirector of the release before on its ports, which redirectors can share.
    const isBridged = existsSync(join(dataDir, 'bridge'));
    for (const name of ['REDIRECTOR_HTTP_PORT', 'REDIRECTOR_HTTPS_PORT', 'API_HTTP_PORT'] as const) {
      const host = name === 'API_HTTP_PORT' ? config.API_HOST : config.REDIRECTOR_HOST;
      if (config[name] !== 0 && !(isBridged && name !== 'API_HTTP_PORT')) await portFor(name, config[name], name, host);
    }
  }

  async #certificate(): Promise<CertificateFiles> {
    const { config, dataDir } = this.#parts;
    if (config.TLS_CERT_FILE.length > 0 || config.TLS_KEY_FILE.length > 0) {
      return { certFile: config.TLS_CERT_FILE.join(','), keyFile: config.TLS_KEY_FILE.join(',') };
    }
    return certificate(dataDir, config.SHORT_LINK_DOMAIN);
  }

  /** Servers without a configured URL. Each keeps its address and its passwords while the launcher runs. */
  async #startServers(): Promise<Omit<StoreUrls, 'database'> & { readonly owner: string }> {
    const { config, dataDir, progress, built } = this.#parts;
    const warn = (line: string) => progress.note(line);
    const entry = builtClickHouse();
    const place = (name: string) => join(dataDir, name);
    const [postgres, nats, redis, clickhouse] = await Promise.all([
      this.#server('postgres', config.DATABASE_URL, () => startPostgres({ dataDir: place('postgres') })),
      this.#server('nats', config.NATS_URL, (isFirst) => this.#startNats(isFirst)),
      this.#server('redis', config.REDIS_URL, (isFirst) =>
        startRedis({ dataDir: place('redis'), ...(isFirst ? { warn } : {}) }),
      ),
      this.#server('clickhouse', config.CLICKHOUSE_URL, async () => {
        await built;
        return startClickHouse({ dataDir: place('clickhouse'), entry });
      }),
    ]);
    const natsUrl = (role: 'publisher' | 'ingest' | 'gateway' | 'api') => nats?.urlOf(role) ?? config.NATS_URL;
    const redisUrl = (role: 'signpost' | 'redirector') => redis?.urlOf(role) ?? config.REDIS_URL;
    const clickhouseUrl = (role: 'signpost' | 'reader') => clickhouse?.urlOf(role) ?? config.CLICKHOUSE_URL;
    return {
      owner: postgres?.url ?? config.DATABASE_URL,
      nats: {
        publisher: natsUrl('publisher'),
        ingest: natsUrl('ingest'),
        gateway: natsUrl('gateway'),
        api: natsUrl('api'),
      },
      redis: { signpost: redisUrl('signpost'), redirector: redisUrl('redirector') },
      clickhouse: { signpost: clickhouseUrl('signpost'), reader: clickhouseUrl('reader') },
    };
  }

  async #startNats(isFirst: boolean): Promise<NatsServer> {
    const { config, dataDir } = this.#parts;
    const start = (port: number) =>
      startNats({ dataDir: join(dataDir, 'nats'), port, installation: config.INSTALLATION });
    const server = await (isFirst ? this.#ports.startOn('nats', start) : start(this.#natsPort));
    this.#natsPort = server.port;
    return server;
  }

  /** A local server; null when the URL of an external one is configured. */
  async #server<T extends LocalServer>(
    name: string,
    url: string,
    start: (isFirst: boolean) => Promise<T>,
  ): Promise<T | null> {
    if (url !== '') return null;
    const server = await this.#parts.supervisor.add(name, start);
    this.#logFiles.push(join(this.#parts.dataDir, name, 'server.log'));
    this.#parts.progress.done(`${name} is up`);
    return server;
  }

  async #startProcesses(facts: LaunchFacts, isWanted: (plan: ProcessPlan) => boolean): Promise<void> {
    const { config, dataDir, supervisor, progress, away } = this.#parts;
    const logFolder = join(dataDir, 'logs');
    const host = probeHost(config.METRICS_HOST);
    // All are added in the same turn, so that processes stop in the order of the plans.
    await Promise.all(
      processPlans(config, facts).map(async (plan, index) => {
        if (!isWanted(plan)) return;
        const { name, role, entry, settings } = plan;
        let metricsPort = config.METRICS_PORT === 0 ? 0 : config.METRICS_PORT + index;
        const startOn = (port: number, isFirst: boolean) => {
          metricsPort = port;
          this.#metricsUrls.set(name, `http://${host}:${port}`);
          const env = processEnvironment(role, { ...settings, METRICS_PORT: String(port) });
          const file = join(packageRoot(), 'dist', entry);
          return startNodeProcess(
            { name, entry: file, env, logFolder, host, metricsPort: port },
            isFirst && away.size === 0,
          );
        };
        this.#logFiles.push(join(logFolder, `${name}.log`));
        await supervisor.add(name, (isFirst) =>
          metricsPort === 0
            ? this.#ports.startOn(name, (port) => startOn(port, isFirst))
            : startOn(metricsPort, isFirst),
        );
        progress.done(`${name} ${away.size === 0 ? 'is ready' : 'runs'}`);
      }),
    );
  }

  #boundLogs(): void {
    for (const file of this.#logFiles) {
      try {
        boundLog(file);
      } catch (error) {
        this.#parts.progress.fault(`${file} could not be truncated: ${error instanceof Error ? error.message : error}`);
      }
    }
  }
}

/** Without Postgres or ClickHouse, only redirectors can start. */
function hasNoStore(away: LauncherParts['away']): boolean {
  return away.has('DATABASE_URL') || away.has('CLICKHOUSE_URL');
}

/** An address on which a listener bound to `host` can be reached. */
function probeHost(host: string): string {
  return host === '0.0.0.0' || host === '::' ? '127.0.0.1' : host;
}

function shownHost(host: string): string {
  const reachable = probeHost(host);
  return reachable.includes(':') ? `[${reachable}]` : reachable;
}

function shownUrl(scheme: string, host: string, port: number): string {
  return port === 0 ? '' : `${scheme}://${shownHost(host)}:${port}`;
}

export function faultText(error: unknown): string {
  if (error instanceof StartupError) return error.message;
  const fault = fileFault(error);
  if (fault !== null) return fault;
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}
