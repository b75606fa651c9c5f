/**
 * Runs once a minute: deletes old messages and those of apps that their endpoint no longer covers, and disables
 * endpoints that are too far behind.
 */
import { MINUTE_MS } from '#common/durations.ts';
import type { Log } from '#common/process/telemetry.ts';
import type { MessagePlace, MessageStore } from './message-store.ts';

/** Maximum statements of one kind per pass; the rest waits for the next pass. */
const statementsMax = 20;
/** Maximum messages per pass that are looked at for their app. */
const lookedMax = 500_000;
/** What a statement costs that finds few messages, in messages. */
const lookedMin = 50;

/** How far the messages of an endpoint were looked at. */
interface Check {
  readonly apps: string;
  /** Null: from the newest. */
  readonly after: MessagePlace | null;
  readonly isDone: boolean;
  /** Some messages were locked, and must be looked at again. */
  readonly hasSkipped: boolean;
}

export interface ChoreParts {
  readonly store: MessageStore;
  readonly log: Pick<Log, 'warn' | 'info'>;
  /** While nothing is sent, no message that waits ages. */
  readonly maySend: () => boolean;
  /** Whether that is because this is a restored copy. */
  readonly isHeld: () => boolean;
  /** Replaced in tests. */
  readonly pendingMax?: number;
  readonly rowsAtOnce?: number;
  readonly lookedMax?: number;
}

export class Chores {
  readonly name = 'chores';
  /** Values from the last pass. */
  backlog = { pending: 0, overdueMs: 0 };
  /** Messages that failed while their endpoint was held and full, since the start of the process. */
  beyondHeld = 0;
  readonly #parts: ChoreParts;
  /** By endpoint. */
  readonly #checks = new Map<string, Check>();
  #timer: NodeJS.Timeout | undefined;
  #running: Promise<void> | undefined;
  #isStopping = false;
  #isFailing = false;

  constructor(parts: ChoreParts) {
    this.#parts = parts;
  }

  start(): void {
    this.#timer = setInterval(() => this.#begin(), MINUTE_MS).unref();
    this.#begin();
  }

  async stop(): Promise<void> {
    this.#isStopping = true;
    clearInterval(this.#timer);
    await this.#running;
  }

  /** Never rejects. */
  async look(): Promise<void> {
    const { store, log, pendingMax } = this.#parts;
    try {
      const isHeld = this.#parts.isHeld();
      const { pending, overdueMs } = await store.backlog();
      this.backlog = { pending, overdueMs: isHeld ? 0 : overdueMs };
      if (isHeld) await this.#boundHeld();
      if (!this.#parts.maySend()) return;
      for (const endpointId of await store.overfull(pendingMax)) {
        const isDisabled = await store.disable(endpointId, 'backlog');
        if (isDisabled)
          log.warn({ endpoint_id: endpointId }, 'a webhook endpoint was disabled because it is too far behind');
      }
      await store.dueNow();
      await untilNone(() => store.failBacklogs());
      await untilNone(() => store.deleteOldWaiting());
      await untilNone(() => store.deleteOldEnded());
      await this.#deleteUncovered();
      this.#isFailing = false;
    } catch (err) {
      if (!this.#isFailing) log.warn({ err }, 'deleting old webhook messages failed; retrying');
      this.#isFailing = true;
    }
  }

  /** What is held must not fill Postgres: beyond the maximum of an endpoint, its newest messages fail. */
  async #boundHeld(): Promise<void> {
    const { store, log, pendingMax } = this.#parts;
    for (const endpointId of await store.overfull(pendingMax)) {
      let failed = 0;
      for (let more = 1; more > 0 && !this.#isStopping; failed += more)
        more = await store.failBeyond(endpointId, pendingMax);
      this.beyondHeld += failed;
      if (failed > 0)
        log.warn(
          { endpoint_id: endpointId, messages: failed },
          'more messages of a webhook endpoint are held than its maximum: the newest count as failed',
        );
    }
    await untilNone(() => store.deleteOldEnded());
  }

  /**
   * Looks at the messages of an endpoint when the process has started, and when its apps were changed. Until then, its
   * uncovered messages are neither sent nor shown.
   */
  async #deleteUncovered(): Promise<void> {
    const { store, rowsAtOnce } = this.#parts;
    const endpoints = await store.limitedEndpoints();
    const ids = new Set(endpoints.map(({ id }) => id));
    for (const id of this.#checks.keys()) if (!ids.has(id)) this.#checks.delete(id);
    let free = this.#parts.lookedMax ?? lookedMax;
    for (const { id, apps } of endpoints) {
      const known = this.#checks.get(id);
      let check = known?.apps === apps ? known : { apps, after: null, isDone: false, hasSkipped: false };
      while (!check.isDone) {
        if (free <= 0 || this.#isStopping) return;
        const { looked, skipped, next } = await store.deleteUncovered(id, check.after, rowsAtOnce);
        free -= Math.max(looked, lookedMin);
        const hasSkipped: boolean = check.hasSkipped || skipped > 0;
        check = { apps, after: next, isDone: next === null, hasSkipped };
        this.#checks.set(id, check);
      }
      if (check.hasSkipped) this.#checks.delete(id);
    }
  }

  #begin(): void {
    this.#running ??= this.look().finally(() => {
      this.#running = undefined;
    });
  }
}

async function untilNone(statement: () => Promise<number>): Promise<void> {
  for (let n = 0; n < statementsMax; n++) if ((await statement()) === 0) return;
}
