/**
 * Cache of links by URL and apps by host for the edges: process → Redis → Postgres, with change announcements.
 *
 * Announcements use Redis pub/sub, which drops messages without subscribers. So every cache also publishes a heartbeat to
 * itself over the same two connections. While heartbeats arrive, so do announcements, and entries are trusted for a minute;
 * when they stop, for a second; when they are back, every older entry is revalidated.
 */
import { randomBytes } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import type { Clock } from '#common/clock.ts';
import type { Redis, RedisCommands, Subscription } from '#common/stores/redis.ts';
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
import { SnapshotCache } from './snapshot-cache.ts';
import { changeMarker, type SharedStore, snapshotLimits } from './snapshot-source.ts';

/**
 * A link that was created, changed or deleted, or an app that was (for a new host: once for the old and once for the
 * new).
 */
export type LinkChange =
  | { readonly kind: 'link'; readonly host: string; readonly short_code: string }
  | { readonly kind: 'app'; readonly host: string };

const channel = 'links:changes';
const prefixes = { link: 'link:2:', app: 'host:1:' } as const;

const heartbeatIntervalMs = 300;
/** Silence after which announcements count as lost. */
const silenceMaxMs = 900;
/** A link whose app differs from its host's app is revalidated at most once per interval. */
const rereadPauseMs = 30_000;
const rereadMax = 10_000;
const announceAttempts = 3;
const announcePauseMs = 100;

const keyOf = (change: LinkChange): string =>
  change.kind === 'link' ? linkKey(change.host, change.short_code) : change.host;

/**
 * Publishes committed changes to every process. The marker is written first, so that receivers of the change find no
 * outdated snapshot in Redis. @returns false if Redis did not accept it.
 */
export async function tellCaches(redis: Pick<Redis, 'commands'>, changes: readonly LinkChange[]): Promise<boolean> {
  try {
    await Promise.all(
      changes.map((change) =>
        redis.commands.set(prefixes[change.kind] + keyOf(change), changeMarker, 'PX', snapshotLimits.markerMs),
      ),
    );
    await Promise.all(changes.map((change) => redis.commands.publish(channel, `${change.kind} ${keyOf(change)}`)));
    return true;
  } catch {
    return false;
  }
}

/**
 * `tellCaches` with a few retries, for new links: a code that a redirector remembers as unknown is looked up again
 * after seconds anyway. Changes to existing links are recorded and published until they arrive (api/outbox.ts).
 */
export async function announceChange(
  redis: Pick<Redis, 'commands'>,
  ...changes: readonly LinkChange[]
): Promise<boolean> {
  for (let attempt = 0; attempt < announceAttempts; attempt++) {
    if (attempt > 0) await new Promise((done) => setTimeout(done, announcePauseMs * 3 ** (attempt - 1)));
    if (await tellCaches(redis, changes)) return true;
  }
  return false;
}

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
  /** Everything stored before must not be found any more. */
  changed(key: string): void;
  find(key: string): Promise<string | undefined>;
}

/** Also notified of changes: holders of data about links under other keys than their URL. */
export interface LinkWatcher {
  /** @param key `linkKey` of a link, or the host of an app. */
  changed(kind: LinkChange['kind'], key: string): void;
  /** Changes may have been missed until now. */
  missed(): void;
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
  readonly #clock: Clock;
  readonly #diskCache: LinkDiskCache | undefined;
  readonly #heartbeatChannel = `links:heartbeat:${randomBytes(9).toString('base64url')}`;
  readonly #watchers: LinkWatcher[] = [];
  readonly #rereadLately = new LRUCache<string, true>({ max: rereadMax, ttl: rereadPauseMs });
  #subscription: Subscription | undefined;
  #heartbeat: NodeJS.Timeout | undefined;
  #heardMs = 0;
  #isSubscribed = false;

  constructor({ redis, db, clock, entriesMax, bytesMax, diskCache }: LinkCacheOptions) {
    this.#redis = redis;
    this.#clock = clock;
    this.#diskCache = diskCache;
    const store = sharedStore(redis.commands);
    this.links = new SnapshotCache({
      source: { prefix: prefixes.link, encode: encodeLink, decode: decodeLink, read: (keys) => readLinks(db, keys) },
      store,
      clock,
      entriesMax,
      bytesMax,
      ...this.#onDisk('link'),
    });
    this.apps = new SnapshotCache({
      source: { prefix: prefixes.app, encode: JSON.stringify, decode: decodeApp, read: (keys) => readApps(db, keys) },
      store,
      clock,
      entriesMax,
      bytesMax,
      ...this.#onDisk('app'),
    });
  }

  /** Whether changes currently arrive within a second. */
  get isSubscribed(): boolean {
    return this.#isSubscribed;
  }

  watch(watcher: LinkWatcher): void {
    this.#watchers.push(watcher);
  }

  /** Subscribes to changes. Redis need not be available. */
  async start(): Promise<void> {
    this.#subscription = await this.#redis.subscribe(
      [channel, this.#heartbeatChannel],
      (from, message) => (from === channel ? this.#hear(message) : this.#hearBeat()),
      () => this.#gap(),
    );
    this.#heartbeat = setInterval(() => this.#sendHeartbeat(), heartbeatIntervalMs).unref();
  }

  async stop(): Promise<void> {
    clearInterval(this.#heartbeat);
    await this.#subscription?.close();
  }

  /**
   * A link and its app by the parts of a URL. Null if the link does not exist; undefined if no store answers and
   * nothing is cached. Archived and expired links are returned: the caller decides what they mean.
   */
  find(host: string, shortCode: string): Promise<FoundLink | null | undefined> {
    const nowMs = this.#clock();
    const key = linkKey(host, shortCode);
    const app = this.apps.get(host, nowMs);
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

  #fitting(
    app: LinkedApp | null | undefined,
    link: LinkSnapshot | null | undefined,
    host: string,
    shortCode: string,
  ): FoundLink | null | undefined | Promise<FoundLink | null | undefined> {
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
    if (!(await tellCaches(this.#redis, changes))) return null;
    for (const change of changes) (change.kind === 'app' ? this.apps : this.links).changed(keyOf(change));
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

  #hear(message: string): void {
    const space = message.indexOf(' ');
    const key = message.slice(space + 1);
    const isLink = message.startsWith('link ');
    if (!isLink && !message.startsWith('app ')) return;
    (isLink ? this.links : this.apps).changed(key);
    for (const watcher of this.#watchers) watcher.changed(isLink ? 'link' : 'app', key);
    this.#diskCache?.changed(message);
  }

  #sendHeartbeat(): void {
    if (this.#isSubscribed && this.#clock() - this.#heardMs > silenceMaxMs) this.#setSubscribed(false);
    this.#redis.commands.publish(this.#heartbeatChannel, '').catch(() => this.#setSubscribed(false));
  }

  #hearBeat(): void {
    this.#heardMs = this.#clock();
    if (!this.#isSubscribed) this.#setSubscribed(true);
  }

  #gap(): void {
    this.#heardMs = this.#clock();
    this.#setSubscribed(true);
  }

  #setSubscribed(isSubscribed: boolean): void {
    if (!isSubscribed && !this.#isSubscribed) return;
    this.#isSubscribed = isSubscribed;
    this.links.setSubscribed(isSubscribed);
    this.apps.setSubscribed(isSubscribed);
    if (isSubscribed) for (const watcher of this.#watchers) watcher.missed();
  }
}
