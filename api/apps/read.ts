import { refuseWrite, tenantOf } from '#api/access.ts';
import { route } from '#api/route.ts';
import { Rejection } from '#common/http/rejection.ts';
import { appAnswer, appExample, appParams, findApp, readAppSchema } from './app.ts';

export const readAppRoute = route({
  method: 'GET',
  path: '/apps/{id}',
  operationId: 'getApp',
  caller: 'user',
  scope: 'apps:read',
  limit: 'general',
  tag: 'Apps',
  summary: 'Get an app, including its API key',
  description: 'The key can write everything that an SDK writes, so viewers get only a preview of it.',
  params: appParams,
  answers: { 200: { description: 'The app.', schema: readAppSchema, example: appExample } },
  handle: async ({ tenancy, apiKeys, hosts }, { caller, params }) => {
    const app = await tenancy.within(tenantOf(caller), (tenant) => findApp(tenant, params.id));
    if (app instanceof Rejection) return app;
    const isViewer = refuseWrite(caller, app.organization_id) !== null;
    const { api_key_preview } = app;
    const key = isViewer ? { api_key_preview } : { api_key: apiKeys.show(app.api_key_ciphertext, app.id) };
    return { status: 200, body: appAnswer(app, hosts, key) };
  },
});
