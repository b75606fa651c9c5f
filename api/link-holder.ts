/** Finds the link that has a short code or an external id of an app. */
import { linkWithCode } from '#common/links/link.ts';
import type { LinkOwner } from '#common/links/link-creation.ts';
import { allApps, type Tenancy } from '#common/stores/tenancy.ts';

const byExternalId = `SELECT id FROM links
  WHERE organization_id = ANY ($1) AND app_id = $2 AND external_id = $3 AND deleted_at IS NULL`;
const byCode = `SELECT l.id FROM apps a CROSS JOIN ${linkWithCode('$3')} JOIN links l ON l.id = h.link_id
  WHERE a.organization_id = ANY ($1) AND a.id = $2 AND l.deleted_at IS NULL`;

/** The app's link with the short code or the external id; null if that link is deleted. */
export async function holderOf(
  tenancy: Tenancy,
  owner: LinkOwner,
  field: 'short_code' | 'external_id',
  value: string,
): Promise<string | null> {
  const sql = field === 'short_code' ? byCode : byExternalId;
  const [holder] = await tenancy.within(allApps([owner.organization_id]), (tenant) =>
    tenant.query<{ id: string }>(sql, [owner.app_id, value]),
  );
  return holder?.id ?? null;
}
