/**
 * Assembles the API from its clients, as a separate process (main.ts) or together with the SDK endpoints on one origin.
 */
import { type ClickHouse, ClickHouseFailure, isClickHouseOutage } from '#clickhouse/client.ts';
import { AccessTokens } from '#common/access-token.ts';
import { ApiKeys } from '#common/api-key.ts';
import type { Clock } from '#common/clock.ts';
import { CountedAddresses } from '#common/counted-addresses.ts';
import { dateOfCountries } from '#common/country-database.ts';
import { Encryption, parseSecretKeys } from '#common/encryption.ts';
import { type Guard, isChange, type Mount } from '#common/http/mount.ts';
import { secretGuard } from '#common/http/secret-guard.ts';
import { InstallationState } from '#common/installation-state.ts';
import { AppSnapshots } from '#common/links/app-snapshot.ts';
import { announceChanges } from '#common/links/link-changes.ts';
import { shortUrlWith } from '#common/links/short-url.ts';
import type { ProcessConfig } from '#common/process/config-roles.ts';
import type { StoreLog } from '#common/process/store-log.ts';
import type { Log } from '#common/process/telemetry.ts';
import type { WorkerTime } from '#common/process/worker.ts';
import { configuredLimits, limitScript, RateLimiter } from '#common/rate-limit.ts';
import { type Postgres, PostgresUnavailable } from '#common/stores/postgres.ts';
import type { Redis } from '#common/stores/redis.ts';
import { Tenancy } from '#common/stores/tenancy.ts';
import { systemTime } from '#common/time.ts';
import { asOfFrom } from './analytics/as-of.ts';
import { auditsFrom } from './analytics/audit-turns.ts';
import { analyticsParts } from './analytics/deps.ts';
import { exchangeRatesFrom } from './analytics/exchange-rates.ts';
import { logStateFrom } from './analytics/log-state.ts';
import { pipelineStateFrom } from './analytics/pipeline-state.ts';
import { clicksOfApp } from './app-clicks.ts';
import { associationChecksWith } from './apps/association-checks.ts';
import { hostRules } from './apps/host.ts';
import { HostChecks } from './apps/host-checks.ts';
import { noteOf } from './audit-trail.ts';
import { authParts } from './auth/parts.ts';
import { PasswordCheck } from './auth/password.ts';
import { rankByClicks } from './click-ranking.ts';
import type { ApiDeps } from './deps.ts';
import type { About } from './docs/openapi.ts';
import { apiGuard, rightsNow } from './guard.ts';
import { Idempotency } from './idempotency.ts';
import { branchLinksWith } from './imports/branch-links.ts';
import { ImportWorker } from './imports/import-worker.ts';
import { countLinks } from './link-counts.ts';
import { LiveFeed } from './live/live-feed.ts';
import { Mailer } from './mail/mailer.ts';
import { type SendMail, type SmtpOptions, smtpSender } from './mail/smtp.ts';
import { smtpSettings } from './mail/smtp-settings.ts';
import { type LinkLearner, linkLearnerWith } from './migration/link-learner.ts';
import { Outbox } from './outbox.ts';
import { apiRoutes } from './routes.ts';
import { sharedFigures } from './shared-figures.ts';
import { SharedPageVisits } from './shared-pages/visits.ts';
import { urlRuleWith } from './webhooks/url-rule.ts';

export interface ApiClients {
  readonly db: Postgres;
  readonly redis: Redis;
  /** A read-only client. */
  readonly clickhouse: ClickHouse;
  readonly log: Pick<Log, 'warn' | 'info'>;
  readonly stores?: StoreLog;
  /** Of the background loops; replaced in tests. */
  readonly time?: WorkerTime;
  /** Replaced in tests. */
  readonly smtp?: SmtpOptions;
}

export interface ApiParts {
  readonly mount: Mount<ApiDeps>;
  /** Also rate-limits requests to unknown paths. */
  readonly guard: Guard;
  readonly about: About;
  readonly state: InstallationState;
  /** Started after Redis, stopped before it. */
  readonly outbox: Outbox;
  /** Started after `outbox`, stopped before it. */
  readonly hostChecks: HostChecks;
  /** Stopped before the server, which waits for its streams. */
  readonly live: LiveFeed;
  /** Started after `outbox`, stopped before it. */
  readonly imports: ImportWorker;
  /** Started after Redis, stopped before it. */
  readonly linkLearner: LinkLearner;
  readonly mailer: Mailer;
}

/** Limits of one query of the dashboard. */
export const readLimits = { executionSecondsMax: 10, rowsToReadMax: 1_000_000_000, resultRowsMax: 1_000_000 } as const;

/** For passwords of shared pages, so that logins do not wait for them. */
const visitorPasswords = { runningMax: 1, perKeyMax: 1, waitingMax: 8, keysMax: 64 };

const sent = 'mail, imports from Branch and questions to old link services';

