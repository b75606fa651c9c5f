/** Every endpoint of the SDK edge. */
import type { Route } from '#common/http/route.ts';
import type { GatewayDeps } from './deps.ts';
import { trackEvents } from './events/track.ts';

export const gatewayRoutes: readonly Route<GatewayDeps>[] = [trackEvents];
