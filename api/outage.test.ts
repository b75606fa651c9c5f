import { Registry } from 'prom-client';
import { expect, onTestFinished, test } from 'vitest';
import { ClickHouse } from '#clickhouse/client.ts';
import { newSecretKey } from '#common/encryption.ts';
import { loadConfig } from '#common/process/config.ts';
import { StoreLog } from '#common/process/store-log.ts';
import type { Log } from '#common/process/telemetry.ts';
import { Postgres } from '#common/stores/postgres.ts';
import { Redis } from '#common/stores/redis.ts';
import { DrivenTime } from '#testing/driven-time.ts';
import { PostgresAuditTurns } from './analytics/audit-turns.ts';
import { HourlyAudit } from './analytics/hourly-audit.ts';
import { apiParts } from './parts.ts';

/** Nothing listens there. */
const nowhere = '127.0.0.1:1';

test('an hour without any store is at most 60 warnings of one API process, and each of its loops says so', async () => {
  const time = new DrivenTime();
  const lines: string[] = [];
  const note = (_fields: object, line: string) => void lines.push(line);
  const log = { warn: note, error: note, info: () => undefined, debug: () => undefined } as unknown as Log;
  const stores = new StoreLog(log, time.now);
  const db = new Postgres({
    url: `postgres://x@${nowhere}/x`,
    name: 'test',
    onError: stores.of('Postgres', 'DATABASE_URL'),
  });
  const redis = new Redis({ url: `redis://${nowhere}`, name: 'test', onError: stores.of('Redis', 'REDIS_URL') });
  const clickhouse = new ClickHouse({ url: `http://${nowhere}`, onError: stores.of('ClickHouse', 'CLICKHOUSE_URL') });
  const config = loadConfig([], { SECRET_KEY: newSecretKey('k1') });
  const api = apiParts(config, { db, redis, clickhouse, log, stores, time }, time.now);
  const turns = new PostgresAuditTurns(db, 'test');
  const audit = new HourlyAudit({ clickhouse, turns, metrics: new Registry(), log, clock: time.now, time });
  const loops = [api.outbox, api.hostChecks, api.imports, api.mailer, audit];
  onTestFinished(async () => {
    for (const loop of loops) await loop.stop();
    await Promise.all([db.close(), redis.close(), clickhouse.close()]);
  });
  for (const loop of loops) loop.start();
  // Imports with and without Branch are two loops.
  await expect.poll(() => time.waiting).toBe(loops.length + 1);
  await time.pass(3_600_000, () => time.waiting === loops.length + 1);
  expect(lines.length).toBeLessThanOrEqual(60);
  expect(new Set(lines)).toEqual(
    new Set([
      'Postgres is unavailable',
      'sending link changes to the redirectors failed; retrying',
      'checking claimed hosts failed; retrying',
      'working on imports failed; retrying',
      'the hourly audit failed',
    ]),
  );
});