/** @throws if SECRET_KEY or an OAuth setting is unusable. */
export function apiParts(
  config: ProcessConfig<'api'>,
  { db, redis, clickhouse, log, stores, time = systemTime, smtp }: ApiClients,
  clock: Clock,
): ApiParts {
  const secrets = parseSecretKeys(config.SECRET_KEY);
  const tokens = new AccessTokens(secrets, clock);
  const counted = new CountedAddresses(secrets);
  const limiter = new RateLimiter(redis.script(limitScript), configuredLimits(config), counted, clock);
  const auth = authParts({ db, redis, secrets, tokens, config, clock });
  const guardParts = { ...auth, db, limiter, tokens, clock };
  const state = new InstallationState({ db, secrets, log, sends: sent, writesSecretCheck: true });
  const { maySend } = state;
  const guard = secretGuard(state, apiGuard(guardParts));
  const appSnapshots = new AppSnapshots(redis);
  const encryption = new Encryption(secrets);
  const outbox = new Outbox({ db, redis, appSnapshots, log, time });
  const logOptions = logOptionsOf(config, stores);
  const live = new LiveFeed({ ...logOptions, log });
  const send = sendMailWith(config, smtp);
  const mailer = new Mailer({ db, encryption, log, send, time, maySend });
  const countLimited = () => mailer.counters.limited++;
  const deps: ApiDeps = {
    db,
    tenancy: new Tenancy(db),
    clock,
    auth,
    analytics: analyticsParts({
      clickhouse,
      asOf: asOfFrom(db),
      ...{ auditsSince: auditsFrom(db), countriesAsOf: dateOfCountries(config.GEOIP_DB) },
      pipelineState: pipelineStateFrom(db, logStateFrom(logOptions)),
      exchangeRates: exchangeRatesFrom(db),
      retentionDays: config.RETENTION_DAYS,
    }),
    apiKeys: new ApiKeys(secrets),
    appSnapshots,
    announce: (...changes) => announceChanges(redis, changes),
    deliverChanges: () => outbox.tell(),
    rankByClicks: (organizationIds, appId) => rankByClicks(clickhouse, organizationIds, appId),
    countLinks: (scope, links, figures) => countLinks(deps, scope, links, figures),
    clicksOfApp: (app, daysMs) => clicksOfApp(deps.analytics, app, daysMs),
    live,
    rightsNow: rightsNow(guardParts),
    wakeImports: () => imports.wake(),
    importKeys: encryption,
    cursors: encryption,
    mail: { isConfigured: send !== null, encryption, wake: () => mailer.wake(), countLimited },
    hosts: hostRules(config),
    associationChecks: associationChecksWith(config, limiter),
    shortUrl: shortUrlWith(config),
    dashboardUrl: aboutApi(config).serverUrl.replace(/\/v1$/, ''),
    sharedPages: new SharedPageVisits(limiter, secrets, new PasswordCheck(visitorPasswords)),
    sharedFigures: (subject, period) => sharedFigures(deps, subject, period),
    auditedActions: new Set(apiRoutes.filter(isChange).map(({ operationId }) => operationId)),
    webhooks: { refuseUrl: urlRuleWith(config), encryption },
  };
  const { deliverChanges } = deps;
  const hostChecks = new HostChecks({ db, log, time, dnsServers: config.DNS_SERVERS, deliverChanges });
  const branch = { links: branchLinksWith(config), encryption, maySend };
  const imports = new ImportWorker({ db, tenancy: deps.tenancy, clock, log, time, deliverChanges, branch });
  const linkLearner = linkLearnerWith(config, { redis, tenancy: deps.tenancy, limiter, clock, log, maySend });
  const { once } = new Idempotency({ db, encryption, log });
  return {
    mount: { routes: apiRoutes, deps, guard, isOutage, once, trail: noteOf },
    guard,
    about: aboutApi(config),
    outbox,
    ...{ state, hostChecks, live, imports, linkLearner, mailer },
  };
}

/** Whether a handler's error means that a store is unavailable. */
export function isOutage(error: unknown): boolean {
  if (error instanceof ClickHouseFailure) return isClickHouseOutage(error);
  return error instanceof PostgresUnavailable;
}

export function aboutApi(config: ProcessConfig<'api'>): About {
  return {
    title: 'Signpost',
    version: '1',
    description: 'Short links, click to install to event, and analytics over all of it.',
    serverUrl: config.API_PUBLIC_URL || `https://${config.API_HOST}:${config.API_PORT}/v1`,
    limits: configuredLimits(config),
  };
}

function sendMailWith(config: ProcessConfig<'api'>, smtp: ApiClients['smtp']): SendMail | null {
  const mailServer = smtpSettings(config);
  return mailServer === null ? null : smtpSender(mailServer, smtp);
}

function logOptionsOf(config: ProcessConfig<'api'>, stores: ApiClients['stores']) {
  const onNatsError = stores?.of('NATS', config.API_NATS_URL ? 'API_NATS_URL' : 'NATS_URL') ?? (() => undefined);
  return { natsUrl: config.API_NATS_URL || config.NATS_URL, installation: config.INSTALLATION, onNatsError };
}
