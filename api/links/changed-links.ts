import { type Note, type Noted, nothingChanged } from '#api/audit-trail.ts';
import type { TenantQueries } from '#common/stores/tenancy.ts';

/** Notes the links that one request changed: one row for each of their organizations. */
export async function noteLinks(
  note: Note,
  tenant: TenantQueries,
  rows: readonly { readonly id: string; readonly organization_id: string }[],
): Promise<Noted> {
  let noted = nothingChanged;
  for (const organization_id of new Set(rows.map((row) => row.organization_id))) {
    const ids = rows.filter((row) => row.organization_id === organization_id).map(({ id }) => id);
    noted = await note(tenant, { organization_id, id: '', ids });
  }
  return noted;
}
