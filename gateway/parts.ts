/** Puts the SDK edge together: the same parts whether it has a process of its own or shares one with the API. */
import type { ApiKeys } from '#common/api-key.ts';
import type { Clock } from '#common/clock.ts';
import type { Config } from '#common/config.ts';
import type { Guard } from '#common/http/mount.ts';
import type { LimitClass } from '#common/http/route.ts';
import type { Journal } from '#common/log/journal.ts';
import type { Postgres } from '#common/postgres.ts';
import { limitScript, RateLimiter } from '#common/rate-limit.ts';
import type { Redis } from '#common/redis.ts';
import type { GatewayDeps } from './deps.ts';
import { EventTracking } from './events/tracking.ts';
import { gatewayGuard } from './guard.ts';
import { KeyCheck } from './key-check.ts';
import { LinkIndex } from './links/link-facts.ts';
import { RecordWriter } from './record-writer.ts';

export interface GatewayNeeds {
  readonly config: Config;
  readonly db: Postgres;
  readonly redis: Redis;
  readonly keys: ApiKeys;
  readonly journal: Journal;
  readonly clock: Clock;
}

export interface GatewayParts {
  readonly deps: GatewayDeps;
  readonly guard: Guard;
  readonly check: KeyCheck;
}

export function gatewayOf({ config, db, redis, keys, journal, clock }: GatewayNeeds): GatewayParts {
  const limits: Readonly<Record<LimitClass, number>> = {
    auth: config.RATE_LIMIT_AUTH,
    links: config.RATE_LIMIT_LINKS,
    match: config.RATE_LIMIT_MATCH,
    events: config.RATE_LIMIT_EVENTS,
    general: config.RATE_LIMIT_GENERAL,
  };
  const limiter = new RateLimiter(redis.script('gateway_limit', limitScript), limits, clock);
  const check = new KeyCheck({ redis, db, keys, limits, clock });
  const records = new RecordWriter(journal, config.LOG_PARTITIONS);
  const links = new LinkIndex(db, clock);
  return {
    deps: { events: new EventTracking(records, links) },
    guard: gatewayGuard({ check, limiter }),
    check,
  };
}
