import { organizationsOf } from '#api/access.ts';
import { route } from '#api/route.ts';
import { Rejection } from '#common/http/rejection.ts';
import { appAnswer, appExample, appParams, appSchema, findApp } from './app.ts';

export const read = route({
  method: 'GET',
  path: '/apps/{id}',
  caller: 'user',
  limit: 'general',
  tag: 'Apps',
  summary: 'Get an app, including its API key',
  params: appParams,
  answers: { 200: { description: 'The app.', schema: appSchema, example: appExample } },
  handle: async ({ tenancy, apiKeys }, { caller, params }) => {
    const app = await tenancy.within(organizationsOf(caller), (tenant) => findApp(tenant, params.id));
    if (app instanceof Rejection) return app;
    return { status: 200, body: appAnswer(app, { api_key: apiKeys.show(app.api_key_ciphertext, app.id) }) };
  },
});
