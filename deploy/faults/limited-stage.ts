/**
 * Four redirectors, each on a machine of its own as far as one machine can show it: each has its own folder, name, port
 * and publisher. Postgres, Redis and NATS are behind proxies. Links are inserted into Postgres directly, so no other
 * process is needed.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { processEnvironment } from '#common/process/config.ts';
import { packageRoot } from '#common/process/paths.ts';
import type { SettingName } from '#common/process/settings.ts';
import type { Child } from '#deploy/local/child.ts';
import { addressKey } from '#deploy/local/made-once.ts';
import { startNodeProcess } from '#deploy/local/node-child.ts';
import { freePort } from '#deploy/local/ports.ts';
import { migratePostgres } from '#pg-migrations/migrate.ts';
import { journalClicks, Rows } from '#redirector/testing/running-edge.ts';
import { Store } from './store.ts';

export const limitedHost = 'limited.localhost';
const redirectors = 4;

interface Machine {
  readonly name: string;
  readonly port: number;
  readonly metricsPorts: { readonly redirector: number; readonly publisher: number };
  readonly children: Partial<Record<'redirector' | 'publisher', Child>>;
}

export class LimitedStage {
  readonly machines: readonly Machine[];
  readonly stores: Readonly<Record<'postgres' | 'redis' | 'nats', Store>>;
  readonly rows: Rows;
  readonly #folder: string;
  #appId = '';
  readonly #ids = new Map<string, string>();

  private constructor(folder: string, machines: readonly Machine[], stores: LimitedStage['stores']) {
    this.#folder = folder;
    this.machines = machines;
    this.stores = stores;
    this.rows = new Rows(stores.postgres.directUrl);
  }

  static async start(): Promise<LimitedStage> {
    const [postgres, redis, nats] = await Promise.all([
      Store.start('postgres'),
      Store.start('redis'),
      Store.start('nats'),
    ]);
    const machines: Machine[] = [];
    for (let n = 0; n < redirectors; n++)
      machines.push({
        name: `edge-${n}`,
        port: await freePort(),
        metricsPorts: { redirector: await freePort(), publisher: await freePort() },
        children: {},
      });
    const folder = mkdtempSync(join(tmpdir(), 'signpost-limited-'));
    const stage = new LimitedStage(folder, machines, { postgres, redis, nats });
    try {
      await migratePostgres({ url: postgres.directUrl });
      await stage.rows.begin();
      stage.#appId = await stage.rows.app({ host: limitedHost });
      for (const machine of machines) {
        await stage.#start(machine, 'publisher', true);
        await stage.#start(machine, 'redirector', true);
      }
    } catch (error) {
      await stage.stop();
      throw error;
    }
    return stage;
  }

  get ports(): number[] {
    return this.machines.map(({ port }) => port);
  }

  /** @returns the short code of the link. */
  async newLink(max_clicks: number): Promise<string> {
    const short_code = `limited-${this.#ids.size}`;
    this.#ids.set(short_code, '');
    const row = { short_code, max_clicks, fallback_url: 'https://example.com/' };
    this.#ids.set(short_code, await this.rows.link(this.#appId, row));
    return short_code;
  }

  /** The id of the link with this code. */
  idOf(code: string): string {
    return this.#ids.get(code) ?? '';
  }

  /** Kills the redirector of a machine with SIGKILL. */
  async kill(machine: Machine): Promise<void> {
    const child = machine.children.redirector;
    child?.kill('SIGKILL');
    await child?.exited;
    await child?.stop();
  }

  restart(machine: Machine): Promise<void> {
    return this.#start(machine, 'redirector', false);
  }

  /** Clicks of a link that are used according to Postgres. */
  async used(code: string): Promise<number> {
    const [row] = await this.rows.db.query<{ used: number }>(
      'SELECT coalesce(sum(s.used), 0)::bigint AS used FROM click_shares s JOIN links l ON l.id = s.link_id WHERE l.short_code = $1',
      [code],
    );
    return row?.used ?? 0;
  }

  /** Clicks in the journals of all machines, by link. */
  recorded(): Map<string, number> {
    const counts = new Map<string, number>();
    for (const { name } of this.machines)
      for (const { link_id } of journalClicks(join(this.#folder, name, 'journal')))
        counts.set(String(link_id), (counts.get(String(link_id)) ?? 0) + 1);
    return counts;
  }

  /** The sum of a metric over all redirectors; `has` is text that its lines must contain. */
  async metric(name: string, has = ''): Promise<number> {
    const texts = await Promise.all(
      this.machines.map(async ({ metricsPorts }) =>
        (await fetch(`http://127.0.0.1:${metricsPorts.redirector}/metrics`)).text(),
      ),
    );
    const lines = texts
      .flatMap((text) => text.split('\n'))
      .filter((line) => line.startsWith(name) && line.includes(has));
    return lines.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' '))), 0);
  }

  async stop(): Promise<void> {
    for (const { children } of this.machines) {
      await children.redirector?.stop();
      await children.publisher?.stop();
    }
    await this.rows.db.close();
    for (const store of Object.values(this.stores)) await store.stop();
    rmSync(this.#folder, { recursive: true, force: true });
  }

  async #start(machine: Machine, role: 'redirector' | 'publisher', isFirst: boolean): Promise<void> {
    const { name, port, metricsPorts } = machine;
    const { postgres, redis, nats } = this.stores;
    const settings: Partial<Record<SettingName, string>> = {
      ...{ INSTANCE: `${role}-0`, MACHINE_NAME: name, DATA_DIR: join(this.#folder, name) },
      ...{ METRICS_PORT: String(metricsPorts[role]), LOG_LEVEL: 'info' },
      ...(role === 'publisher'
        ? { NATS_URL: nats.url }
        : {
            ...{ DATABASE_URL: postgres.url, REDIS_URL: redis.url, ADDRESS_KEY: addressKey(this.#folder) },
            ...{ REDIRECTOR_HTTP_PORT: String(port), REDIRECTOR_HTTPS_PORT: '0' },
          }),
    };
    machine.children[role] = await startNodeProcess(
      {
        name: `${name}-${role}`,
        entry: join(packageRoot(), 'dist', role, 'main.js'),
        env: processEnvironment(role, settings),
        logFolder: join(this.#folder, 'logs'),
        host: '127.0.0.1',
        metricsPort: metricsPorts[role],
      },
      isFirst,
    );
  }
}
