/**
 * What `npm start` runs, with clients that enter every answer in a ledger; for tests of backup, restore and upgrade.
 */
import { execFile } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { vi } from 'vitest';
import { localClickHouseUrl } from '#api/admin/local-store.ts';
import { Stack } from '#deploy/journeys/stack.ts';
import { SeededRandom } from '#testing/seeded-random.ts';
import { ClickLoad } from './click-load.ts';
import { EventLoad } from './event-load.ts';
import { seed } from './fault-sizes.ts';
import { Ledger } from './ledger.ts';
import { StoredRecords } from './stored.ts';

const patience = { timeout: 45_000, interval: 50 };

interface Ledgers {
  readonly clicks: Ledger;
  readonly events: Ledger;
}

export class MachineStage {
  readonly stack: Stack;
  readonly app: { readonly id: string; readonly host: string; readonly api_key: string };
  readonly link: { readonly id: string; readonly short_code: string };
  readonly all: Ledgers = { clicks: new Ledger(), events: new Ledger() };
  /** What had been answered when the backup began. */
  before: Ledgers = this.all;
  readonly #folder = mkdtempSync(join(tmpdir(), 'signpost-backup-'));
  #backups = 0;

  private constructor(stack: Stack, app: MachineStage['app'], link: MachineStage['link']) {
    this.stack = stack;
    this.app = app;
    this.link = link;
  }

  /** @param folder of the release to start with; this one if absent. */
  static async start(folder?: string): Promise<MachineStage> {
    const stack = await Stack.start({ RATE_LIMIT_EVENTS: '5000000' }, folder);
    const call = await stack.loggedIn();
    const body = { name: 'Kept', fallback_url: 'https://example.com/' };
    const app = (await call('/apps', { method: 'POST', body })).json<MachineStage['app']>();
    const link = (await call('/links', { method: 'POST', body: { app_id: app.id, path: '/kept' } })).json<
      MachineStage['link']
    >();
    return new MachineStage(stack, app, link);
  }

  async stop(): Promise<void> {
    await this.stack.stop();
    rmSync(this.#folder, { recursive: true, force: true });
  }

  /** The last backup. */
  get backup(): string {
    return join(this.#folder, String(this.#backups));
  }

  async admin(...args: string[]): Promise<string> {
    const env = { PATH: process.env['PATH'] ?? '', DATA_DIR: this.stack.dataDir };
    const { stdout } = await promisify(execFile)(process.execPath, ['dist/signpost.js', 'admin', ...args], { env });
    return stdout;
  }

  /** Runs the work while clicks and events are sent, some before and some after it. */
  async underLoad(work: () => Promise<void>): Promise<void> {
    const { stack, app, link, all } = this;
    const clicks = new ClickLoad({
      ...{ port: stack.redirectorPort, host: app.host, code: link.short_code, ledger: all.clicks },
      ...{ rate: 400, visitors: 16 },
    });
    const events = new EventLoad({
      ...{ ports: [stack.apiPort], apiKey: app.api_key, tag: link.id, ledger: all.events },
      ...{ random: new SeededRandom(seed), batchEvents: 20, senders: 2, pauseMs: 40, repeats: 0.3 },
    });
    const more = async (count: number) => {
      const wanted = clicks.sent + count;
      await vi.waitUntil(() => clicks.sent > wanted, patience);
    };
    clicks.start();
    events.start();
    try {
      await more(800);
      await work();
      await more(400);
    } finally {
      await Promise.all([clicks.stop(), events.stop(20_000)]);
    }
  }

  async backUpUnderLoad(): Promise<void> {
    this.#backups++;
    await this.underLoad(async () => {
      this.before = { clicks: this.all.clicks.copy(), events: this.all.events.copy() };
      await this.admin('backup', this.backup);
    });
  }

  /** Removes everything in the data folder except `kept`, as the loss of a disk does. */
  wipe(kept: readonly string[] = []): void {
    for (const name of readdirSync(this.stack.dataDir).filter((one) => !kept.includes(one))) {
      rmSync(join(this.stack.dataDir, name), { recursive: true, force: true });
    }
  }

  /** @param promised what must be stored. Nothing may be stored twice, or without having been sent. */
  async figures(promised: Ledgers, clickhouseUrl = localClickHouseUrl(this.stack.dataDir)) {
    const stored = new StoredRecords(clickhouseUrl);
    const [clicks, events] = [await stored.clicks(this.link.id), await stored.events(this.link.id)];
    const of = { clicks: this.all.clicks.judge(clicks), events: this.all.events.judge(events) };
    return {
      lost: promised.clicks.judge(clicks).lost + promised.events.judge(events).lost,
      duplicated: of.clicks.duplicated + of.events.duplicated,
      phantom: of.clicks.phantom + of.events.phantom,
      rollup_diff: await stored.rollupDifference(),
    };
  }
}
