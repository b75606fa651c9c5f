/** What the handlers of the SDK endpoints are given. */
import { routesOf } from '#common/http/route.ts';
import type { AppCaller } from './caller.ts';
import type { EventTracking } from './events/tracking.ts';

export interface GatewayDeps {
  readonly events: EventTracking;
}

/** A route for apps. */
export const route = routesOf<GatewayDeps, AppCaller>();
