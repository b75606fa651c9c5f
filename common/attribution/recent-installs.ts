/**
 * What events inherit from their install, in Redis under `install:<app_id>:<install_id>` and
 * `device:<app_id>:<device_id>`, for thirty days. It can be lost: installs are in ClickHouse.
 */
import type { CampaignTexts } from '#common/campaign-fields.ts';
import { DAY_MS } from '#common/durations.ts';
import type { Redis } from '#common/stores/redis.ts';

const TTL_MS = 30 * DAY_MS;

/** The fields that events inherit. */
export interface InstallFacts extends Readonly<CampaignTexts> {
  readonly install_id: string;
  readonly link_id: string;
  readonly click_id: string;
  readonly platform: string;
  readonly country: string;
  /** Absent if the edge stored it, or a version that knew countries alone. */
  readonly region?: string;
  readonly city?: string;
  /** The network by which the place is looked up, for an install that the edge stored without one. */
  readonly network?: string;
}

/** Every method throws if Redis is unavailable. */
export class RecentInstalls {
  readonly #redis: Redis;

  constructor(redis: Redis) {
    this.#redis = redis;
  }

  /** Makes an install findable for events, by its id and by its device, if that is known. */
  async put(appId: string, deviceId: string, install: InstallFacts): Promise<void> {
    const json = JSON.stringify(install);
    const keys = [installKey(appId, install.install_id), ...(deviceId === '' ? [] : [deviceKey(appId, deviceId)])];
    await Promise.all(keys.map((key) => this.#redis.commands.set(key, json, 'PX', TTL_MS)));
  }

  /**
   * Stores it under keys of `installKey` and `deviceKey` that do not exist yet: existing entries are as new, or newer.
   */
  async fillIn(installs: ReadonlyMap<string, InstallFacts>): Promise<void> {
    const { commands } = this.#redis;
    await Promise.all(
      [...installs].map(([key, facts]) => commands.set(key, JSON.stringify(facts), 'PX', TTL_MS, 'NX')),
    );
  }

  /** By `installKey` and `deviceKey`, in the order of the arguments. */
  async byKeys(keys: readonly string[]): Promise<(InstallFacts | null)[]> {
    if (keys.length === 0) return [];
    const found = await this.#redis.commands.mget([...keys]);
    return found.map((json) => (json === null ? null : JSON.parse(json)));
  }
}

export function installKey(appId: string, installId: string): string {
  return `install:${appId}:${installId}`;
}

export function deviceKey(appId: string, deviceId: string): string {
  return `device:${appId}:${deviceId}`;
}
