/** Every route of the API, in the order in which they are documented. */
import type { Route } from '#common/http/route.ts';
import { adPostbackRoutes } from './ad-postbacks/list.ts';
import { analyticsRoutes } from './analytics/routes.ts';
import { appRoutes } from './apps/routes.ts';
import { auditLogRoutes } from './audit-log/list.ts';
import { authRoutes, peopleRoutes, sessionRoutes } from './auth/routes.ts';
import { costRoutes } from './costs/routes.ts';
import type { ApiDeps } from './deps.ts';
import { importRoutes } from './imports/routes.ts';
import { invitationRoutes } from './invitations/routes.ts';
import { keyRoutes } from './keys/routes.ts';
import { linkRoutes } from './links/routes.ts';
import { liveRoutes } from './live/watch.ts';
import { meRoutes } from './me/read.ts';
import { memberRoutes } from './members/list.ts';
import { migrationRoutes } from './migration/report.ts';
import { organizationRoutes } from './organizations/update.ts';
import { orphanVisitRoutes } from './orphan-visits/list.ts';
import { sharedPageRoutes } from './shared-pages/routes.ts';
import { utmTemplateRoutes } from './utm-templates/routes.ts';
import { viewRoutes } from './views/routes.ts';
import { webhookRoutes } from './webhooks/routes.ts';

export const apiRoutes: readonly Route<ApiDeps>[] = [
  ...authRoutes,
  ...sessionRoutes,
  ...peopleRoutes,
  ...meRoutes,
  ...memberRoutes,
  ...invitationRoutes,
  ...organizationRoutes,
  ...auditLogRoutes,
  ...linkRoutes,
  ...utmTemplateRoutes,
  ...orphanVisitRoutes,
  ...appRoutes,
  ...migrationRoutes,
  ...importRoutes,
  ...keyRoutes,
  ...analyticsRoutes,
  ...adPostbackRoutes,
  ...costRoutes,
  ...viewRoutes,
  ...sharedPageRoutes,
  ...liveRoutes,
  ...webhookRoutes,
];
