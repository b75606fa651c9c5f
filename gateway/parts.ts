/** Wires the SDK edge from its clients: standalone (main.ts), or on one origin with the API. */
import { AddressWriter } from '#common/address-writer.ts';
import { ApiKeys } from '#common/api-key.ts';
import { RecentClicks } from '#common/attribution/recent-clicks.ts';
import { RecentInstalls } from '#common/attribution/recent-installs.ts';
import type { Clock } from '#common/clock.ts';
import { CountedAddresses } from '#common/counted-addresses.ts';
import { parseSecretKeys } from '#common/encryption.ts';
import type { Guard, Mount } from '#common/http/mount.ts';
import { secretGuard } from '#common/http/secret-guard.ts';
import type { InstallationState } from '#common/installation-state.ts';
import type { Journal } from '#common/journal/journal.ts';
import type { LinkCache } from '#common/links/link-cache.ts';
import { announceChanges } from '#common/links/link-changes.ts';
import { LongLinks } from '#common/links/long-links.ts';
import { QueryFilter } from '#common/links/query-filter.ts';
import { shortUrlWith } from '#common/links/short-url.ts';
import type { ProcessConfig } from '#common/process/config-roles.ts';
import { configuredLimits, limitScript, RateLimiter } from '#common/rate-limit.ts';
import { type Postgres, PostgresUnavailable } from '#common/stores/postgres.ts';
import type { Redis } from '#common/stores/redis.ts';
import type { StoreClock } from '#common/stores/store-clock.ts';
import { Tenancy } from '#common/stores/tenancy.ts';
import type { GatewayCounters } from './counters.ts';
import type { GatewayDeps } from './deps.ts';
import { EventTracking } from './events/tracking.ts';
import { AliasStore } from './foreign/alias-store.ts';
import { ForeignTracking } from './foreign/foreign-tracking.ts';
import { gatewayGuard } from './guard.ts';
import { InstallStore } from './install/install-store.ts';
import { Installation } from './install/installation.ts';
import { KeyCheck } from './key-check.ts';
import { LinkIndex } from './links/link-facts.ts';
import { AppOpens } from './match/app-opens.ts';
import { PostgresClaimStore } from './match/claim-store.ts';
import { Claims } from './match/claims.ts';
import type { ClickLookup } from './match/click-archive.ts';
import { LinkOpens } from './match/link-opens.ts';
import { MatchLog } from './match/match-log.ts';
import { Matching } from './match/matching.ts';
import { RecordWriter } from './record-writer.ts';
import { gatewayRoutes } from './routes.ts';

export interface GatewayClients {
  readonly db: Postgres;
  readonly redis: Redis;
  readonly journal: Journal;
  /** Finds links by URL; started and stopped by its creator. */
  readonly cache: LinkCache;
  readonly archive: ClickLookup;
  readonly state: Pick<InstallationState, 'secret' | 'look'>;
  readonly storeClock: Pick<StoreClock, 'now' | 'aheadMs'>;
}

export interface GatewayParts {
  readonly mount: Mount<GatewayDeps>;
  /** Also rate-limits requests to unknown paths. */
  readonly guard: Guard;
  readonly check: KeyCheck;
  readonly counters: GatewayCounters;
}

/** @throws if SECRET_KEY is invalid. */
export function gatewayParts(config: ProcessConfig<'gateway'>, clients: GatewayClients, clock: Clock): GatewayParts {
  const { db, redis, journal, cache, archive, state, storeClock } = clients;
  const limits = configuredLimits(config);
  const secrets = parseSecretKeys(config.SECRET_KEY);
  const counted = new CountedAddresses(secrets);
  const limiter = new RateLimiter(redis.script(limitScript), limits, counted, clock);
  const keys = new ApiKeys(secrets);
  const check = new KeyCheck({ redis, db, keys, limits, addresses: counted, clock });
  const guard = secretGuard(state, gatewayGuard({ check, limiter }));
  const records = new RecordWriter(journal, config.LOG_PARTITIONS);
  const links = new LinkIndex(db, cache.clock, cache);
  const clicks = new RecentClicks(redis);
  const claims = new Claims(new PostgresClaimStore(db));
  const addresses = new AddressWriter(config.ADDRESS_KEY);
  const queryFilter = new QueryFilter(config.DROPPED_QUERY_PARAMETERS);
  const longLinks = new LongLinks(cache, db, cache.clock);
  const opens = new LinkOpens({ cache, longLinks, records, clock, addresses, queryFilter });
  const store = new InstallStore(db);
  const appOpens = new AppOpens({ installs: store, links, records });
  const log = new MatchLog(records);
  const matching = new Matching({ clicks, claims, opens, appOpens, addresses, archive, log, clock });
  const events = new EventTracking(records, links);
  const shortUrl = shortUrlWith(config);
  const deps: GatewayDeps = {
    events,
    foreign: new ForeignTracking(events, new AliasStore(db)),
    matching,
    installation: new Installation({
      store,
      matching,
      links,
      installs: new RecentInstalls(redis),
      records,
      clock,
      shortUrl,
    }),
    links,
    tenancy: new Tenancy(db),
    clock,
    storeClock,
    shortUrl,
    announce: (...changes) => announceChanges(redis, changes),
  };
  const counters: GatewayCounters = {
    matches: matching.counters,
    lookups: matching.lookups,
    opens: appOpens.counters,
    installs: deps.installation.counters,
    events: events.counters,
    refusals: events.refusals,
    foreign: deps.foreign.counters,
    keys: check.counters,
    storeClock,
  };
  const isOutage = (error: unknown) => error instanceof PostgresUnavailable;
  return { mount: { routes: gatewayRoutes, deps, guard, isOutage }, guard, check, counters };
}
