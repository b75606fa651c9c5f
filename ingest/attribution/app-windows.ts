/** The attribution window of each app, as the gateway last wrote it; read again after a few seconds. */
import { LRUCache } from 'lru-cache';
import type { Windows } from '#common/attribution/attribution-windows.ts';
import type { Clock } from '#common/clock.ts';

const FRESH_MS = 5_000;
const APPS_MAX = 10_000;

interface Known {
  readonly windows: Windows;
  readonly readMs: number;
}

export class AppWindows {
  readonly #read: (appIds: readonly string[]) => Promise<Windows[]>;
  readonly #clock: Clock;
  readonly #known = new LRUCache<string, Known>({ max: APPS_MAX });

  /** @param read the windows of apps, in the order asked for. */
  constructor(read: (appIds: readonly string[]) => Promise<Windows[]>, clock: Clock) {
    this.#read = read;
    this.#clock = clock;
  }

  /** Windows of these apps. Throws what reading throws. */
  async of(appIds: ReadonlySet<string>): Promise<ReadonlyMap<string, Windows>> {
    const nowMs = this.#clock();
    const all = new Map<string, Windows>();
    const unknown: string[] = [];
    for (const id of appIds) {
      const known = this.#known.get(id);
      if (known && nowMs - known.readMs < FRESH_MS) all.set(id, known.windows);
      else unknown.push(id);
    }
    if (unknown.length === 0) return all;
    for (const [at, windows] of (await this.#read(unknown)).entries()) {
      const id = unknown[at] ?? '';
      all.set(id, windows);
      this.#known.set(id, { windows, readMs: nowMs });
    }
    return all;
  }

  clear(): void {
    this.#known.clear();
  }
}
