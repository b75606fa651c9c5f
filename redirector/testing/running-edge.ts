/** An edge on real servers for tests: a Postgres database, a Redis, a journal in a temporary folder, one port. */
import { createHash } from 'node:crypto';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { type IncomingHttpHeaders, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { AddressWriter } from '#common/address-writer.ts';
import { type Clock, systemClock } from '#common/clock.ts';
import { newId } from '#common/ids.ts';
import { Journal } from '#common/journal/journal.ts';
import { LinkCache } from '#common/links/link-cache.ts';
import { announceChanges, type LinkChange } from '#common/links/link-changes.ts';
import type { LinkSnapshot } from '#common/links/link-snapshot.ts';
import { LongLinks } from '#common/links/long-links.ts';
import { QueryFilter } from '#common/links/query-filter.ts';
import { shortUrlWith } from '#common/links/short-url.ts';
import { payloadOf, readFrame } from '#common/log/frame.ts';
import { Postgres } from '#common/stores/postgres.ts';
import { Redis } from '#common/stores/redis.ts';
import { StoreClock } from '#common/stores/store-clock.ts';
import { sleep, systemTime } from '#common/time.ts';
import { AdPostbacks, adPostbackReceivers } from '#redirector/ad-postbacks.ts';
import { appleKeys } from '#redirector/apple-keys.ts';
import { AskedLinks } from '#redirector/asked-links.ts';
import { ClickLanes } from '#redirector/click-lanes.ts';
import { ClickShares } from '#redirector/click-shares.ts';
import { DiskCache } from '#redirector/disk-cache.ts';
import { Edge } from '#redirector/edge.ts';
import { OrphanVisits } from '#redirector/orphan-visits.ts';
import { RedirectorServer } from '#redirector/server.ts';
import { currentBootId, ShareFile } from '#redirector/share-file.ts';
import { ShareStore } from '#redirector/share-store.ts';
import { BEACON_PATH, SignalBeacon } from '#redirector/signal-beacon.ts';
import { SignalTokens } from '#redirector/signal-token.ts';
import { VisitorCountries } from '#redirector/visitor-countries.ts';

export interface Reply {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

type LinkRow = Partial<Omit<LinkSnapshot, 'expires_at'>> & {
  short_code: string;
  path?: string;
  expires_at?: Date;
  deleted_at?: Date;
};

export interface AppRow {
  host: string;
  ios?: object | null;
  android?: object | null;
  fallback_url?: string | null;
  settings?: object;
  pages?: object;
  deleted_at?: Date | null;
}

/** Inserts the rows that the redirector reads, as the API does. */
export class Rows {
  readonly db: Postgres;
  readonly organization_id = newId('org', Date.now());

  constructor(url: string) {
    this.db = new Postgres({ url, name: 'test-rows', connectionsMax: 2 });
  }

  async begin(): Promise<void> {
    await this.db.execute(`INSERT INTO organizations (id, name) VALUES ($1, 'Test')`, [this.organization_id]);
  }

  async app(row: AppRow): Promise<string> {
    const id = newId('app', Date.now());
    await this.db.execute(
      `INSERT INTO apps (host_verified_at, id, organization_id, name, host, ios, android, fallback_url, settings, pages, deleted_at,
         api_key_ciphertext, api_key_hash, api_key_preview, created_at, updated_at)
       VALUES (now(), $1, $2, 'App', $3, $4, $5, $6, $7, $8, $9, 'x', $10, 'x', now(), now())`,
      [
        id,
        this.organization_id,
        row.host,
        row.ios ?? null,
        row.android ?? null,
        row.fallback_url ?? null,
        row.settings ?? { privacy_mode: 'full_ip' },
        row.pages ?? null,
        row.deleted_at ?? null,
        createHash('sha256').update(id).digest(),
      ],
    );
    return id;
  }

  async link(app_id: string, row: LinkRow): Promise<string> {
    const id = newId('lnk', Date.now());
    const { short_code, path = '/', ...rest } = row;
    const names = ['id', 'organization_id', 'app_id', 'short_code', 'path', 'source', 'created_at', 'updated_at'];
    const now = new Date();
    const values: unknown[] = [id, this.organization_id, app_id, short_code, path, 'dashboard', now, now];
    for (const [name, value] of Object.entries(rest)) {
      names.push(name);
      values.push(name === 'rules' ? JSON.stringify(value) : value);
    }
    const places = values.map((_, n) => `$${n + 1}`).join(', ');
    await this.db.execute(`INSERT INTO links (${names.join(', ')}) VALUES (${places})`, values);
    return id;
  }

  async set(table: 'apps' | 'links', id: string, column: string, value: unknown): Promise<void> {
    await this.db.execute(`UPDATE ${table} SET ${column} = $2, updated_at = now() WHERE id = $1`, [id, value]);
  }
}

export class TestEdge {
  readonly folder: string;
  readonly storeClock: StoreClock;
  readonly diskCache: DiskCache;
  readonly redis: Redis;
  readonly db: Postgres;
  readonly journal: Journal;
  readonly cache: LinkCache;
  readonly beacon: SignalBeacon;
  readonly adPostbacks: AdPostbacks;
  readonly orphans: OrphanVisits;
  readonly shares: ClickShares;
  readonly shareDb: Postgres;
  readonly edge: Edge;
  readonly server: RedirectorServer;
  readonly port: number;

  private constructor(
    parts: Pick<
      TestEdge,
      | 'folder'
      | 'storeClock'
      | 'diskCache'
      | 'redis'
      | 'db'
      | 'journal'
      | 'cache'
      | 'beacon'
      | 'adPostbacks'
      | 'orphans'
      | 'shares'
      | 'shareDb'
      | 'edge'
      | 'server'
      | 'port'
    >,
  ) {
    this.folder = parts.folder;
    this.storeClock = parts.storeClock;
    this.diskCache = parts.diskCache;
    this.redis = parts.redis;
    this.db = parts.db;
    this.journal = parts.journal;
    this.cache = parts.cache;
    this.beacon = parts.beacon;
    this.adPostbacks = parts.adPostbacks;
    this.orphans = parts.orphans;
    this.shares = parts.shares;
    this.shareDb = parts.shareDb;
    this.edge = parts.edge;
    this.server = parts.server;
    this.port = parts.port;
  }

  static async start(
    urls: { redis: string; postgres: string },
    options: {
      journalBytesMax?: number;
      trustedProxies?: string[];
      proxySecret?: string;
      diskCacheFolder?: string;
      beaconClock?: Clock;
      /** This machine's clock; the real one if absent. */
      clock?: Clock;
      /** In the format of APPLE_ATTRIBUTION_KEYS. */
      appleKeys?: string[];
      /** The file of its shares; by default a separate one. */
      sharePath?: string;
    } = {},
  ): Promise<TestEdge> {
    const folder = mkdtempSync(join(tmpdir(), 'signpost-redirector-'));
    const redis = new Redis({ url: urls.redis, name: 'redirector', commandTimeoutMs: 250 });
    const db = new Postgres({ url: urls.postgres, name: 'redirector', connectionsMax: 2, statementTimeoutMs: 1_500 });
    const journal = await Journal.open({
      root: join(folder, 'journal'),
      slot: 'redirector-0',
      segmentBytes: 1_048_576,
      bytesMax: options.journalBytesMax ?? 67_108_864,
      sync: 'after_answer',
    });
    await redis.connect();
    const clock = options.clock ?? systemClock;
    const storeClock = StoreClock.ofRedis(redis, { time: { ...systemTime, now: clock } });
    await storeClock.start();
    const diskCache = new DiskCache(
      options.diskCacheFolder ?? join(folder, 'links'),
      `redirector-${process.hrtime.bigint()}`,
      storeClock.now,
    );
    const cache = new LinkCache({
      redis,
      db,
      clock: storeClock.now,
      entriesMax: 10_000,
      bytesMax: 16_777_216,
      diskCache,
    });
    const lanes = new ClickLanes(journal, 1);
    const trustedProxies = options.trustedProxies ?? [];
    const tokens = new SignalTokens('a key for tests that is long enough');
    const beacon = new SignalBeacon({ redis, tokens, clock: options.beaconClock ?? systemClock });
    const keys = appleKeys(options.appleKeys);
    const adPostbacks = new AdPostbacks({ apps: cache.apps, db, keys, clock: options.beaconClock ?? systemClock });
    const orphans = new OrphanVisits(db, systemClock);
    const shareDb = new Postgres({ url: urls.postgres, name: 'shares', connectionsMax: 1, statementTimeoutMs: 1_500 });
    const path = options.sharePath ?? join(folder, 'shares', 'redirector-0.shares');
    const shareFile = ShareFile.open({ path, bootId: currentBootId() });
    const place = { machine: 'test', instance: path, shareMax: 200 };
    const store = new ShareStore({ db: shareDb, ...place }, shareFile);
    const shares = new ClickShares(shareFile, store, () => undefined);
    shares.start();
    const asked = new AskedLinks(cache, redis, systemClock);
    cache.watch(asked);
    const edge = new Edge({
      shares,
      asked,
      orphans,
      longLinks: new LongLinks(cache, db, systemClock),
      tokens,
      receivers: new Map([[BEACON_PATH, beacon], ...adPostbackReceivers(adPostbacks)]),
      cache,
      journal,
      lanes,
      clock,
      trustedProxies,
      proxySecret: options.proxySecret ?? '',
      addresses: new AddressWriter('a key for tests that is long enough'),
      queryFilter: new QueryFilter(['token', 'password', 'email', 'code', 'signature']),
      shortUrl: shortUrlWith({ SHORT_LINK_SCHEME: 'https', SHORT_LINK_PORT: 0 }),
      countries: new VisitorCountries('', (error) => {
        throw error;
      }),
    });
    const server = new RedirectorServer(edge, systemClock);
    await cache.start();
    const port = server.listen({ host: '127.0.0.1', port: 0 });
    return new TestEdge({
      folder,
      storeClock,
      diskCache,
      redis,
      db,
      journal,
      cache,
      beacon,
      adPostbacks,
      orphans,
      shares,
      shareDb,
      edge,
      server,
      port,
    });
  }

  async stop(): Promise<void> {
    await this.server.stop(500);
    await this.shares.stop();
    this.storeClock.stop();
    await this.shareDb.close();
    await this.cache.stop();
    await this.diskCache.close();
    await this.redis.close();
    await this.db.close();
    await this.journal.close();
    rmSync(this.folder, { recursive: true, force: true });
  }

  announce(...changes: LinkChange[]): Promise<boolean> {
    return announceChanges(this.redis, changes);
  }

  get(host: string, path: string, headers: Record<string, string> = {}, method = 'GET'): Promise<Reply> {
    return get(this.port, host, path, headers, method);
  }

  /** Every click in the journal, in order. */
  clicks(): Record<string, unknown>[] {
    return journalClicks(join(this.folder, 'journal'));
  }
}

/** Every click in the journals of a folder, slot by slot. */
export function journalClicks(root: string): Record<string, unknown>[] {
  const found: Record<string, unknown>[] = [];
  for (const name of readdirSync(root, { recursive: true, encoding: 'utf8' }).sort()) {
    if (!name.endsWith('.seg')) continue;
    const bytes = readFileSync(join(root, name));
    for (let at = 0; ; ) {
      const read = readFrame(bytes, at);
      if (read.state !== 'frame') break;
      for (const line of payloadOf(bytes, read.header, at).toString().trimEnd().split('\n'))
        found.push(JSON.parse(line));
      at += read.bytes;
    }
  }
  return found;
}

/** One request on its own connection; redirects are not followed. */
export function get(
  port: number,
  host: string,
  path: string,
  headers: Record<string, string | string[]> = {},
  method = 'GET',
): Promise<Reply> {
  return new Promise((done, fail) => {
    const sent = request(
      { port, host: '127.0.0.1', path, method, headers: { host, ...headers }, agent: false, timeout: 10_000 },
      (answer) => {
        let body = '';
        answer.setEncoding('utf8');
        answer.on('data', (chunk: string) => {
          body += chunk;
        });
        answer.on('end', () => done({ status: answer.statusCode ?? 0, headers: answer.headers, body }));
      },
    );
    sent.on('error', fail);
    sent.end();
  });
}

/** Waits until the condition holds. @throws after five seconds. */
export async function until(condition: () => boolean | Promise<boolean>, what: string, ms = 5_000): Promise<void> {
  const end = Date.now() + ms;
  while (!(await condition())) {
    if (Date.now() > end) throw new Error(`timed out after ${ms} ms: ${what}`);
    await sleep(systemTime, 10);
  }
}
