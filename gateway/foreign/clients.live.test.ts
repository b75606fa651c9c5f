import { Analytics, type Context } from '@segment/analytics-node';
import { PostHog } from 'posthog-node';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { newApiKey } from '#common/api-key.ts';
import { SdkEdge } from '#gateway/testing/sdk-edge.ts';

let edge: SdkEdge;
beforeAll(async () => {
  edge = await SdkEdge.start();
});
afterAll(async () => {
  await edge.stop();
  expect(edge.failures).toEqual([]);
});

/** The test acts as the proxy that terminates TLS: both clients accept a custom fetch. */
interface Sending {
  readonly method: string;
  readonly headers: Record<string, string>;
  readonly body?: unknown;
}
async function throughProxy(url: string, { method, headers, body }: Sending): Promise<Response> {
  const bytes = body instanceof Blob ? await body.arrayBuffer() : body;
  if (typeof bytes !== 'string' && !(bytes instanceof ArrayBuffer) && !(bytes instanceof Uint8Array)) {
    throw new Error('the client sent a body of another type');
  }
  return fetch(url, {
    method,
    headers: { ...headers, 'x-forwarded-proto': 'https', 'x-forwarded-for': '198.51.100.9' },
    body: typeof bytes === 'string' ? bytes : new Uint8Array(bytes),
  });
}

function segment(writeKey: string): { client: Analytics; errors: string[] } {
  const client = new Analytics({
    writeKey,
    host: edge.base.slice(0, -'/v1'.length),
    path: '/v1/sdk/segment/v1/batch',
    flushAt: 20,
    flushInterval: 50,
    maxRetries: 0,
    httpClient: throughProxy,
  });
  const errors: string[] = [];
  client.on('error', ({ reason }) => errors.push(String(reason)));
  return { client, errors };
}

function posthog(key: string): { client: PostHog; errors: unknown[] } {
  const client = new PostHog(key, {
    host: `${edge.base}/sdk/posthog`,
    flushAt: 20,
    flushInterval: 50,
    fetchRetryCount: 0,
    fetch: throughProxy,
  });
  const errors: unknown[] = [];
  client.on('error', (error: unknown) => errors.push(error));
  return { client, errors };
}

test('everything that Segment’s own client reports as delivered is recorded, by its messageId', async () => {
  const { app_id, key } = await edge.app();
  const { client, errors } = segment(key);
  const delivered: string[] = [];
  const note = (error: unknown, context?: Context) => {
    if (error === undefined && context?.event.messageId) delivered.push(context.event.messageId);
  };
  const properties = { revenue: 12.34, currency: 'EUR', sku: 'Ä' };
  client.track({ userId: 'u1', event: 'Order Completed', properties, messageId: 'order-1042' }, note);
  for (let n = 0; n < 30; n++) client.track({ anonymousId: `a${n}`, event: 'seen', properties: { n } }, note);
  client.identify({ userId: 'u1', traits: { plan: 'pro' } }, note);
  client.page({ userId: 'u1', name: 'Home' }, note);
  await client.closeAndFlush();
  const events = edge.events(app_id);
  expect(errors).toEqual([]);
  // `identify` and `page` were delivered, but are not events.
  expect(delivered).toHaveLength(33);
  expect(events.map(({ event_id }) => event_id).filter((id) => !delivered.includes(id))).toEqual([]);
  expect(events).toHaveLength(31);
  expect(events.find(({ event_id }) => event_id === 'order-1042')).toMatchObject({
    name: 'Order Completed',
    user_id: 'u1',
    revenue_amount: '12.34',
    revenue_currency: 'EUR',
    properties: JSON.stringify(properties),
  });
  expect(new Set(events.map(({ name }) => name))).toEqual(new Set(['Order Completed', 'seen']));
});

test('everything that PostHog’s own client captured is recorded, by its uuid', async () => {
  const { app_id, key } = await edge.app();
  const { client, errors } = posthog(key);
  const uuid = '01932f6e-7f7b-7000-8000-000000000007';
  client.capture({ distinctId: 'u1', event: 'signup', uuid, properties: { plan: 'pro', $session_id: 's1' } });
  for (let n = 0; n < 30; n++) client.capture({ distinctId: `u${n}`, event: 'seen', properties: { n } });
  client.identify({ distinctId: 'u1', properties: { email: 'a@example.com' } });
  expect(await client.getAllFlags('u1')).toEqual({});
  await client.shutdown();
  const events = edge.events(app_id);
  expect(errors).toEqual([]);
  expect(events).toHaveLength(31);
  expect(new Set(events.map(({ event_id }) => event_id)).size).toBe(31);
  expect(events.find(({ event_id }) => event_id === uuid)).toMatchObject({
    name: 'signup',
    user_id: 'u1',
    session_id: 's1',
    is_conversion: true,
  });
});

test('an unknown key is an error in both clients, and nothing is recorded', async () => {
  const before = edge.lines('event').length;
  // PostHog's client also prints the errors that it reports.
  const printed = vi.spyOn(console, 'error').mockReturnValue();
  for (const wrong of ['phc_of_somebody_else', newApiKey()]) {
    const one = segment(wrong);
    one.client.track({ userId: 'u1', event: 'seen' });
    await one.client.closeAndFlush();
    expect(one.errors).toEqual([expect.stringContaining('401')]);
    const other = posthog(wrong);
    other.client.capture({ distinctId: 'u1', event: 'seen' });
    await other.client.shutdown();
    expect(other.errors).toEqual([expect.objectContaining({ status: 401 })]);
  }
  printed.mockRestore();
  expect(edge.lines('event')).toHaveLength(before);
});

test('both clients report a batch without a valid event, and do not resend it', async () => {
  const { app_id, key } = await edge.app();
  const printed = vi.spyOn(console, 'error').mockReturnValue();
  const properties = { revenue: 5, currency: 'EURO' };
  const one = segment(key);
  one.client.track({ userId: 'u1', event: 'Order Completed', properties });
  await one.client.closeAndFlush();
  expect(one.errors).toEqual([expect.stringContaining('400')]);
  const other = posthog(key);
  other.client.capture({ distinctId: 'u1', event: 'Order Completed', properties: { revenue: 5 } });
  await other.client.shutdown();
  expect(other.errors).toEqual([expect.objectContaining({ status: 400 })]);
  printed.mockRestore();
  expect(edge.refused(app_id)).toEqual(['bad_currency', 'bad_currency']);
});
