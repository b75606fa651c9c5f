/** Queries that several screens use. */
import { type QueryClient, type QueryKey, useQuery } from '@tanstack/react-query';
import { type Answer, call } from './api.ts';

export type App = Answer<'GET /apps/{id}'>;
export type Import = Answer<'GET /imports/{import_id}'>;
export type Postback = Answer<'GET /postbacks/{postback_id}'>;
export type Webhook = Answer<'GET /webhooks/{webhook_id}'>;

/** How often visible lists and charts are refreshed. The API's rate limit counts everyone in an office together. */
export const refreshMs = 30_000;
/** How often totals are refreshed: one request shows whether something new has arrived. */
export const totalsMs = 10_000;

const appsPage = 100;
const appPagesMax = 20;

/** Shows what a change has stored. A read that was in flight during the change may have the values before it. */
export async function showStored(client: QueryClient, queryKey: QueryKey, stored: unknown): Promise<void> {
  await client.cancelQueries({ queryKey, exact: true });
  client.setQueryData(queryKey, stored);
}

/** All apps, not only those of the first page, because they are chosen from and looked up by id. */
export function useApps() {
  return useQuery({ queryKey: ['apps'], queryFn: allApps });
}

async function allApps(): Promise<Answer<'GET /apps'>> {
  // An app that is created or deleted meanwhile moves the others to other places.
  const apps = new Map<string, Answer<'GET /apps'>['data'][number]>();
  for (let page = 0; ; page++) {
    const query = { limit: appsPage, offset: page * appsPage };
    const { data, pagination } = await call('GET /apps', { query });
    for (const app of data) apps.set(app.id, app);
    if (!pagination.has_more || page + 1 === appPagesMax) return { data: [...apps.values()], pagination };
  }
}
