/** Runs once a minute: deletes old messages, and disables endpoints that are too far behind. */
import type { Clock } from '#common/clock.ts';
import { MINUTE_MS } from '#common/durations.ts';
import type { Log } from '#common/process/telemetry.ts';
import type { MessageStore } from './message-store.ts';

/** Maximum statements of one kind per pass; the rest waits for the next pass. */
const statementsMax = 20;

export interface ChoreParts {
  readonly store: MessageStore;
  readonly clock: Clock;
  readonly log: Pick<Log, 'warn' | 'info'>;
  /** Replaced in tests. */
  readonly pendingMax?: number;
}

export class Chores {
  readonly name = 'chores';
  /** Values from the last pass. */
  backlog = { pending: 0, overdueMs: 0 };
  readonly #parts: ChoreParts;
  #timer: NodeJS.Timeout | undefined;
  #running: Promise<void> | undefined;

  constructor(parts: ChoreParts) {
    this.#parts = parts;
  }

  start(): void {
    this.#timer = setInterval(() => this.#begin(), MINUTE_MS).unref();
    this.#begin();
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer);
    await this.#running;
  }

  /** Never rejects. */
  async look(): Promise<void> {
    const { store, clock, log, pendingMax } = this.#parts;
    try {
      for (const endpointId of await store.overfull(pendingMax)) {
        const isDisabled = await store.disable(endpointId, 'backlog', clock());
        if (isDisabled)
          log.warn({ endpoint_id: endpointId }, 'a webhook endpoint was disabled because it is too far behind');
      }
      await untilNone(() => store.failBacklogs());
      await untilNone(() => store.deleteOld());
      this.backlog = await store.backlog(clock());
    } catch (err) {
      log.warn({ err }, 'deleting old webhook messages failed; retrying');
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
