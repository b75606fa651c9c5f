/** The analytics endpoints. */
import type { Route } from '#common/http/route.ts';
import { breakdown } from './breakdown.ts';
import type { AnalyticsDeps } from './deps.ts';
import { exportRecords } from './export.ts';
import { funnel } from './funnel.ts';
import { linkStats } from './link-stats.ts';
import { ltv } from './ltv.ts';
import { readMatchQuality } from './match-quality.ts';
import { listMatches, readMatch } from './matches.ts';
import { overview } from './overview.ts';
import { analyticsPage } from './page.ts';
import { retention } from './retention.ts';
import { timeseries } from './timeseries.ts';
import { topCampaigns } from './top-campaigns.ts';
import { topLinks } from './top-links.ts';
import { trust } from './trust.ts';

export const analyticsRoutes: readonly Route<AnalyticsDeps>[] = [
  overview,
  timeseries,
  topLinks,
  topCampaigns,
  breakdown,
  analyticsPage,
  retention,
  funnel,
  ltv,
  exportRecords,
  listMatches,
  readMatch,
  readMatchQuality,
  linkStats,
  trust,
];
