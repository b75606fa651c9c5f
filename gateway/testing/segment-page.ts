/** A web page with Segment's browser SDK. */
import { AnalyticsBrowser } from '@segment/analytics-next';

interface Options {
  readonly writeKey: string;
  readonly cdnURL: string;
  readonly apiHost: string;
  readonly isBatching: boolean;
}

const page = globalThis as unknown as { load: (options: Options) => Promise<object>; analytics: AnalyticsBrowser };

const deliveryStrategy = { strategy: 'batching', config: { size: 100, timeout: 60_000 } } as const;

page.load = async ({ writeKey, cdnURL, apiHost, isBatching }) => {
  page.analytics = AnalyticsBrowser.load(
    { writeKey, cdnURL },
    { integrations: { 'Segment.io': { apiHost, protocol: 'http', ...(isBatching ? { deliveryStrategy } : {}) } } },
  );
  await page.analytics.ready();
  return {};
};
