/** The request of a postback: its templates, filled with values of a record and with the parameters of its click. */
import type { OutboundRequest } from '#common/outbound-request.ts';
import { asksForQuery, filled, type PostbackMethod } from '#common/webhooks/postback-template.ts';
import { eventExample } from '#common/webhooks/record-payloads.ts';
import { TEST_EVENT } from '#common/webhooks/webhook-events.ts';
import type { ReadQuery } from './click-query.ts';
import type { ClaimedMessage } from './message-store.ts';

/** @throws ClickHouseFailure */
export async function postbackRequest(
  { url, postback_body, type, data, organization_id }: ClaimedMessage,
  method: PostbackMethod,
  readQuery: ReadQuery,
): Promise<Pick<OutboundRequest, 'method' | 'url' | 'headers' | 'body'>> {
  const isTest = type === TEST_EVENT;
  const record = isTest ? eventExample : data;
  const isAsked = !isTest && asksForQuery(url + (postback_body ?? ''));
  const query = isAsked ? await readQuery(organization_id, data) : '';
  const headers = { 'user-agent': 'Signpost-Postbacks/1' };
  return {
    method,
    url: filled(url, record, query),
    headers: method === 'GET' ? headers : { ...headers, 'content-type': 'application/x-www-form-urlencoded' },
    body: filled(postback_body ?? '', record, query),
  };
}
