/** The SDK edge on real servers for tests: Postgres, Redis, a journal in a temporary folder, one port. */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ApiKeys, newApiKey } from '#common/api-key.ts';
import { systemClock } from '#common/clock.ts';
import { newSecretKey, parseSecretKeys } from '#common/encryption.ts';
import { mountRoutes } from '#common/http/mount.ts';
import { HttpServer } from '#common/http/server.ts';
import { newId } from '#common/ids.ts';
import { InstallationState } from '#common/installation-state.ts';
import { Journal } from '#common/journal/journal.ts';
import { type AppSettings, AppSnapshots } from '#common/links/app-snapshot.ts';
import { LinkCache } from '#common/links/link-cache.ts';
import { decodeEventBatch, isEventBatch } from '#common/log/event-batch.ts';
import { decodeEvent, type EventRecord } from '#common/log/event-record.ts';
import { payloadOf, readFrame } from '#common/log/frame.ts';
import type { RecordKind } from '#common/log/record.ts';
import { loadConfig } from '#common/process/config.ts';
import { createMetrics } from '#common/process/telemetry.ts';
import { Postgres } from '#common/stores/postgres.ts';
import { Redis } from '#common/stores/redis.ts';
import { StoreClock } from '#common/stores/store-clock.ts';
import { exposeGateway } from '#gateway/counters.ts';
import type { ClickLookup } from '#gateway/match/click-archive.ts';
import { type GatewayParts, gatewayParts } from '#gateway/parts.ts';
import { migratePostgres } from '#pg-migrations/migrate.ts';
import { ownPostgresForTest, postgresForTest, redisForTest, type TestServer } from '#testing/servers.ts';

/** The ADDRESS_KEY of every edge in tests. */
export const addressKey = 'an address key for tests, long enough';

export const defaultSettings: AppSettings = {
  attribution_window_hours: 168,
  probabilistic_window_hours: 6,
  min_confidence: 0.6,
  privacy_mode: 'full_ip',
  conversion_events: ['signup'],
};

export interface Reply {
  readonly status: number;
  readonly headers: Headers;
  // biome-ignore lint/suspicious/noExplicitAny: a test reads whatever came
  readonly body: any;
}

interface Database extends Pick<TestServer, 'url' | 'stop'> {
  /** The connection string of the edge's database role. */
  readonly edgeUrl: string;
}

export class SdkEdge {
  readonly organization_id = newId('org', Date.now());
  readonly failures: unknown[] = [];
  /** Connection as the owner of the database. */
  readonly db: Postgres;
  readonly #edgeDb: Postgres;
  readonly redis: Redis;
  readonly redisServer: TestServer;
  readonly keys: ApiKeys;
  base = '';
  /** The answer of ClickHouse for a click that Redis does not have. */
  archive: ClickLookup['find'] = async () => 'unknown';
  parts: GatewayParts | null = null;
  metrics = createMetrics('test');
  readonly #database: Database;
  readonly #folder: string;
  readonly #isOwnFolder: boolean;
  readonly #secret = newSecretKey('test');
  #journal: Journal | null = null;
  #cache: LinkCache | null = null;
  #storeClock: StoreClock | null = null;
  #server: HttpServer | null = null;

