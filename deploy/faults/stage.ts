/**
 * A complete Signpost with stores that can be disturbed one by one: `npm start` runs its processes, and each store is
 * behind a proxy.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { sleep, systemTime } from '#common/time.ts';
import { login, Stack } from '#deploy/journeys/stack.ts';
import { StackProcesses } from './processes-of-stack.ts';
import { Store, type StoreName, storeNames } from './store.ts';
import { StoredRecords } from './stored.ts';

const linkWithinMs = 30_000;

export interface StageOptions {
  readonly redirectors?: number;
  readonly settings?: Readonly<Record<string, string>>;
  /** Megabytes of a store's own small disk. */
  readonly disks?: Partial<Record<StoreName, number>>;
}

export interface StagedLink {
  readonly id: string;
  readonly short_code: string;
}

export class Stage {
  readonly stack: Stack;
  readonly stores: Readonly<Record<StoreName, Store>>;
  readonly processes: StackProcesses;
  readonly stored: StoredRecords;
  readonly host: string;
  readonly apiKey: string;
  readonly #call: Awaited<ReturnType<Stack['loggedIn']>>;
  readonly #appId: string;

  private constructor(
    stack: Stack,
    stores: Record<StoreName, Store>,
    call: Awaited<ReturnType<Stack['loggedIn']>>,
    app: { id: string; host: string; api_key: string },
  ) {
    this.stack = stack;
    this.stores = stores;
    this.processes = new StackProcesses(stack);
    this.stored = new StoredRecords(stores.clickhouse.directUrl);
    this.host = app.host;
    this.apiKey = app.api_key;
    this.#appId = app.id;
    this.#call = call;
  }

  static async start(options: StageOptions = {}): Promise<Stage> {
    const { redirectors = 1, settings = {}, disks = {} } = options;
    const [postgres, nats, redis, clickhouse] = await Promise.all(
      storeNames.map((name) => Store.start(name, disks[name])),
    );
    if (!postgres || !nats || !redis || !clickhouse) throw new Error('a store is missing');
    const stores = { postgres, nats, redis, clickhouse };
    try {
      const stack = await Stack.start({
        DATABASE_URL: postgres.url,
        NATS_URL: nats.url,
        REDIS_URL: redis.url,
        CLICKHOUSE_URL: clickhouse.url,
        REDIRECTOR_PROCESSES: String(redirectors),
        RATE_LIMIT_EVENTS: '5000000',
        ...settings,
      });
      const call = await stack.loggedIn();
      const made = await call('/apps', {
        method: 'POST',
        body: { name: 'Faults', fallback_url: 'https://example.com/' },
      });
      return new Stage(stack, stores, call, made.json());
    } catch (error) {
      await Promise.all(storeNames.map((name) => stores[name].stop()));
      throw error;
    }
  }

  get port(): number {
    return this.stack.redirectorPort;
  }

  get gatewayPorts(): readonly number[] {
    return [this.stack.apiPort];
  }

  /**
   * Repeats the request while the service reports that it is unavailable: a connection may have died unnoticed in the
   * previous fault.
   */
  async newLink(path: string): Promise<StagedLink> {
    const body = { app_id: this.#appId, path, campaign: path };
    const deadline = Date.now() + linkWithinMs;
    for (;;) {
      const reply = await this.#call('/links', { method: 'POST', body });
      if (reply.status === 201) return reply.json();
      if (reply.status !== 500 || Date.now() > deadline) throw new Error(`no link was created: ${reply.text}`);
      await sleep(systemTime, 250);
    }
  }

  /** The authorization header for requests of the first user. */
  async authorization(): Promise<string> {
    const { access_token } = (await this.stack.api('/auth/login', { method: 'POST', body: login })).json<{
      access_token: string;
    }>();
    return `Bearer ${access_token}`;
  }

  /** The sum of a metric of a process over its labels; `has` is text that the line must contain. */
  async metric(processName: string, metric: string, has = ''): Promise<number> {
    const parts: { name: string; metrics_url: string | null }[] = JSON.parse(
      readFileSync(join(this.stack.dataDir, 'processes.json'), 'utf8'),
    );
    const url = parts.find((part) => part.name === processName)?.metrics_url;
    const text = await (await fetch(`${url}/metrics`, { signal: AbortSignal.timeout(5_000) })).text();
    const lines = text.split('\n').filter((line) => line.startsWith(metric) && line.includes(has));
    return lines.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' '))), 0);
  }

  async stop(): Promise<void> {
    await this.stack.stop();
    for (const name of storeNames) await this.stores[name].stop();
  }
}
