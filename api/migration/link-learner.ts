/**
 * Learns links from old services that apps migrate from: a redirector asks about a code over Redis
 * (common/links/link-asks.ts); one API process claims the code, asks the service, creates the link as the API does, and
 * announces it.
 *
 * Claims and negative answers share one key in Redis, `learn:<app>:<setting>:<code>`: `asking` for `claimMs`, so that a
 * process that dies does not block a code for longer; `no` while the code is not asked about again. A changed setting
 * uses a new key.
 */
import { createHash } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import { FairQueue } from '#api/fair-queue.ts';
import { holderOf } from '#api/link-holder.ts';
import type { Clock } from '#common/clock.ts';
import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from '#common/durations.ts';
import { resolveWith } from '#common/host-addresses.ts';
import { askChannel, decodeAsk, type LinkAsk } from '#common/links/link-asks.ts';
import { announceAsked, announceChanges } from '#common/links/link-changes.ts';
import { createLink } from '#common/links/link-creation.ts';
import { type NewLink, withDestination } from '#common/links/link-fields.ts';
import { linkKey } from '#common/links/link-snapshot.ts';
import { type MigrationSettings, migrationSettingsOf } from '#common/links/migration-settings.ts';
import type { Config } from '#common/process/settings.ts';
import type { RateLimiter } from '#common/rate-limit.ts';
import { ReachableAddresses } from '#common/reachable-addresses.ts';
import type { Redis, Subscription } from '#common/stores/redis.ts';
import { allApps, type Tenancy } from '#common/stores/tenancy.ts';
import {
  askOldService,
  destinationOf,
  isTemporary,
  madeUpCode,
  type OldServiceRules,
  type Unlearned,
  unlearned,
} from './old-provider.ts';
import { commonPattern, matchesPattern, patternOf, type ResponsePattern } from './response-pattern.ts';
import { keepUnlearned } from './unlearned-codes.ts';

export const learnLimits = {
  /** Maximum requests to an old service per app, across all processes. */
  perMinuteMax: 300,
  /** Maximum links that an app learns per UTC day. */
  perDayMax: 20_000,
  /** Maximum concurrent requests of a process, and for one app. */
  queue: { runningMax: 32, perKeyMax: 8, waitingMax: 100, keysMax: 1_000 },
  /** Visitors do not wait longer than this. */
  patienceMs: SECOND_MS,
  timeLimitMs: 5 * SECOND_MS,
  claimMs: 15 * SECOND_MS,
  /** How long a code is not asked about again after a negative answer, and after a temporary failure. */
  unknownMs: HOUR_MS,
  failedMs: MINUTE_MS,
  settingFreshMs: 2 * SECOND_MS,
  probeFreshMs: HOUR_MS,
  appsMax: 10_000,
} as const;

export interface LinkLearnerParts {
  readonly redis: Redis;
  readonly tenancy: Tenancy;
  readonly limiter: Pick<RateLimiter, 'chargeApart'>;
  readonly clock: Clock;
  readonly log: { warn(fields: object, message: string): void };
  readonly rules: Omit<OldServiceRules, 'timeLimitMs'>;
  /** False in a restored copy: then no old service is asked. */
  readonly maySend: () => boolean;
  /** Replaced in tests. */
  readonly timeLimitMs?: number;
}

interface StoredSetting {
  readonly setting: MigrationSettings;
  /** Changes with the setting. */
  readonly name: string;
}

/** Becomes more precise with every further made-up code. */
interface Probes {
  readonly kind: 'probes';
  usual: ResponsePattern;
}

type Outcome = { readonly kind: 'learned' } | { readonly kind: 'taken' } | Unlearned;

const settingOf = `SELECT settings -> 'migration' AS migration FROM apps
  WHERE organization_id = ANY ($1) AND id = $2 AND host = $3 AND host_verified_at IS NOT NULL AND deleted_at IS NULL`;

export class LinkLearner {
  readonly name = 'link learner';
  readonly counters = { learned: 0, taken: 0, unlearned: 0, turned_away: 0, failures: 0 };
  readonly #parts: LinkLearnerParts;
  readonly #rules: OldServiceRules;
  readonly #queue = new FairQueue(learnLimits.queue);
  readonly #settings: LRUCache<string, Promise<StoredSetting | null>>;
  readonly #probes: LRUCache<string, Promise<Probes | Unlearned>>;
  readonly #running = new Set<Promise<void>>();
  #subscription: Subscription | undefined;

