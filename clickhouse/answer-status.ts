/**
 * The status of answers without an exception of ClickHouse, such as those of a proxy in front of it: the client library
 * reports only their text.
 */
import { subscribe } from 'node:diagnostics_channel';
import type { ClientRequest, IncomingMessage } from 'node:http';

const statusesMax = 1_000;
const firstError = 400;
/** By query id. */
const statuses = new Map<string, number>();

subscribe('http.client.response.finish', (message) => {
  const { request, response } = message as { request: ClientRequest; response: IncomingMessage };
  const { statusCode = 0, headers } = response;
  if (statusCode < firstError || headers['x-clickhouse-exception-code'] !== undefined) return;
  const id = /[?&]query_id=([^&]*)/.exec(request.path)?.[1];
  if (id === undefined) return;
  for (const old of statuses.keys()) if (statuses.size >= statusesMax) statuses.delete(old);
  statuses.set(decodeURIComponent(id), statusCode);
});

/** @returns the status of the failed answer to a query, once; 0 if it had none, or an exception of ClickHouse. */
export function takeStatus(queryId: string): number {
  const status = statuses.get(queryId) ?? 0;
  statuses.delete(queryId);
  return status;
}
