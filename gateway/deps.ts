/** The dependencies of the SDK endpoints' handlers. */
import type { Clock } from '#common/clock.ts';
import { routesOf } from '#common/http/route.ts';
import type { LinkChange } from '#common/links/link-changes.ts';
import type { ShortUrl } from '#common/links/short-url.ts';
import type { StoreClock } from '#common/stores/store-clock.ts';
import type { Tenancy } from '#common/stores/tenancy.ts';
import type { AppCaller } from './caller.ts';
import type { EventTracking } from './events/tracking.ts';
import type { ForeignTracking } from './foreign/foreign-tracking.ts';
import type { Installation } from './install/installation.ts';
import type { LinkIndex } from './links/link-facts.ts';
import type { Matching } from './match/matching.ts';

export interface GatewayDeps {
  readonly events: EventTracking;
  readonly foreign: ForeignTracking;
  readonly matching: Matching;
  readonly installation: Installation;
  readonly links: LinkIndex;
  readonly tenancy: Tenancy;
  readonly clock: Clock;
  /** The clock of Redis. */
  readonly storeClock: Pick<StoreClock, 'now'>;
  readonly shortUrl: ShortUrl;
  /** Notifies redirectors of a new link. */
  readonly announce: (...changes: readonly LinkChange[]) => Promise<boolean>;
}

/** A route whose caller is an app. */
export const sdkRoute = routesOf<GatewayDeps, AppCaller>();
