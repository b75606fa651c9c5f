/** A web page with Segment's browser SDK. The test calls `load`, and then `analytics`. */
import { AnalyticsBrowser } from '@segment/analytics-next';

const deliveryStrategy = { strategy: 'batching', config: { size: 100, timeout: 60_000 } };

globalThis.load = async ({ writeKey, cdnURL, apiHost, isBatching }) => {
  const segment = { apiHost, protocol: 'http', ...(isBatching ? { deliveryStrategy } : {}) };
  globalThis.analytics = AnalyticsBrowser.load({ writeKey, cdnURL }, { integrations: { 'Segment.io': segment } });
  await globalThis.analytics.ready();
};
