/**
 * Entry point of the redirector: answers short links and records a click for each visit. It starts even if its stores
 * are unavailable.
 */
import { join } from 'node:path';
import { AddressWriter } from '#common/address-writer.ts';
import { systemClock } from '#common/clock.ts';
import { openEdgeJournal } from '#common/journal/edge-journal.ts';
import { LinkCache } from '#common/links/link-cache.ts';
import { LongLinks } from '#common/links/long-links.ts';
import { QueryFilter } from '#common/links/query-filter.ts';
import { shortUrlWith } from '#common/links/short-url.ts';
import { CertificateWatch } from '#common/process/certificate-watch.ts';
import { processConfig } from '#common/process/config.ts';
import { Lifecycle } from '#common/process/lifecycle.ts';
import { ReadyOnce } from '#common/process/ready-once.ts';
import { postgresLack, SchemaWait } from '#common/process/schema-wait.ts';
import { StoreLog } from '#common/process/store-log.ts';
import { createLog, createMetrics, telemetryPart } from '#common/process/telemetry.ts';
import { Postgres } from '#common/stores/postgres.ts';
import { Redis } from '#common/stores/redis.ts';
import { StoreClock } from '#common/stores/store-clock.ts';
import { Tracing, tracingPart } from '#common/tracing/tracing.ts';
import { AdPostbacks, adPostbackReceivers } from './ad-postbacks.ts';
import { appleKeys } from './apple-keys.ts';
import { AskedLinks } from './asked-links.ts';
import { ClickLanes } from './click-lanes.ts';
import { ClickShares, clickShareLimits } from './click-shares.ts';
import { exposeCounters } from './counters.ts';
import { DiskCache } from './disk-cache.ts';
import { Edge } from './edge.ts';
import type { EdgeOptions } from './edge-options.ts';
import { machineName } from './machine-name.ts';
import { OrphanVisits } from './orphan-visits.ts';
import { RedirectorServer } from './server.ts';
import { currentBootId, ShareFile } from './share-file.ts';
import { ShareStore } from './share-store.ts';
import { BEACON_PATH, SignalBeacon } from './signal-beacon.ts';
import { SignalTokens } from './signal-token.ts';
import { TracedEdge } from './traced-edge.ts';
import { VisitorCountries } from './visitor-countries.ts';

const drainMs = 10_000;

const config = processConfig('redirector', [['EDGE_DATABASE_URL', 'DATABASE_URL'], 'REDIS_URL', 'ADDRESS_KEY']);
const instance = config.INSTANCE || 'redirector-0';
const log = createLog('redirector', config);
const metrics = createMetrics('redirector');
const tracing = await Tracing.open('redirector', config, log, metrics);

const stores = new StoreLog(log);
const onRedisError = stores.of('Redis', 'REDIS_URL');
const onPostgresError = stores.of('Postgres', config.EDGE_DATABASE_URL ? 'EDGE_DATABASE_URL' : 'DATABASE_URL');
const redis = new Redis({ url: config.REDIS_URL, name: instance, commandTimeoutMs: 250, onError: onRedisError });
const db = new Postgres({
  url: config.EDGE_DATABASE_URL || config.DATABASE_URL,
  name: instance,
  connectionsMax: 2,
  statementTimeoutMs: 1_500,
  around: tracing?.trails.around('postgresql'),
  onError: onPostgresError,
});

