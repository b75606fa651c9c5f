/** The ids of the links that one request changed, by organization, for the audit log. */
export function changedLinks(rows: readonly { readonly id: string; readonly organization_id: string }[]) {
  const targets = new Map<string, string[]>();
  for (const { id, organization_id } of rows) {
    const ids = targets.get(organization_id);
    if (ids) ids.push(id);
    else targets.set(organization_id, [id]);
  }
  return { targets };
}
