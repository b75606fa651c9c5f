/** Reads a link and its app from Postgres, in the form that the redirector's caches will have within a second. */
import type { AppSettings } from '#common/links/app-snapshot.ts';
import { type ClickLimit, clickLimitOf, clickSharesOf, type LinkRow } from '#common/links/link.ts';
import {
  type LinkedAppRow,
  type LinkSnapshotRow,
  linkedAppColumns,
  linkedAppOf,
  linkSnapshotColumns,
  linkSnapshotOf,
} from '#common/links/link-snapshot.ts';
import type { ExplainedLink } from './link-explanation.ts';

/** Runs a statement whose `$1` is the ids of the organizations that may be read. */
export type OwnQuery = <Row extends object>(sql: string, values: readonly unknown[]) => Promise<readonly Row[]>;

const linkById = `SELECT ${linkSnapshotColumns},
  CASE WHEN l.max_clicks IS NOT NULL THEN (${clickSharesOf('l.id')}) END AS click_shares FROM links l
  WHERE l.organization_id = ANY ($1) AND l.id = $2 AND l.deleted_at IS NULL`;
const appById = `SELECT ${linkedAppColumns}, host_verified_at IS NOT NULL AS is_host_verified FROM apps
  WHERE organization_id = ANY ($1) AND id = $2 AND deleted_at IS NULL`;

type AppRow = LinkedAppRow & { readonly settings: AppSettings; readonly is_host_verified: boolean };

type LimitedRow = LinkSnapshotRow & Pick<LinkRow, 'click_shares'>;

/** Null if there is no such link, or it is deleted. */
export async function readExplainedLink(query: OwnQuery, linkId: string): Promise<ExplainedLink | null> {
  const [found] = await query<LimitedRow>(linkById, [linkId]);
  const [app] = found ? await query<AppRow>(appById, [found.app_id]) : [];
  if (!found || !app) return null;
  const { click_shares, ...link } = found;
  const clickLimit: ClickLimit | null = clickLimitOf({ max_clicks: link.max_clicks, click_shares });
  const { is_host_verified: isHostVerified, ...row } = app;
  return { link: linkSnapshotOf(link), clickLimit, app: linkedAppOf(row), settings: app.settings, isHostVerified };
}
