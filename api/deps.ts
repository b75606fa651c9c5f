/** Dependencies of the API's handlers. Created once, in main.ts; an entity uses the parts it needs. */
import type { ApiKeys } from '#common/api-key.ts';
import type { Clock } from '#common/clock.ts';
import type { AppSnapshots } from '#common/links/app-snapshot.ts';
import type { LinkChange } from '#common/links/link-changes.ts';
import type { ShortUrl } from '#common/links/short-url.ts';
import type { Postgres } from '#common/stores/postgres.ts';
import type { Tenancy } from '#common/stores/tenancy.ts';
import type { AnalyticsParts } from './analytics/deps.ts';
import type { HostRules } from './apps/host.ts';
import type { AuthParts } from './auth/parts.ts';

/** A link and how many clicks it has had. */
export interface RankedLink {
  readonly link_id: string;
  readonly clicks: number;
}

/** The most clicked links that are ranked; those beyond it are listed like links without clicks. */
export const RANKED_LINKS_MAX = 10_000;

export interface ApiDeps {
  /** The whole database, for accounts. Whatever belongs to tenants is reached through `tenancy`. */
  readonly db: Postgres;
  readonly tenancy: Tenancy;
  readonly clock: Clock;
  readonly auth: AuthParts;
  readonly analytics: AnalyticsParts;
  readonly apiKeys: ApiKeys;
  readonly appSnapshots: AppSnapshots;
  /** Announces new links to the redirectors; false when that failed, and they find out within seconds. */
  readonly announce: (...changes: readonly LinkChange[]) => Promise<boolean>;
  /** Announces every committed change to the redirectors; false when that failed and will be retried. */
  readonly deliverChanges: () => Promise<boolean>;
  /**
   * Links of these organizations (of one app, if given) by clicks, most first, at most RANKED_LINKS_MAX.
   * Figures are kept in another store, which the links' own folder does not know.
   */
  readonly rankByClicks: (organizationIds: readonly string[], appId: string | null) => Promise<readonly RankedLink[]>;
  readonly hosts: HostRules;
  readonly shortUrl: ShortUrl;
}
