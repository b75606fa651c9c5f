/**
 * How long clicks of each app are stored for matching, in Redis under `windows:<app_id>`: the SDK edge writes the
 * windows when it sees a change, ingest reads them as clicks arrive. If lost, the defaults apply until the edge writes
 * them again.
 */
import type { Redis } from '#common/stores/redis.ts';

export interface Windows {
  readonly attribution_window_hours: number;
  readonly probabilistic_window_hours: number;
}

/** The defaults of an app. */
export const defaultWindows: Windows = { attribution_window_hours: 168, probabilistic_window_hours: 6 };

/** Every method throws if Redis is unavailable. */
export class AttributionWindows {
  readonly #redis: Redis;

  constructor(redis: Redis) {
    this.#redis = redis;
  }

  async put(appId: string, windows: Windows): Promise<void> {
    const { attribution_window_hours, probabilistic_window_hours } = windows;
    await this.#redis.commands.set(keyOf(appId), `${attribution_window_hours} ${probabilistic_window_hours}`);
  }

  /** In the order of the arguments. */
  async of(appIds: readonly string[]): Promise<Windows[]> {
    if (appIds.length === 0) return [];
    const found = await this.#redis.commands.mget(appIds.map(keyOf));
    return found.map((text) => {
      const [attribution_window_hours, probabilistic_window_hours] = (text ?? '').split(' ').map(Number);
      if (!attribution_window_hours || probabilistic_window_hours === undefined) return defaultWindows;
      return { attribution_window_hours, probabilistic_window_hours };
    });
  }
}

function keyOf(appId: string): string {
  return `windows:${appId}`;
}