  constructor(parts: LinkLearnerParts) {
    this.#parts = parts;
    this.#rules = { ...parts.rules, timeLimitMs: parts.timeLimitMs ?? learnLimits.timeLimitMs };
    const { appsMax: max, settingFreshMs, probeFreshMs } = learnLimits;
    this.#settings = new LRUCache({ max, ttl: settingFreshMs });
    this.#probes = new LRUCache({ max, ttl: probeFreshMs });
  }

  async start(): Promise<void> {
    const onAsk = (text: string) => {
      const ask = decodeAsk(text);
      if (!ask || !this.#parts.maySend()) return;
      const learning = this.#learn(ask).finally(() => this.#running.delete(learning));
      this.#running.add(learning);
    };
    this.#subscription = await this.#parts.redis.subscribe(
      [askChannel],
      (_, text) => onAsk(text),
      () => undefined,
    );
  }

  /** Waits for running lookups, which are bounded. */
  async stop(): Promise<void> {
    await this.#subscription?.close();
    await Promise.all(this.#running);
  }

  /** Never rejects. */
  async #learn(ask: LinkAsk): Promise<void> {
    const place = await this.#queue.enter(ask.app_id, learnLimits.patienceMs);
    if (place === null) {
      this.counters.turned_away++;
      return;
    }
    try {
      await this.#answer(ask);
    } catch (err) {
      this.counters.failures++;
      this.#parts.log.warn({ err, app_id: ask.app_id }, 'learning a link failed');
    } finally {
      place.leave();
    }
  }

