import { Type } from 'typebox';
import { ownerOf } from '#api/access.ts';
import { changingRoute } from '#api/route.ts';
import { Rejection } from '#common/http/rejection.ts';
import { allApps } from '#common/stores/tenancy.ts';
import { keyParams, serverKeyExample } from './server-key.ts';

export const deleteKey = changingRoute({
  method: 'DELETE',
  path: '/keys/{id}',
  operationId: 'deleteServerKey',
  caller: 'user',
  scope: null,
  limit: 'general',
  tag: 'Server keys',
  summary: 'Delete a server key',
  description: 'When this call returns, the key is rejected everywhere.',
  params: keyParams,
  answers: {
    200: {
      description: 'The key is deleted.',
      schema: Type.Object({ id: Type.String(), deleted: Type.Literal(true) }),
      example: { id: serverKeyExample.id, deleted: true },
    },
  },
  async handle({ db, tenancy }, { caller, note, params: { id } }) {
    const organization_id = await ownerOf(db, caller, { kind: 'key', id, to: 'manage' });
    if (organization_id instanceof Rejection) return organization_id;
    return tenancy.within(allApps([organization_id]), async (tenant) => {
      await tenant.query('DELETE FROM server_keys WHERE organization_id = ANY ($1) AND id = $2', [id]);
      return { status: 200, body: { id, deleted: true }, noted: await note(tenant, { organization_id, id }) };
    });
  },
});
