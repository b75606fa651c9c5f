/**
 * Cache of links by URL and apps by host for edge processes. From the nearest layer to the farthest, with the purpose
 * of each:
 *
 *   redirector/known-links.ts   what a visit needs of a link, prepared: one lookup per visit
 *   snapshot-cache.ts           snapshots in this process; snapshot-reader.ts asks Redis, then Postgres, for all that wait
 *   link-changes.ts             announcements of changes: entries are trusted for a minute while they arrive, else for a second
 *   redirector/disk-cache.ts    links that this machine served, for when neither Redis nor Postgres answers
 */
import { LRUCache } from 'lru-cache';
import type { Clock } from '#common/clock.ts';
import type { Redis, RedisCommands } from '#common/stores/redis.ts';
import { announceChanges, ChangeSubscription, changeKey, type LinkChange, snapshotPrefixes } from './link-changes.ts';
import {
  decodeApp,
  decodeLink,
  encodeLink,
  type LinkDatabase,
  type LinkedApp,
  type LinkSnapshot,
  linkKey,
  readApps,
  readLinks,
} from './link-snapshot.ts';
import { lowerCode } from './short-code.ts';
import { SnapshotCache } from './snapshot-cache.ts';
import type { SharedStore } from './snapshot-source.ts';

/** A link whose app differs from its host's app is revalidated at most once per interval. */
const rereadPauseMs = 30_000;
const rereadMax = 10_000;

function sharedStore(commands: RedisCommands): SharedStore {
  return {
    mget: (keys) => commands.mget([...keys]),
    addMissing: async (entries) => {
      await Promise.all(entries.map(({ key, value, ttlMs }) => commands.set(key, value, 'PX', ttlMs, 'NX')));
    },
  };
}

export interface FoundLink {
  readonly app: LinkedApp;
  readonly link: LinkSnapshot;
}

function together(
  app: LinkedApp | null | undefined,
  link: LinkSnapshot | null | undefined,
): FoundLink | null | undefined {
  if (app === null || link === null) return null;
  if (app === undefined || link === undefined) return undefined;
  return link.app_id === app.id ? { app, link } : null;
}

/** A second cache of snapshots, for when no store answers. */
export interface LinkDiskCache {
  put(key: string, text: string | null): void;
  /** Everything stored before must no longer be found. */
  changed(key: string): void;
  find(key: string): Promise<string | undefined>;
}

/** Listeners that are also notified of changes, because they hold data about links under other keys than the URL. */
export interface LinkWatcher {
  /** @param key `linkKey` of a link, or the host of an app. */
  changed(kind: LinkChange['kind'], key: string): void;
  /** Changes may have been missed until now. */
  missed(): void;
  /** The app's old service was asked about the code of this key. */
  asked?(key: string): void;
}

export interface LinkCacheOptions {
  readonly redis: Redis;
  readonly db: LinkDatabase;
  readonly clock: Clock;
  readonly entriesMax: number;
  readonly bytesMax: number;
  readonly diskCache?: LinkDiskCache;
}

export class LinkCache {
  /** By host and short code (`linkKey`). */
  readonly links: SnapshotCache<LinkSnapshot>;
  /** By host. */
  readonly apps: SnapshotCache<LinkedApp>;
  readonly #redis: Redis;
  /** By which entries age, and by which their links end: shared by all processes if possible. */
  readonly clock: Clock;
  readonly #diskCache: LinkDiskCache | undefined;
  readonly #subscription: ChangeSubscription;
  readonly #watchers: LinkWatcher[] = [];
  readonly #rereadLately = new LRUCache<string, true>({ max: rereadMax, ttl: rereadPauseMs });