  async #answer(ask: LinkAsk): Promise<void> {
    const { redis, clock, tenancy } = this.#parts;
    const answered = () => announceAsked(redis, linkKey(ask.host, ask.code));
    const stored = await this.#settingOf(ask);
    if (stored === null) {
      await answered();
      return;
    }
    const key = `learn:${ask.app_id}:${stored.name}:${ask.code}`;
    if ((await redis.commands.set(key, 'asking', 'PX', learnLimits.claimMs, 'NX')) === null) {
      if ((await redis.commands.get(key)) === 'no') await answered();
      return;
    }
    let outcome: Outcome;
    try {
      outcome = await this.#outcome(ask, stored);
    } catch (error) {
      await redis.commands.del(key);
      throw error;
    }
    this.counters[outcome.kind]++;
    if (outcome.kind === 'unlearned') {
      const ms = isTemporary(outcome.reason) ? learnLimits.failedMs : learnLimits.unknownMs;
      await redis.commands.set(key, 'no', 'PX', ms);
    }
    await answered();
    if (outcome.kind === 'unlearned') await keepUnlearned(tenancy, ask, outcome, clock());
  }

  async #outcome(ask: LinkAsk, { setting, name }: StoredSetting): Promise<Outcome> {
    const { redis } = this.#parts;
    if (Number(await redis.commands.get(this.#dayKey(ask))) >= learnLimits.perDayMax) return unlearned('limit', 'day');
    if (!(await this.#mayAsk(ask))) return unlearned('limit');
    const [answer, probes] = await Promise.all([
      askOldService(setting, ask.code, this.#rules),
      this.#probesOf(`${ask.app_id} ${name}`, setting),
    ]);
    if (answer.kind === 'unlearned') return answer;
    const usual = await this.#usualFault(ask, setting, answer.url, probes);
    if (usual !== null) return usual;
    const destination = destinationOf(answer.url, setting, ask.host);
    if (destination.kind === 'unlearned') return destination;
    const made = await this.#make(ask, destination.url);
    if (made.kind === 'learned') await announceChanges(redis, [{ kind: 'link', host: ask.host, short_code: ask.code }]);
    return made;
  }

  async #mayAsk({ app_id }: LinkAsk): Promise<boolean> {
    return (await this.#parts.limiter.chargeApart('migration', app_id, learnLimits.perMinuteMax)).rejection === null;
  }

  /** Null: the response differs from that for a code that does not exist. */
  async #usualFault(
    ask: LinkAsk,
    setting: MigrationSettings,
    url: URL,
    probes: Probes | Unlearned,
  ): Promise<Unlearned | null> {
    // Without knowing how the service answers unknown codes, each of them could become a link.
    if (probes.kind === 'unlearned') return probes;
    const fault = () => {
      if (probes.usual.kind === 'differs')
        return unlearned('refused', 'the old service answers made-up codes in different ways');
      return matchesPattern(probes.usual, url, ask.code)
        ? unlearned('unknown', 'the old service redirects it like a made-up code')
        : null;
    };
    if (probes.usual.kind === 'no_redirect' || fault() !== null) return fault();
    // Made-up codes that were requested at the same time share values that change over time.
    if (!(await this.#mayAsk(ask))) return unlearned('limit');
    const again = await askOldService(setting, madeUpCode(), this.#rules);
    if (again.kind === 'unlearned' && isTemporary(again.reason)) return again;
    probes.usual = commonPattern(probes.usual, patternOf(again));
    return fault();
  }

  async #make(ask: LinkAsk, url: string): Promise<Outcome> {
    const { commands } = this.#parts.redis;
    const dayKey = this.#dayKey(ask);
    await commands.set(dayKey, 0, 'PX', 2 * DAY_MS, 'NX');
    if ((await commands.incr(dayKey)) > learnLimits.perDayMax) return unlearned('limit', 'day');
    const given: Omit<NewLink, 'app_id'> = { url, short_code: ask.code };
    const { path = '/', ...fields } = withDestination(given);
    const creation = await createLink(this.#parts, ask, 'learned', { ...fields, path });
    if (creation.kind === 'created') return { kind: 'learned' };
    // The link was created in the meantime, or the link with this code was deleted.
    const holder = creation.kind === 'no_app' ? null : await holderOf(this.#parts.tenancy, ask, 'short_code', ask.code);
    return holder === null ? unlearned('deleted') : { kind: 'taken' };
  }

  #dayKey({ app_id }: LinkAsk): string {
    return `learned:${app_id}:${new Date(this.#parts.clock()).toISOString().slice(0, 10)}`;
  }

  /** How the service answers codes that do not exist; some services redirect those too. */
  #probesOf(key: string, setting: MigrationSettings): Promise<Probes | Unlearned> {
    const known = this.#probes.get(key);
    if (known !== undefined) return known;
    const ask = () => askOldService(setting, madeUpCode(), this.#rules);
    const probes = Promise.all([ask(), ask()]).then(([one, other]): Probes | Unlearned => {
      for (const answer of [one, other])
        if (answer.kind === 'unlearned' && isTemporary(answer.reason)) {
          this.#probes.delete(key);
          return answer;
        }
      return { kind: 'probes', usual: commonPattern(patternOf(one), patternOf(other)) };
    });
    this.#probes.set(key, probes);
    return probes;
  }

  /** Null: the app does not migrate, or does not match the organization and host. */
  #settingOf({ organization_id, app_id, host }: LinkAsk): Promise<StoredSetting | null> {
    const key = `${organization_id} ${app_id} ${host}`;
    const known = this.#settings.get(key);
    if (known !== undefined) return known;
    const read = this.#parts.tenancy
      .within(allApps([organization_id]), (tenant) => tenant.query<{ migration: unknown }>(settingOf, [app_id, host]))
      .then(([row]) => {
        const setting = migrationSettingsOf(row?.migration);
        return setting && { setting, name: nameOf(setting) };
      });
    this.#settings.set(key, read);
    read.catch(() => this.#settings.delete(key));
    return read;
  }
}

export function linkLearnerWith(
  config: Pick<Config, 'DNS_SERVERS' | 'WEBHOOK_ALLOWED_NETWORKS' | 'WEBHOOK_HTTP'>,
  parts: Omit<LinkLearnerParts, 'rules'>,
): LinkLearner {
  const resolve = resolveWith(config.DNS_SERVERS);
  const reachable = new ReachableAddresses(config.WEBHOOK_ALLOWED_NETWORKS);
  return new LinkLearner({ ...parts, rules: { resolve, reachable, allowsHttp: config.WEBHOOK_HTTP } });
}

function nameOf(setting: MigrationSettings): string {
  return createHash('sha256').update(JSON.stringify(setting)).digest('base64url').slice(0, 16);
}