const journal = await openEdgeJournal(config, instance, (line) => log.error(line));
const storeClock = StoreClock.ofRedis(redis, { onError: onRedisError });
const diskCache = new DiskCache(join(config.DATA_DIR, 'links'), instance, storeClock.now);
const cache = new LinkCache({
  diskCache,
  redis,
  db,
  clock: storeClock.now,
  entriesMax: config.LINK_CACHE_ENTRIES,
  bytesMax: config.LINK_CACHE_BYTES,
});
const tokens = new SignalTokens(config.ADDRESS_KEY);
const beacon = new SignalBeacon({ redis, tokens, clock: systemClock });
const keys = appleKeys(config.APPLE_ATTRIBUTION_KEYS);
const adPostbacks = new AdPostbacks({ apps: cache.apps, db, keys, clock: storeClock.now });
const orphans = new OrphanVisits(db, storeClock.now);
const longLinks = new LongLinks(cache, db, storeClock.now);
const asked = new AskedLinks(cache, redis, storeClock.now);
cache.watch(asked);
// Limited links wait for a separate connection, so that other links never wait for them.
const shareDb = new Postgres({
  url: config.EDGE_DATABASE_URL || config.DATABASE_URL,
  name: `${instance} shares`,
  connectionsMax: 1,
  statementTimeoutMs: 1_500,
  around: tracing?.trails.around('postgresql'),
  onError: onPostgresError,
});
const sharePath = join(config.DATA_DIR, 'shares', `${instance}.shares`);
const shareFile = ShareFile.open({ path: sharePath, bootId: currentBootId() });
const { shareMax } = clickShareLimits;
const machine = machineName(join(config.DATA_DIR, 'journal'), config.MACHINE_NAME);
const shares = new ClickShares(
  shareFile,
  new ShareStore({ db: shareDb, machine, instance, shareMax }, shareFile),
  (line) => log.warn(line),
);
const edgeOptions: EdgeOptions = {
  shares,
  orphans,
  longLinks,
  asked,
  tokens,
  receivers: new Map([[BEACON_PATH, beacon], ...adPostbackReceivers(adPostbacks)]),
  cache,
  journal,
  lanes: new ClickLanes(journal, config.LOG_PARTITIONS),
  clock: systemClock,
  trustedProxies: config.TRUSTED_PROXIES,
  proxySecret: config.PROXY_SECRET,
  addresses: new AddressWriter(config.ADDRESS_KEY),
  queryFilter: new QueryFilter(config.DROPPED_QUERY_PARAMETERS),
  shortUrl: shortUrlWith(config),
  countries: new VisitorCountries(config.GEOIP_DB, (error) =>
    log.error({ err: error }, 'GEOIP_DB cannot be read: rules with countries hold for no visitor'),
  ),
};
const edge = tracing === undefined ? new Edge(edgeOptions) : new TracedEdge(edgeOptions, tracing);
const server = new RedirectorServer(edge, systemClock);
exposeCounters(metrics, {
  counters: edge.counters,
  cache,
  journal,
  diskCache,
  beacon,
  adPostbacks,
  orphans,
  longLinks,
  asked,
  shares,
  shareFile,
  waiting: () => edge.state.waiting,
});

const host = config.REDIRECTOR_HOST;
const hasTls = config.REDIRECTOR_HTTPS_PORT > 0 && config.TLS_CERT_FILE.length + config.TLS_KEY_FILE.length > 0;
let certificates: CertificateWatch | undefined;

await new Lifecycle({ log, drainMs: drainMs + 5_000 }).run([
  tracingPart(tracing),
  { name: 'journal', stop: () => journal.close() },
  { name: 'postgres', stop: () => db.close() },
  { name: 'redis', start: () => redis.connect(), stop: () => redis.close() },
  storeClock,
  { name: 'disk cache', stop: () => diskCache.close() },
  { name: 'share connection', stop: () => shareDb.close() },
  { name: 'click shares', start: () => shares.start(), stop: () => shares.stop() },
  { name: 'orphan visits', start: () => orphans.start(), stop: () => orphans.stop() },
  { name: 'link cache', start: () => cache.start(), stop: () => cache.stop() },
  telemetryPart(
    config,
    metrics,
    {
      listening: () => server.isListening || 'no port is open',
      journal: () => journal.isWritable || 'clicks can’t be recorded',
      redis: () => redis.isReady(),
      postgres: () => db.isReady(),
      // It never waits for the schema, because links redirect from its cache.
      schema: new SchemaWait({ lacks: [postgresLack(db)], log }).check,
    },
    { laterChecks: ['journal'], readyOnce: new ReadyOnce('redirector', config) },
  ),
  {
    name: 'server',
    start: () => {
      if (config.REDIRECTOR_HTTP_PORT > 0) server.listen({ host, port: config.REDIRECTOR_HTTP_PORT });
      if (hasTls) {
        certificates = new CertificateWatch({ settings: config, log });
        const tls = { certificates: certificates.certificates, hstsSeconds: config.HSTS_SECONDS };
        server.listen({ host, port: config.REDIRECTOR_HTTPS_PORT, ...tls });
        certificates.onChange((changed) => server.prepare(changed));
        certificates.expose(metrics);
        certificates.start();
      }
      if (!server.isListening)
        throw new Error('REDIRECTOR_HTTP_PORT, or REDIRECTOR_HTTPS_PORT with a certificate, must be set');
      log.info({ http: config.REDIRECTOR_HTTP_PORT, https: config.REDIRECTOR_HTTPS_PORT }, 'listening');
    },
    stop: () => {
      certificates?.stop();
      return server.stop(drainMs);
    },
  },
]);
