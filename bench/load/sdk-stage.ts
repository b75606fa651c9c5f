/**
 * The environment of the SDK edge during a run: an app with its key and links in Postgres, Redis, a journal, and the
 * gateway process.
 */
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { ApiKeys, newApiKey } from '#common/api-key.ts';
import { newSecretKey, parseSecretKeys } from '#common/encryption.ts';
import { newId } from '#common/ids.ts';
import { packageRoot } from '#common/process/paths.ts';
import { Postgres } from '#common/stores/postgres.ts';
import { freePort } from '#deploy/local/ports.ts';
import { openStage } from './stage.ts';
import { Subject } from './subject.ts';

export interface SdkStage {
  readonly key: string;
  readonly app_id: string;
  readonly links: readonly string[];
  readonly redisUrl: string;
  readonly redisPid: number;
  readonly postgresPid: number;
  /** The key with which the gateway hashes addresses. */
  readonly addressKey: string;
  readonly gateway: Subject;
  readonly port: number;
  /** Starts the gateway of another build beside it. */
  startOther(dist: string): Promise<{ readonly subject: Subject; readonly port: number }>;
  close(): Promise<void>;
}

const settings = {
  attribution_window_hours: 168,
  probabilistic_window_hours: 6,
  min_confidence: 0.6,
  privacy_mode: 'anonymize_ip',
  conversion_events: ['purchase'],
};

/** Starts the built gateway, as in production. */
export async function openSdkStage(tell: (line: string) => void): Promise<SdkStage> {
  execFileSync(process.execPath, ['build.mjs', '--if-stale'], { cwd: packageRoot(), stdio: 'inherit' });
  const stage = await openStage(0, tell);
  const secret = newSecretKey('bench');
  const addressKey = 'benchmark key, of the required length';
  const key = newApiKey();
  const [organization_id, app_id] = [newId('org', Date.now()), newId('app', Date.now())];
  const links = Array.from({ length: 50 }, () => newId('lnk', Date.now()));
  const stored = new ApiKeys(parseSecretKeys(secret)).store(key, app_id);
  const db = new Postgres({ url: stage.postgres.url, name: 'bench', connectionsMax: 1 });
  await db.execute(`INSERT INTO organizations (id, name) VALUES ($1, 'SDK')`, [organization_id]);
  await db.execute(
    `INSERT INTO apps (host_verified_at, id, organization_id, name, host, settings, api_key_ciphertext, api_key_hash, api_key_preview, created_at, updated_at)
     VALUES (now(), $1, $2, 'SDK', 'sdk.localhost', $3, $4, $5, $6, now(), now())`,
    [app_id, organization_id, settings, stored.api_key_ciphertext, stored.api_key_hash, stored.api_key_preview],
  );
  for (const [n, id] of links.entries()) {
    await db.execute(
      `INSERT INTO links (id, organization_id, app_id, short_code, path, source, created_at, updated_at)
       VALUES ($1, $2, $3, $4, '/a', 'dashboard', now(), now())`,
      [id, organization_id, app_id, `code${n}`],
    );
  }
  await db.close();
  const others: Subject[] = [];
  const start = async (name: string, main: string, port: number) => {
    const subject = Subject.start(name, main, {
      DATABASE_URL: stage.postgres.url,
      REDIS_URL: stage.redis.url,
      // Nothing listens there: only old named clicks are looked up over NATS, and no benchmark names one.
      NATS_URL: 'nats://127.0.0.1:9',
      SECRET_KEY: secret,
      ADDRESS_KEY: addressKey,
      DATA_DIR: join(stage.folder, 'data'),
      INSTANCE: `${name}-bench`,
      API_HTTP_PORT: String(port),
      TLS_CERT_FILE: '',
      TRUSTED_PROXIES: '127.0.0.1',
      RATE_LIMIT_EVENTS: '10000000',
      RATE_LIMIT_MATCH: '10000000',
      LOG_LEVEL: 'info',
    });
    const [, opened] = await subject.line(/"http":(\d+)/);
    return { subject, port: Number(opened) };
  };
  const { subject: gateway, port } = await start('gateway', 'dist/gateway/main.js', await freePort());
  return {
    key,
    app_id,
    links,
    redisUrl: stage.redis.url,
    redisPid: stage.redis.pid,
    postgresPid: stage.postgres.pid,
    addressKey,
    gateway,
    port,
    startOther: async (dist) => {
      const other = await start('other', join(dist, 'gateway', 'main.js'), await freePort());
      others.push(other.subject);
      return other;
    },
    close: async () => {
      await Promise.all([gateway, ...others].map((one) => one.stop()));
      await stage.close();
    },
  };
}

/** A whole request, head and body. */
export function requestBytes(path: string, key: string, ip: string, body: string): Buffer {
  const head =
    `POST /v1${path} HTTP/1.1\r\nHost: localhost\r\nX-API-Key: ${key}\r\nContent-Type: application/json\r\n` +
    `X-Forwarded-Proto: https\r\nX-Forwarded-For: ${ip}\r\nUser-Agent: bench\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n`;
  return Buffer.from(head + body);
}

export function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
}
