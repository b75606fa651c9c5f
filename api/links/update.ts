import { refuseWrite, tenantOf } from '#api/access.ts';
import { holderOf } from '#api/link-holder.ts';
import { type ChangeRequest, changingRoute, type UserCaller } from '#api/route.ts';
import type { Clock } from '#common/clock.ts';
import { invalidFields, Rejection, taken } from '#common/http/rejection.ts';
import { type LinkRow, linkAnswer, linkColumns, linkExample, linkSchema } from '#common/links/link.ts';
import {
  type LinkChanges,
  linkChangesBody,
  linkFaults,
  linkFieldNames,
  storedValue,
} from '#common/links/link-fields.ts';
import { asGiven, changesWay, linkLoops } from '#common/redirect/loops.ts';
import { givenLink } from '#common/redirect/own-links.ts';
import { violatedConstraint } from '#common/stores/postgres.ts';
import type { Tenancy } from '#common/stores/tenancy.ts';
import type { NotedLink } from './create.ts';
import { findLink, linkParams, readLink } from './read.ts';

export const updateLinkRoute = changingRoute({
  method: 'PATCH',
  path: '/links/{id}',
  operationId: 'updateLink',
  caller: 'user',
  scope: 'links:write',
  limit: 'general',
  tag: 'Links',
  summary: 'Update a link',
  description: 'Omitted fields keep their value; null clears a field. Redirects use the new values within one second.',
  params: linkParams,
  body: linkChangesBody,
  bodyFaults: linkFaults,
  bodyExample: { campaign: 'autumn_sale', expires_at: null },
  answers: { 200: { description: 'The updated link.', schema: linkSchema, example: linkExample } },
  handle: async ({ tenancy, clock, deliverChanges, shortUrl }, { caller, note, params, body }) => {
    const change = await changeLink({ tenancy, clock }, { caller, note }, params.id, body);
    if (change instanceof Rejection) return change;
    await deliverChanges();
    return { status: 200, body: linkAnswer(change.link, shortUrl), noted: change.noted };
  },
});

const uniqueFields: Readonly<Record<string, 'short_code' | 'external_id'>> = {
  links_short_code_key: 'short_code',
  links_external_id_key: 'external_id',
};

async function holder(
  tenancy: Tenancy,
  caller: UserCaller,
  id: string,
  field: 'short_code' | 'external_id',
  value: string,
): Promise<string | null> {
  const link = await readLink(tenancy, caller, id);
  return link instanceof Rejection ? null : holderOf(tenancy, link, field, value);
}

export async function changeLink(
  { tenancy, clock }: { readonly tenancy: Tenancy; readonly clock: Clock },
  { caller, note }: ChangeRequest,
  id: string,
  changes: LinkChanges,
  given: Readonly<Record<string, unknown>> = changes,
): Promise<NotedLink | Rejection> {
  const names = linkFieldNames.filter((name) => changes[name] !== undefined);
  const assignments = names.map((name, at) => `${name} = $${at + 4}`).join(', ');
  const sql = `WITH l AS (UPDATE links SET updated_at = $3, ${assignments}
                           WHERE organization_id = ANY ($1) AND id = $2 AND deleted_at IS NULL RETURNING *)
               SELECT ${linkColumns} FROM l JOIN apps a ON a.id = l.app_id`;
  const values = names.map((name) => storedValue(name, changes[name]));
  try {
    return await tenancy.within(tenantOf(caller), async (tenant) => {
      const before = await findLink(tenant, id, true);
      if (before instanceof Rejection) return before;
      const denied = refuseWrite(caller, before.organization_id);
      if (denied) return denied;
      if (changesWay(changes)) {
        const asChanged = givenLink({ ...before, ...Object.fromEntries(names.map((name) => [name, changes[name]])) });
        const [faults = []] = await linkLoops(tenant, [asChanged], clock());
        if (faults.length > 0) return invalidFields(asGiven(faults, given));
      }
      const [after] = await tenant.query<LinkRow>(sql, [id, new Date(clock()), ...values]);
      if (!after) throw new Error('a link that is locked was not updated');
      return { link: after, noted: await note(tenant, after) };
    });
  } catch (error) {
    const constraint = violatedConstraint(error);
    const field = uniqueFields[constraint ?? ''];
    if (field) return taken(field, await holder(tenancy, caller, id, field, changes[field] ?? ''));
    throw error;
  }
}
