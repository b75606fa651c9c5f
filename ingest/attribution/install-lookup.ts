/**
 * Finds the install of an event: in this process's memory, then Redis, then ClickHouse for installs that Redis has
 * lost.
 */
import { LRUCache } from 'lru-cache';
import { deviceKey, type InstallFacts, installKey, type RecentInstalls } from '#common/attribution/recent-installs.ts';
import { isRedisUnavailable } from '#common/stores/redis.ts';
import type { Time } from '#common/time.ts';
import type { StoredInstall, StoredRecords } from './stored-records.ts';

const REMEMBERED_MAX = 50_000;
/** An event may arrive shortly before its install; after this time the install is looked up again. */
const ABSENT_MS = 5_000;
const PRESENT_MS = 600_000;
const STORED_ABSENT_MS = 60_000;
const LOOKUP_MAX = 2_000;

/** An identifier of an install: its own id, or one of its device. */
interface InstallName {
  readonly kind: 'install' | 'device';
  readonly app_id: string;
  readonly id: string;
}

type NamedKey = readonly [key: string, name: InstallName];

/** How an event identifies its install. */
export interface EventSource {
  readonly app_id: string;
  readonly install_id: string;
  readonly device_id: string;
  readonly aliases?: readonly string[];
}

export class InstallLookup {
  /** Since the start of the process. */
  readonly counters = { redis_hits: 0, clickhouse_hits: 0, clickhouse_lookups: 0, unknown: 0 };
  readonly #recent: RecentInstalls | null;
  readonly #stored: StoredRecords;
  readonly #known: LRUCache<string, { facts: InstallFacts | null }>;
  readonly #notStored: LRUCache<string, true>;
  /** Counts calls that announce new installs: a lookup that was running at the time may have missed them. */
  #appearances = 0;

  /**
   * @param time the clock by which entries expire; the system clock if absent.
   * @param rememberedMax maximum keys in memory, which is allocated up front.
   */
  constructor(
    recent: RecentInstalls | null,
    stored: StoredRecords,
    time?: Pick<Time, 'elapsed'>,
    rememberedMax = REMEMBERED_MAX,
  ) {
    this.#recent = recent;
    this.#stored = stored;
    const aging = time && { perf: { now: () => time.elapsed() }, ttlResolution: 0 };
    this.#known = new LRUCache({ max: rememberedMax, ...aging });
    this.#notStored = new LRUCache({ max: rememberedMax, ttl: STORED_ABSENT_MS, ...aging });
  }

  /** Facts for each source, in the same order; null if there is no install. @throws ClickHouseFailure */
  async find(sources: readonly EventSource[]): Promise<(InstallFacts | null)[]> {
    const names = sources.map(namesOf);
    const wanted = new Map<string, InstallName>();
    for (const own of names) for (const [key, name] of own) if (!this.#known.has(key)) wanted.set(key, name);
    const appearances = this.#appearances;
    await this.#fromRedis(wanted);
    if (wanted.size > 0) await this.#fromClickHouse(wanted, appearances);
    return names.map((own) => {
      for (const [key] of own) {
        const facts = this.#known.get(key)?.facts ?? null;
        if (facts !== null) return facts;
      }
      return null;
    });
  }

  /** Announces that these installs are stored: a lookup that begins later finds them. */
  appeared(keys: readonly string[]): void {
    this.#appearances++;
    for (const key of keys) {
      if (this.#known.get(key)?.facts === null) this.#known.delete(key);
      this.#notStored.delete(key);
    }
  }

  /** Drops all cached absences: any install may have been stored. */
  forgetAbsent(): void {
    this.#appearances++;
    for (const [key, { facts }] of this.#known) if (facts === null) this.#known.delete(key);
    this.#notStored.clear();
  }

  /** Removes from the map the keys that Redis has. */
  async #fromRedis(wanted: Map<string, InstallName>): Promise<void> {
    const keys = [...wanted.keys()];
    let found: (InstallFacts | null)[] = [];
    try {
      found = (await this.#recent?.byKeys(keys)) ?? [];
    } catch (error) {
      if (!isRedisUnavailable(error)) throw error;
    }
    for (const [at, key] of keys.entries()) {
      const facts = found[at] ?? null;
      if (facts === null) continue;
      this.counters.redis_hits++;
      this.#known.set(key, { facts }, { ttl: PRESENT_MS });
      wanted.delete(key);
    }
  }

  async #fromClickHouse(wanted: ReadonlyMap<string, InstallName>, appearances: number): Promise<void> {
    const unasked = [...wanted].filter(([key]) => !this.#notStored.has(key));
    for (let at = 0; at < unasked.length; at += LOOKUP_MAX) await this.#read(unasked.slice(at, at + LOOKUP_MAX));
    for (const key of wanted.keys()) {
      if (this.#known.has(key)) continue;
      this.counters.unknown++;
      if (appearances !== this.#appearances) continue;
      this.#known.set(key, { facts: null }, { ttl: ABSENT_MS });
      this.#notStored.set(key, true);
    }
  }

  async #read(names: readonly NamedKey[]): Promise<void> {
    this.counters.clickhouse_lookups++;
    const [apps, installs, devices] = [new Set<string>(), new Set<string>(), new Set<string>()];
    for (const [, { kind, app_id, id }] of names) {
      apps.add(app_id);
      (kind === 'install' ? installs : devices).add(id);
    }
    const [byInstall, byDevice] = await Promise.all([
      this.#newest('install_id', apps, installs),
      this.#newest('device_id', apps, devices),
    ]);
    const found = new Map<string, InstallFacts>();
    for (const { app_id, device_id: _, ...facts } of byInstall) found.set(installKey(app_id, facts.install_id), facts);
    for (const { app_id, device_id, ...facts } of byDevice) found.set(deviceKey(app_id, device_id), facts);
    // All ids are looked up in all apps, so an id may be found in an app that was not asked about.
    const wanted = new Map(names);
    for (const key of found.keys()) if (!wanted.has(key)) found.delete(key);
    for (const [key, facts] of found) this.#known.set(key, { facts }, { ttl: PRESENT_MS });
    this.counters.clickhouse_hits += found.size;
    await this.#recent?.fillIn(found).catch(() => undefined);
  }

  async #newest(
    column: 'install_id' | 'device_id',
    apps: ReadonlySet<string>,
    ids: ReadonlySet<string>,
  ): Promise<readonly StoredInstall[]> {
    return ids.size === 0 ? [] : await this.#stored.newestInstalls(column, [...apps], [...ids]);
  }
}

/**
 * Identifiers in order of preference, each with its key in Redis: the event's install, its device, the aliases of the
 * device.
 */
function namesOf({ app_id, install_id, device_id, aliases = [] }: EventSource): NamedKey[] {
  const names: NamedKey[] = [];
  const ofDevice = (id: string): NamedKey => [deviceKey(app_id, id), { kind: 'device', app_id, id }];
  if (install_id !== '') names.push([installKey(app_id, install_id), { kind: 'install', app_id, id: install_id }]);
  if (device_id !== '') names.push(ofDevice(device_id));
  for (const alias of aliases) names.push(ofDevice(alias));
  return names;
}