  constructor({ redis, db, clock, entriesMax, bytesMax, diskCache }: LinkCacheOptions) {
    this.#redis = redis;
    this.clock = clock;
    this.#diskCache = diskCache;
    this.#subscription = new ChangeSubscription(redis, {
      changed: (kind, key) => this.#changed(kind, key),
      asked: (key) => {
        for (const watcher of this.#watchers) watcher.asked?.(key);
      },
      setSubscribed: (isSubscribed) => this.#setSubscribed(isSubscribed),
    });
    const store = sharedStore(redis.commands);
    this.links = new SnapshotCache({
      source: {
        prefix: snapshotPrefixes.link,
        encode: encodeLink,
        decode: decodeLink,
        read: (keys) => readLinks(db, keys),
      },
      store,
      clock,
      entriesMax,
      bytesMax,
      ...this.#onDisk('link'),
    });
    this.apps = new SnapshotCache({
      source: {
        prefix: snapshotPrefixes.app,
        encode: JSON.stringify,
        decode: decodeApp,
        read: (keys) => readApps(db, keys),
      },
      store,
      clock,
      entriesMax,
      bytesMax,
      ...this.#onDisk('app'),
    });
  }

  /** Whether changes currently arrive within a second. */
  get isSubscribed(): boolean {
    return this.#subscription.isSubscribed;
  }

  watch(watcher: LinkWatcher): void {
    this.#watchers.push(watcher);
  }

  /** Starts to listen for changes. Redis does not have to be reachable. */
  async start(): Promise<void> {
    await this.#subscription.start();
  }

  async stop(): Promise<void> {
    await this.#subscription.stop();
  }

  /**
   * A link and its app, by the parts of a URL; the code is as returned by `codeOfPath`. Null if the link does not
   * exist; undefined if no store answers and nothing is cached. Archived and expired links are returned: the caller
   * decides what they mean.
   */
  find(host: string, givenCode: string): Promise<FoundLink | null | undefined> {
    const nowMs = this.clock();
    const app = this.apps.get(host, nowMs);
    const shortCode = app?.codes_ignore_case ? lowerCode(givenCode) : givenCode;
    const key = linkKey(host, shortCode);
    const link = this.links.get(key, nowMs);
    if (app === null || link === null) return Promise.resolve(null);
    if (app !== undefined && link !== undefined && link.app_id === app.id) return Promise.resolve({ app, link });
    if (app !== undefined && link === undefined) {
      return this.links.load(key).then((loaded) => this.#fitting(app, loaded, host, shortCode));
    }
    const loading = link === undefined ? this.links.load(key) : Promise.resolve(link);
    const ofHost = app === undefined ? this.apps.load(host) : Promise.resolve(app);
    return ofHost.then(async (loaded) => this.#fitting(loaded, await loading, host, shortCode));
  }

  /** The app of a host, as `find` gives it. */
  async findApp(host: string): Promise<LinkedApp | null | undefined> {
    const known = this.apps.get(host, this.clock());
    return known === undefined ? await this.apps.load(host) : known;
  }

  #fitting(
    app: LinkedApp | null | undefined,
    link: LinkSnapshot | null | undefined,
    host: string,
    shortCode: string,
  ): FoundLink | null | undefined | Promise<FoundLink | null | undefined> {
    // The app was not known yet when the lookup started.
    if (app?.codes_ignore_case && lowerCode(shortCode) !== shortCode) return this.find(host, lowerCode(shortCode));
    const isOfAnotherApp = app && link && link.app_id !== app.id;
    if (isOfAnotherApp && this.#mayReread(linkKey(host, shortCode))) return this.#reread(host, shortCode);
    return together(app, link);
  }

  /** The host moved to another app, which is not announced per link: link and app are read from Postgres. */
  async #reread(host: string, short_code: string): Promise<FoundLink | null | undefined> {
    const changes = [
      { kind: 'app', host },
      { kind: 'link', host, short_code },
    ] as const;
    if (!(await announceChanges(this.#redis, changes))) return null;
    for (const change of changes) (change.kind === 'app' ? this.apps : this.links).changed(changeKey(change));
    return together(...(await Promise.all([this.apps.load(host), this.links.load(linkKey(host, short_code))])));
  }

  /** At most once per interval, whatever the result. */
  #mayReread(key: string): boolean {
    if (this.#rereadLately.has(key)) return false;
    this.#rereadLately.set(key, true);
    return true;
  }

  #onDisk(kind: LinkChange['kind']) {
    const diskCache = this.#diskCache;
    if (diskCache === undefined) return {};
    return {
      onChecked: (key: string, text: string | null) => diskCache.put(`${kind} ${key}`, text),
      lastResort: (key: string) => diskCache.find(`${kind} ${key}`),
    };
  }

  #changed(kind: LinkChange['kind'], key: string): void {
    (kind === 'link' ? this.links : this.apps).changed(key);
    for (const watcher of this.#watchers) watcher.changed(kind, key);
    this.#diskCache?.changed(`${kind} ${key}`);
  }

  #setSubscribed(isSubscribed: boolean): void {
    this.links.setSubscribed(isSubscribed);
    this.apps.setSubscribed(isSubscribed);
    if (isSubscribed) for (const watcher of this.#watchers) watcher.missed();
  }
}
