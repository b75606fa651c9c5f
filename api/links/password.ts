/** Sets and removes the password of a link. It is stored as a hash in a separate table and never returned. */
import { Type } from 'typebox';
import { refuseWrite, tenantOf } from '#api/access.ts';
import type { ApiDeps } from '#api/deps.ts';
import { type ChangeRequest, changingRoute } from '#api/route.ts';
import { Rejection } from '#common/http/rejection.ts';
import { linkAnswer, linkExample, linkSchema } from '#common/links/link.ts';
import { hashLinkPassword, LINK_PASSWORD_CHARACTERS_MAX } from '#common/links/link-password.ts';
import type { NotedLink } from './create.ts';
import { findLink } from './read.ts';

const params = Type.Object({ link_id: Type.String({ examples: [linkExample.id] }) });

const store = `
  INSERT INTO link_passwords (organization_id, app_id, link_id, hash, changed_at)
  SELECT l.organization_id, l.app_id, l.id, $3, $4 FROM links l WHERE l.organization_id = ANY ($1) AND l.id = $2
  ON CONFLICT (link_id) DO UPDATE SET hash = EXCLUDED.hash, changed_at = EXCLUDED.changed_at`;
const remove = 'DELETE FROM link_passwords WHERE organization_id = ANY ($1) AND link_id = $2';
/** The time always changes, so that redirectors also notice a replaced password. */
const mark = `UPDATE links SET has_password = $3, updated_at = greatest($4, updated_at + interval '1 millisecond')
  WHERE organization_id = ANY ($1) AND id = $2 AND deleted_at IS NULL`;

const answers = (description: string, has_password: boolean) => ({
  200: { description, schema: linkSchema, example: { ...linkExample, has_password } },
});

export const setLinkPassword = changingRoute({
  method: 'PUT',
  path: '/links/{link_id}/password',
  operationId: 'setLinkPassword',
  caller: 'user',
  scope: 'links:write',
  limit: 'general',
  tag: 'Links',
  summary: 'Protect a link with a password',
  description:
    'Visitors must enter the password before they are redirected. It is stored as a hash and never returned. It protects only visits through the redirector: an app that the link opens directly does not ask for it.',
  params,
  needsBody: true,
  body: Type.Object(
    { password: Type.String({ minLength: 4, maxLength: LINK_PASSWORD_CHARACTERS_MAX }) },
    { additionalProperties: false, title: 'LinkPassword' },
  ),
  bodyExample: { password: 'open sesame' },
  answers: answers('The link.', true),
  async handle(deps, { caller, note, params, body }) {
    return change(deps, { caller, note }, params.link_id, await hashLinkPassword(body.password));
  },
});

export const deleteLinkPassword = changingRoute({
  method: 'DELETE',
  path: '/links/{link_id}/password',
  operationId: 'deleteLinkPassword',
  caller: 'user',
  scope: 'links:write',
  limit: 'general',
  tag: 'Links',
  summary: 'Remove the password of a link',
  params,
  answers: answers('The link, now without a password.', false),
  handle: (deps, { caller, note, params }) => change(deps, { caller, note }, params.link_id, null),
});

async function change(
  { tenancy, clock, deliverChanges, shortUrl }: ApiDeps,
  { caller, note }: ChangeRequest,
  id: string,
  hash: string | null,
) {
  const changed = await tenancy.within(tenantOf(caller), async (tenant): Promise<NotedLink | Rejection> => {
    const link = await findLink(tenant, id, true);
    if (link instanceof Rejection) return link;
    const denied = refuseWrite(caller, link.organization_id);
    if (denied) return denied;
    const now = new Date(clock());
    await (hash === null ? tenant.query(remove, [id]) : tenant.query(store, [id, hash, now]));
    await tenant.query(mark, [id, hash !== null, now]);
    const after = await findLink(tenant, id);
    return after instanceof Rejection ? after : { link: after, noted: await note(tenant, after) };
  });
  if (changed instanceof Rejection) return changed;
  await deliverChanges();
  return { status: 200 as const, body: linkAnswer(changed.link, shortUrl), noted: changed.noted };
}
