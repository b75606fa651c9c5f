/** Queries that several screens use. */
import { useQuery } from '@tanstack/react-query';
import { type Answer, call } from './api.ts';

export type App = Answer<'GET /apps/{id}'>;
export type Import = Answer<'GET /imports/{import_id}'>;
export type Postback = Answer<'GET /postbacks/{postback_id}'>;
export type Webhook = Answer<'GET /webhooks/{webhook_id}'>;

/** How often visible lists and charts are refreshed. The API's rate limit counts everyone in an office together. */
export const refreshMs = 30_000;
/** How often totals are refreshed: one request shows whether something new has arrived. */
export const totalsMs = 10_000;

export function useApps() {
  return useQuery({ queryKey: ['apps'], queryFn: () => call('GET /apps', { query: { limit: 100 } }) });
}