  private constructor(database: Database, redisServer: TestServer, journalRoot: string) {
    this.#isOwnFolder = journalRoot === '';
    this.#folder = this.#isOwnFolder ? mkdtempSync(join(tmpdir(), 'signpost-edge-')) : journalRoot;
    this.#database = database;
    this.redisServer = redisServer;
    this.db = new Postgres({ url: database.url, name: 'test-edge' });
    this.#edgeDb = new Postgres({ url: database.edgeUrl, name: 'test-edge' });
    this.redis = new Redis({ url: redisServer.url, name: 'test-edge' });
    this.keys = new ApiKeys(parseSecretKeys(this.#secret));
  }

  /** @param journalRoot the journal's folder if a publisher reads it; empty if none does. */
  static async start(env: Record<string, string> = {}, journalRoot = ''): Promise<SdkEdge> {
    const postgres = await postgresForTest();
    return await SdkEdge.#startOn({ ...postgres, edgeUrl: postgres.urlAs('signpost_gateway') }, env, journalRoot);
  }

  /** Starts an edge with its own Postgres server, for tests that kill it. */
  static async startWithPostgres(): Promise<{ edge: SdkEdge; postgres: TestServer }> {
    const postgres = await ownPostgresForTest();
    await migratePostgres({ url: postgres.url });
    return { edge: await SdkEdge.#startOn({ ...postgres, edgeUrl: postgres.url }, {}, ''), postgres };
  }

  static async #startOn(database: Database, env: Record<string, string>, journalRoot: string): Promise<SdkEdge> {
    const redisServer = await redisForTest();
    const edge = new SdkEdge(database, redisServer, journalRoot);
    await edge.redis.connect();
    await edge.db.execute(`INSERT INTO organizations (id, name) VALUES ($1, 'Test')`, [edge.organization_id]);
    await edge.open(env);
    return edge;
  }

  /** Opens the journal and the port; after `close`, simulates a restart. */
  async open(env: Record<string, string> = {}): Promise<void> {
    const config = loadConfig([], {
      SECRET_KEY: this.#secret,
      ADDRESS_KEY: addressKey,
      RATE_LIMIT_MATCH: '1000000',
      RATE_LIMIT_EVENTS: '1000000',
      RATE_LIMIT_GENERAL: '1000000',
      ...env,
    });
    const options = { root: this.#folder, slot: 'edge', segmentBytes: 1_000_000_000, bytesMax: 4_000_000_000 };
    this.#journal = await Journal.open({ ...options, sync: 'after_answer' });
    this.#cache = new LinkCache({
      redis: this.redis,
      db: this.#edgeDb,
      clock: systemClock,
      entriesMax: 1_000,
      bytesMax: 10_000_000,
    });
    await this.#cache.start();
    const archive: ClickLookup = { find: (question) => this.archive(question) };
    const quiet = { warn: () => undefined, info: () => undefined };
    const state = new InstallationState({ db: this.#edgeDb, secrets: parseSecretKeys(config.SECRET_KEY), log: quiet });
    const stores = { db: this.#edgeDb, redis: this.redis, journal: this.#journal, cache: this.#cache };
    const storeClock = StoreClock.ofRedis(this.redis);
    this.#storeClock = storeClock;
    await storeClock.start();
    const clients = { ...stores, archive, state, storeClock };
    this.parts = gatewayParts(config, clients, systemClock);
    this.metrics = createMetrics('test');
    exposeGateway(this.metrics, this.parts.counters, this.#journal);
    this.#server = await HttpServer.start({
      host: '127.0.0.1',
      httpsPort: null,
      httpPort: 0,
      trustedProxies: ['127.0.0.1'],
      corsOrigins: [],
      routes: mountRoutes(this.parts.mount),
      guardUnknown: this.parts.guard,
      onFailure: (error) => this.failures.push(error),
    });
    this.base = `http://127.0.0.1:${this.#server.httpPort}/v1`;
  }

  async close(): Promise<void> {
    await this.#server?.stop(2_000);
    await this.#cache?.stop();
    this.#storeClock?.stop();
    await this.#journal?.close();
  }

  async stop(): Promise<void> {
    await this.close();
    await this.redis.close();
    await Promise.all([this.db.close(), this.#edgeDb.close()]);
    await Promise.all([this.#database.stop(), this.redisServer.stop()]);
    if (this.#isOwnFolder) rmSync(this.#folder, { recursive: true });
  }

  /** Creates an app as the API does. */
  async app(
    settings: Partial<AppSettings> = {},
    hosts: string[] = [],
  ): Promise<{ app_id: string; key: string; host: string }> {
    const app_id = newId('app', Date.now());
    const key = newApiKey();
    const host = `${app_id.slice(-12)}.localhost`;
    const stored = this.keys.store(key, app_id);
    await this.db.execute(
      `INSERT INTO apps (host_verified_at, id, organization_id, name, host, settings, allowed_destination_hosts,
         api_key_ciphertext, api_key_hash, api_key_preview, created_at, updated_at)
       VALUES (now(), $1, $2, 'App', $3, $4, $5, $6, $7, $8, now(), now())`,
      [
        ...[app_id, this.organization_id, host, { ...defaultSettings, ...settings }, hosts],
        ...[stored.api_key_ciphertext, stored.api_key_hash, stored.api_key_preview],
      ],
    );
    return { app_id, key, host };
  }

  /** Rotates a key as the API does. */
  async rotate(app_id: string): Promise<string> {
    const key = newApiKey();
    const stored = this.keys.store(key, app_id);
    const snapshots = new AppSnapshots(this.redis);
    await this.db.transaction(async (queries) => {
      const [row] = await queries.query<{ version: number }>(
        `UPDATE apps SET api_key_hash = $2, version = version + 1 WHERE id = $1 RETURNING version`,
        [app_id, stored.api_key_hash],
      );
      await snapshots.raise(app_id, row?.version ?? 0);
    });
    return key;
  }

  async link(app_id: string, short_code: string, fields: Record<string, unknown> = {}): Promise<string> {
    const id = newId('lnk', Date.now());
    const now = new Date();
    const { organization_id } = this;
    const row = { id, organization_id, app_id, short_code, path: `/${short_code}`, source: 'dashboard', ...fields };
    const names = [...Object.keys(row), 'created_at', 'updated_at'];
    const values: unknown[] = [...Object.values(row), now, now];
    const places = values.map((_, n) => `$${n + 1}`).join(', ');
    await this.db.execute(`INSERT INTO links (${names.join(', ')}) VALUES (${places})`, values);
    return id;
  }

  async post(path: string, key: string, body: unknown, headers: Record<string, string> = {}): Promise<Reply> {
    const answer = await fetch(this.base + path, {
      method: 'POST',
      headers: {
        'x-forwarded-proto': 'https',
        'x-forwarded-for': '198.51.100.7',
        'content-type': 'application/json',
        ...(key === '' ? {} : { 'x-api-key': key }),
        ...headers,
      },
      body: typeof body === 'string' || Buffer.isBuffer(body) ? body : JSON.stringify(body),
    });
    const text = await answer.text();
    return { status: answer.status, headers: answer.headers, body: text === '' ? null : JSON.parse(text) };
  }

  /**
   * Sends `count` requests, at most `atOnce` at a time, each on its own connection; the default is as many as one
   * machine handles well.
   */
  async crowd(count: number, ask: (n: number) => Promise<Reply>, atOnce = 400): Promise<Reply[]> {
    const replies: Reply[] = [];
    let next = 0;
    const asker = async () => {
      while (next < count) {
        const n = next++;
        replies[n] = await ask(n);
      }
    };
    await Promise.all(Array.from({ length: atOnce }, asker));
    return replies;
  }

  /** Events of an app in the journal, as ingest reads them, each id once. */
  events(app_id: string): EventRecord[] {
    const found = new Map<string, EventRecord>();
    for (const line of this.lines('event')) {
      const batch = isEventBatch(line) ? decodeEventBatch(line) : [{ event: decodeEvent(line) }];
      if (typeof batch === 'string') throw new Error(batch);
      for (const { event } of batch) {
        if (typeof event === 'string') {
          if (line.includes('"refused":')) continue;
          throw new Error(event);
        }
        if (event.app_id === app_id) found.set(event.event_id, found.get(event.event_id) ?? event);
      }
    }
    return [...found.values()];
  }

  /** Why items of an app were rejected, as ingest decodes it. */
  refused(app_id: string): string[] {
    const own = this.lines('event').filter((line) => line.includes('"refused":') && line.includes(app_id));
    return own.map((line) => String(decodeEvent(line)));
  }

  /** Lines of one kind in the journal, in order. */
  lines(kind: RecordKind): string[] {
    const found: string[] = [];
    const slot = join(this.#folder, 'edge');
    for (const producer of readdirSync(slot)
      .filter((name) => !name.startsWith('.'))
      .sort()) {
      for (const name of readdirSync(join(slot, producer)).sort()) {
        const bytes = readFileSync(join(slot, producer, name));
        for (let at = 0; at < bytes.length; ) {
          const read = readFrame(bytes, at);
          if (read.state !== 'frame') throw new Error(`${read.state} at ${at} of ${name}`);
          if (read.header.kind === kind)
            found.push(...payloadOf(bytes, read.header, at).toString().trimEnd().split('\n'));
          at += read.bytes;
        }
      }
    }
    return found;
  }
}
