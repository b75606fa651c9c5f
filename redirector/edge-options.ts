/** The parts from which the redirector's edge is built. */
import type { AddressWriter } from '#common/address-writer.ts';
import type { Clock } from '#common/clock.ts';
import type { Journal } from '#common/journal/journal.ts';
import type { LinkCache } from '#common/links/link-cache.ts';
import type { LongLinks } from '#common/links/long-links.ts';
import type { QueryFilter } from '#common/links/query-filter.ts';
import type { ShortUrl } from '#common/links/short-url.ts';
import type { Countries } from '#common/redirect/compiled-rules.ts';
import type { AskedLinks } from './asked-links.ts';
import type { ClickLanes } from './click-lanes.ts';
import type { ClickShares } from './click-shares.ts';
import type { OrphanVisits } from './orphan-visits.ts';
import type { Receivers } from './receiver.ts';
import type { SignalTokens } from './signal-token.ts';

export interface EdgeOptions {
  readonly cache: LinkCache;
  readonly journal: Pick<Journal, 'append'>;
  readonly lanes: ClickLanes;
  readonly clock: Clock;
  readonly trustedProxies: readonly string[];
  readonly proxySecret?: string;
  readonly addresses: AddressWriter;
  readonly queryFilter: QueryFilter;
  readonly tokens: SignalTokens;
  readonly receivers: Receivers;
  readonly shortUrl: ShortUrl;
  readonly countries: Countries;
  readonly orphans: Pick<OrphanVisits, 'count'>;
  readonly longLinks: Pick<LongLinks, 'find'>;
  readonly asked: Pick<AskedLinks, 'find'>;
  readonly shares: Pick<ClickShares, 'take' | 'isReached'>;
}
