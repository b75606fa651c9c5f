import { Type } from 'typebox';
import { changingRoute } from '#api/route.ts';
import { newApiKey } from '#common/api-key.ts';
import { Rejection } from '#common/http/rejection.ts';
import { type AppRow, appColumns, appExample, appParams } from './app.ts';
import { changeApp } from './change.ts';

const write = `
  UPDATE apps SET api_key_ciphertext = $3, api_key_hash = $4, api_key_preview = $5, updated_at = $6, version = version + 1
   WHERE organization_id = ANY ($1) AND id = $2 AND deleted_at IS NULL RETURNING ${appColumns}`;

export const rotateKey = changingRoute({
  method: 'POST',
  path: '/apps/{id}/rotate-key',
  operationId: 'rotateAppKey',
  caller: 'user',
  scope: null,
  limit: 'general',
  tag: 'Apps',
  summary: "Rotate the app's API key",
  description: 'When this call returns, the old key is rejected everywhere.',
  params: appParams,
  answers: {
    200: {
      description: 'The new key.',
      schema: Type.Object({
        id: Type.String(),
        api_key: Type.String(),
        rotated_at: Type.String({ format: 'date-time' }),
      }),
      example: { id: appExample.id, api_key: appExample.api_key, rotated_at: appExample.updated_at },
    },
  },
  handle: async (deps, { caller, note, params }) => {
    const api_key = newApiKey();
    const change = await changeApp(deps, { caller, note }, params.id, async (tenant, before) => {
      const key = deps.apiKeys.store(api_key, before.id);
      const stored = [key.api_key_ciphertext, key.api_key_hash, key.api_key_preview, new Date(deps.clock())];
      const [after] = await tenant.query<AppRow>(write, [before.id, ...stored]);
      if (!after) throw new Error('an app that is locked was not updated');
      return after;
    });
    if (change instanceof Rejection) return change;
    const { after, noted } = change;
    return { status: 200, body: { id: after.id, api_key, rotated_at: after.updated_at.toISOString() }, noted };
  },
});
