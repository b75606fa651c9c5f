/** Reads a link and its app as the redirector sees them, from Postgres: what its caches have within a second. */
import type { AppSettings } from '#common/links/app-snapshot.ts';
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

const linkById = `SELECT ${linkSnapshotColumns} FROM links l
  WHERE l.organization_id = ANY ($1) AND l.id = $2 AND l.deleted_at IS NULL`;
const appById = `SELECT ${linkedAppColumns}, host_verified_at IS NOT NULL AS is_host_verified FROM apps
  WHERE organization_id = ANY ($1) AND id = $2 AND deleted_at IS NULL`;

type AppRow = LinkedAppRow & { readonly settings: AppSettings; readonly is_host_verified: boolean };

/** Null if there is no such link, or it is deleted. */
export async function readExplainedLink(query: OwnQuery, linkId: string): Promise<ExplainedLink | null> {
  const [link] = await query<LinkSnapshotRow>(linkById, [linkId]);
  const [app] = link ? await query<AppRow>(appById, [link.app_id]) : [];
  if (!link || !app) return null;
  const { is_host_verified: isHostVerified, ...row } = app;
  return { link: linkSnapshotOf(link), app: linkedAppOf(row), settings: app.settings, isHostVerified };
}
