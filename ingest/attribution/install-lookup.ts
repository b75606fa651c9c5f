/** The install that an event came from: this process's memory, then Redis, then ClickHouse for what Redis has lost. */
import { LRUCache } from 'lru-cache';
import { deviceKey, type InstallFacts, installKey, type RecentInstalls } from '#common/attribution/recent-installs.ts';
import { isRedisUnavailable } from '#common/stores/redis.ts';
import type { Time } from '#common/time.ts';
import type { StoredInstall, StoredRecords } from './stored-records.ts';

const REMEMBERED_MAX = 50_000;
/** An event may be a moment ahead of its install; after this long the install is looked for again. */
const ABSENT_MS = 5_000;
const PRESENT_MS = 600_000;
const STORED_ABSENT_MS = 60_000;
const LOOKUP_MAX = 2_000;

/** Who an event says it is from. */
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
  /** How often installs have appeared: a question that was under way then may have missed them. */
  #appearances = 0;

  /**
   * @param time by which what is remembered ages; that of the system if absent.
   * @param rememberedMax most keys in memory, whose room is taken at once.
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

  /** Facts for each source, in their order; null where there is no install. @throws ClickHouseFailure */
  async find(sources: readonly EventSource[]): Promise<(InstallFacts | null)[]> {
    const wanted = new Set<string>();
    for (const source of sources) {
      for (const key of keysOf(source)) if (!this.#known.has(key)) wanted.add(key);
    }
    const appearances = this.#appearances;
    const missing = await this.#fromRedis([...wanted]);
    if (missing.length > 0) await this.#fromClickHouse(missing, appearances);
    return sources.map((source) => {
      for (const key of keysOf(source)) {
        const facts = this.#known.get(key)?.facts ?? null;
        if (facts !== null) return facts;
      }
      return null;
    });
  }

  /** These installs are there now: a question that begins later finds them. */
  appeared(keys: readonly string[]): void {
    this.#appearances++;
    for (const key of keys) {
      if (this.#known.get(key)?.facts === null) this.#known.delete(key);
      this.#notStored.delete(key);
    }
  }

  /** Any install may be there now. */
  forgetAbsent(): void {
    this.#appearances++;
    for (const [key, { facts }] of this.#known) if (facts === null) this.#known.delete(key);
    this.#notStored.clear();
  }

  /** The keys that Redis does not have either. */
  async #fromRedis(keys: readonly string[]): Promise<string[]> {
    let found: (InstallFacts | null)[] = [];
    try {
      found = (await this.#recent?.byKeys(keys)) ?? [];
    } catch (error) {
      if (!isRedisUnavailable(error)) throw error;
    }
    return keys.filter((key, at) => {
      const facts = found[at] ?? null;
      if (facts) {
        this.counters.redis_hits++;
        this.#known.set(key, { facts }, { ttl: PRESENT_MS });
      }
      return facts === null;
    });
  }

  async #fromClickHouse(keys: readonly string[], appearances: number): Promise<void> {
    const unasked = keys.filter((key) => !this.#notStored.has(key));
    for (let at = 0; at < unasked.length; at += LOOKUP_MAX) await this.#read(unasked.slice(at, at + LOOKUP_MAX));
    for (const key of keys) {
      if (this.#known.has(key)) continue;
      this.counters.unknown++;
      if (appearances !== this.#appearances) continue;
      this.#known.set(key, { facts: null }, { ttl: ABSENT_MS });
      this.#notStored.set(key, true);
    }
  }

  async #read(keys: readonly string[]): Promise<void> {
    this.counters.clickhouse_lookups++;
    const [apps, installs, devices] = [new Set<string>(), new Set<string>(), new Set<string>()];
    for (const key of keys) {
      const [kind, app_id = '', ...rest] = key.split(':');
      apps.add(app_id);
      (kind === 'install' ? installs : devices).add(rest.join(':'));
    }
    const [byInstall, byDevice] = await Promise.all([
      this.#newest('install_id', apps, installs),
      this.#newest('device_id', apps, devices),
    ]);
    const found = new Map<string, InstallFacts>();
    for (const { app_id, device_id: _, ...facts } of byInstall) found.set(installKey(app_id, facts.install_id), facts);
    for (const { app_id, device_id, ...facts } of byDevice) found.set(deviceKey(app_id, device_id), facts);
    // An id of one app may be asked for with another app's.
    const wanted = new Set(keys);
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

/** What an event names comes first: its install, then its device, then the device's other names. */
function keysOf({ app_id, install_id, device_id, aliases = [] }: EventSource): string[] {
  const keys: string[] = [];
  if (install_id !== '') keys.push(installKey(app_id, install_id));
  if (device_id !== '') keys.push(deviceKey(app_id, device_id));
  for (const alias of aliases) keys.push(deviceKey(app_id, alias));
  return keys;
}
