/** Every endpoint of the SDK edge. */
import type { Route } from '#common/http/route.ts';
import type { GatewayDeps } from './deps.ts';
import { trackEvents } from './events/track.ts';
import { getPosthogConfig, getPosthogFlags, getSegmentSettings } from './foreign/settings.ts';
import { trackPosthog, trackSegment, trackSegmentCall } from './foreign/track.ts';
import { trackInstall } from './install/install.ts';
import { createSdkLink } from './links/create.ts';
import { matchDevice } from './match/match.ts';

export const gatewayRoutes: readonly Route<GatewayDeps>[] = [
  matchDevice,
  trackInstall,
  trackEvents,
  createSdkLink,
  trackSegment,
  trackSegmentCall,
  getSegmentSettings,
  trackPosthog,
  getPosthogFlags,
  getPosthogConfig,
];
