/**
 * Outbox of link and app changes for the redirectors and the copies of apps in Redis, so that no committed change is
 * lost if Redis or this process is down at that moment.
 *
 * Triggers record each change in `outbox`, in the change's own transaction (pg-migrations). `tell` reads the rows,
 * publishes them, and only then commits their deletion: publishing twice only costs a second lookup. It is called
 * after each change, when Redis reconnects, and every second for rows of other processes.
 *
 * Bounds: `batchMax` changes at a time, one pass at a time; a change older than `worthMs` is dropped, because no cache
 * uses an entry for that long.
 */
import type { AppSnapshots } from '#common/links/app-snapshot.ts';
import { announceChanges, type LinkChange } from '#common/links/link-changes.ts';
import type { Log } from '#common/process/telemetry.ts';
import { Worker, type WorkerTime } from '#common/process/worker.ts';
import type { Postgres } from '#common/stores/postgres.ts';
import type { Redis } from '#common/stores/redis.ts';

const batchMax = 500;
const lookMs = 1_000;
/** Other processes' changes wait for so long after an outage of Postgres. */
const pauseMaxMs = 5_000;
/** Longer than a link is cached in a redirector (one minute) and in Redis (five minutes). */
const worthMs = 600_000;

const takeOldest = `
  DELETE FROM outbox WHERE id IN (SELECT id FROM outbox ORDER BY id LIMIT ${batchMax} FOR UPDATE SKIP LOCKED)
  RETURNING kind, host, short_code, app_id, version, api_key_hash`;
const dropWorthless = `DELETE FROM outbox WHERE changed_at < (SELECT signpost_deletion_time()) - interval '${worthMs} milliseconds'`;

class NotTaken extends Error {}

type NotedChange = LinkChange & {
  /** For apps: the lowest valid version, and the key whose copy is outdated. */
  readonly app_id: string | null;
  readonly version: number | null;
  readonly api_key_hash: Buffer | null;
};

interface OutboxOptions {
  readonly db: Postgres;
  readonly redis: Redis;
  readonly appSnapshots: AppSnapshots;
  readonly log: Pick<Log, 'warn' | 'info'>;
  /** Replaced in tests. */
  readonly time?: WorkerTime;
}

export class Outbox {
  /** Since the start of the process. */
  readonly counters = { delivered: 0, failures: 0, dropped: 0 };
  readonly #db: Postgres;
  readonly #redis: Redis;
  readonly #appSnapshots: AppSnapshots;
  readonly #worker: Worker;
  readonly #onReady = () => void this.tell();

  constructor({ db, redis, appSnapshots, log, time }: OutboxOptions) {
    this.#db = db;
    this.#redis = redis;
    this.#appSnapshots = appSnapshots;
    this.#worker = new Worker({
      ...{ name: 'outbox', pass: () => this.#counted(), everyMs: lookMs, pauseMaxMs, log, time },
      failing: 'sending link changes to the redirectors failed; retrying',
      working: 'link changes can be sent to the redirectors again',
    });
  }

  /** Whether a change waits for Redis to return. */
  get isBehind(): boolean {
    return this.#worker.isFailing;
  }

  start(): void {
    this.#worker.start();
    this.#redis.commands.on('ready', this.#onReady);
  }

  async stop(): Promise<void> {
    this.#redis.commands.off('ready', this.#onReady);
    await this.#worker.stop();
  }

  /**
   * Publishes all changes committed before the call. False if Redis or Postgres failed; then it is retried when they
   * are back. Never rejects.
   */
  tell(): Promise<boolean> {
    return this.#worker.run();
  }

  async #counted(): Promise<void> {
    try {
      await this.#pass();
    } catch (error) {
      this.counters.failures++;
      throw error;
    }
  }

  async #pass(): Promise<void> {
    if (!this.#redis.isConnected()) {
      this.counters.dropped += await this.#db.execute(dropWorthless, [], 'drop_worthless_changes');
      throw new NotTaken('Redis is unavailable');
    }
    for (;;) {
      const delivered = await this.#db.transaction(async (queries) => {
        const changes = await queries.query<NotedChange>(takeOldest, [], 'take_outbox');
        await this.#settle(changes);
        if (changes.length > 0 && !(await announceChanges(this.#redis, changes)))
          throw new NotTaken('Redis is unavailable');
        return changes.length;
      });
      this.counters.delivered += delivered;
      if (delivered < batchMax) return;
    }
  }

  /**
   * For changes by the API, this repeats what it already did, without effect; for changes by admin commands, it is the
   * only time.
   */
  async #settle(changes: readonly NotedChange[]): Promise<void> {
    await Promise.all(
      changes.map(async ({ app_id, version, api_key_hash }) => {
        if (app_id === null || version === null || api_key_hash === null) return;
        await this.#appSnapshots.settle(api_key_hash, app_id, version);
      }),
    );
  }
}
