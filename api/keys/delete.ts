import { Type } from 'typebox';
import { refuseManaging } from '#api/access.ts';
import { route } from '#api/route.ts';
import { notFound } from '#common/http/rejection.ts';
import { isId } from '#common/ids.ts';
import { allApps } from '#common/stores/tenancy.ts';
import { keyParams, serverKeyExample } from './server-key.ts';

export const deleteKey = route({
  method: 'DELETE',
  path: '/keys/{id}',
  operationId: 'deleteServerKey',
  caller: 'user',
  scope: null,
  limit: 'general',
  tag: 'Server keys',
  summary: 'Delete a server key',
  description: 'Once this call is answered, the key is rejected everywhere.',
  params: keyParams,
  answers: {
    200: {
      description: 'The key is deleted.',
      schema: Type.Object({ id: Type.String(), deleted: Type.Literal(true) }),
      example: { id: serverKeyExample.id, deleted: true },
    },
  },
  async handle({ db, tenancy }, { caller, params }) {
    const sql = 'SELECT organization_id FROM server_keys WHERE id = $1';
    const [key] = isId('key', params.id) ? await db.query<{ organization_id: string }>(sql, [params.id]) : [];
    if (!key) return notFound('There is no server key with this id.');
    const denied = refuseManaging(caller, key.organization_id);
    if (denied) return denied;
    await tenancy.within(allApps([key.organization_id]), (tenant) =>
      tenant.query('DELETE FROM server_keys WHERE organization_id = ANY ($1) AND id = $2', [params.id]),
    );
    const { organization_id } = key;
    return { status: 200, body: { id: params.id, deleted: true }, changed: { organization_id } };
  },
});
