/** Dependencies of the API's handlers. Created once, in main.ts; each entity uses the parts that it needs. */
import type { ApiKeys } from '#common/api-key.ts';
import type { Clock } from '#common/clock.ts';
import type { Encryption } from '#common/encryption.ts';
import type { GuardedRoute } from '#common/http/mount.ts';
import type { Rejection } from '#common/http/rejection.ts';
import type { AppSnapshots } from '#common/links/app-snapshot.ts';
import type { LinkChange } from '#common/links/link-changes.ts';
import type { ShortUrl } from '#common/links/short-url.ts';
import type { Postgres } from '#common/stores/postgres.ts';
import type { Tenancy, TenantScope } from '#common/stores/tenancy.ts';
import type { AnalyticsParts } from './analytics/deps.ts';
import type { Interval } from './analytics/period.ts';
import type { AssociationChecks } from './apps/association-checks.ts';
import type { HostRules } from './apps/host.ts';
import type { AuthParts } from './auth/parts.ts';
import type { LiveFeed } from './live/live-feed.ts';
import type { MailParts } from './mail-outbox.ts';
import type { SharedPageVisits } from './shared-pages/visits.ts';
import type { UrlRule } from './webhooks/url-rule.ts';

/** A link and its number of clicks. */
export interface RankedLink {
  readonly link_id: string;
  readonly clicks: number;
}

/** Maximum number of links that are ranked; the others are listed like links without clicks. */
export const RANKED_LINKS_MAX = 10_000;

/** Figures that a list of links can contain. */
export const linkFigures = ['clicks', 'installs'] as const;
export type LinkFigure = (typeof linkFigures)[number];
export type LinkCounts = Readonly<Partial<Record<LinkFigure, number>>>;

/** What a shared page is about. */
export interface SharedSubject {
  readonly id: string;
  readonly organization_id: string;
  readonly link_id: string | null;
  readonly campaign: string | null;
  readonly shows_revenue: boolean;
}

export interface SharedPeriod {
  readonly interval?: Interval;
  readonly timezone?: string;
}

export interface ApiDeps {
  /** The whole database, for accounts. Tenants' data is accessed through `tenancy`. */
  readonly db: Postgres;
  readonly tenancy: Tenancy;
  readonly clock: Clock;
  readonly auth: AuthParts;
  readonly analytics: AnalyticsParts;
  readonly apiKeys: ApiKeys;
  readonly appSnapshots: AppSnapshots;
  /** Announces new links to the redirectors; false if that failed, in which case they notice within seconds. */
  readonly announce: (...changes: readonly LinkChange[]) => Promise<boolean>;
  /** Announces every committed change to the redirectors; false if that failed and will be retried. */
  readonly deliverChanges: () => Promise<boolean>;
  /**
   * Links of these organizations (of one app, if given) by clicks, most first, at most RANKED_LINKS_MAX. Passed in,
   * because clicks are in ClickHouse, which the links folder does not access.
   */
  readonly rankByClicks: (organizationIds: readonly string[], appId: string | null) => Promise<readonly RankedLink[]>;
  /** Figures of these links by id; passed in for the same reason. */
  readonly countLinks: (
    scope: TenantScope,
    links: readonly { readonly id: string }[],
    figures: readonly LinkFigure[],
  ) => Promise<ReadonlyMap<string, LinkCounts> | Rejection>;
  /**
   * Clicks of people on the links of an app by the start of their day (epoch ms, UTC); passed in for the same reason.
   */
  readonly clicksOfApp: (
    app: { readonly id: string; readonly organization_id: string },
    daysMs: readonly number[],
  ) => Promise<ReadonlyMap<number, number> | Rejection>;
  readonly live: LiveFeed;
  /** The current rights of the caller of a long-running request; null once the request would be rejected. */
  readonly rightsNow: (route: GuardedRoute, header: (name: string) => string) => Promise<string | null>;
  /** Makes this process look for imports to work on. */
  readonly wakeImports: () => void;
  /** Encrypts API keys of other services that imports use. */
  readonly importKeys: Encryption;
  /** Encrypts cursors that contain what callers must not read. */
  readonly cursors: Encryption;
  readonly mail: MailParts;
  readonly hosts: HostRules;
  readonly associationChecks: Pick<AssociationChecks, 'check'>;
  readonly shortUrl: ShortUrl;
  /** Without a trailing slash. */
  readonly dashboardUrl: string;
  readonly sharedPages: SharedPageVisits;
  /** Figures of a shared page; null if its link was deleted. Passed in, because they are in ClickHouse. */
  readonly sharedFigures: (subject: SharedSubject, period: SharedPeriod) => Promise<object | null | Rejection>;
  /** The operationIds that the audit log can contain. */
  readonly auditedActions: ReadonlySet<string>;
  readonly webhooks: { readonly refuseUrl: UrlRule; readonly encryption: Encryption };
}
