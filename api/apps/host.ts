import type { TenantQueries } from '#common/tenancy.ts';

const LABEL_CHARACTERS_MAX = 40;

/** A host label made from a name: its letters and digits in ASCII, dashes between them. */
export function hostLabel(name: string): string {
  const label = name
    .normalize('NFKD')
    .replaceAll(/\p{M}/gu, '')
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '-')
    .slice(0, LABEL_CHARACTERS_MAX)
    .replaceAll(/^-+|-+$/g, '');
  return label === '' ? 'app' : label;
}

/** Whether another organization used the host before: its printed links must not come to lead somewhere else. */
export async function isAnothersHost(tenant: TenantQueries, host: string, organizationId: string): Promise<boolean> {
  const sql = 'SELECT signpost_host_was_anothers($2, $3) AS taken WHERE $3 = ANY ($1)';
  const [row] = await tenant.query<{ taken: boolean }>(sql, [host, organizationId]);
  return row?.taken ?? false;
}
