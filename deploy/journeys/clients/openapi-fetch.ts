/**
 * A program as a user of openapi-typescript and openapi-fetch writes it. The test generates ./api.ts from the
 * description, compiles both with tsc, and runs it. Arguments: base URL, e-mail address, password.
 */
import createClient from 'openapi-fetch';
import type { components, paths } from './api.ts';

type Link = components['schemas']['Link'];
type Revenue = NonNullable<components['schemas']['Revenue']>;

const [baseUrl = '', email = '', password = ''] = process.argv.slice(2);

function taken<T>(answer: { data?: T; error?: components['schemas']['Error'] }): T {
  if (answer.data === undefined) throw new Error(answer.error?.error.message ?? 'no answer');
  return answer.data;
}

const pair = taken(await createClient<paths>({ baseUrl }).POST('/auth/login', { body: { email, password } }));
const api = createClient<paths>({ baseUrl, headers: { authorization: `Bearer ${pair.access_token}` } });

const app = taken(
  await api.POST('/apps', { body: { name: 'Fetch', fallback_url: 'https://example.com/', ios: { bundle_id: 'a.b' } } }),
);
const keyed = createClient<paths>({ baseUrl, headers: { 'X-API-Key': app.api_key } });

const link: Link = taken(
  await api.POST('/links', {
    body: { app_id: app.id, path: '/shoes', campaign: 'spring', data: { coupon: 'SUN', sizes: [41, 42] } },
  }),
);
const changed = taken(
  await api.PATCH('/links/{id}', { params: { path: { id: link.id } }, body: { title: 'Shoes', tags: ['sale'] } }),
);
const coupon: unknown = changed.data['coupon'];
const page = taken(await api.GET('/links', { params: { query: { app_id: app.id, limit: 10 } } }));

const match = taken(
  await keyed.POST('/sdk/match', { body: { platform: 'ios', device_id: 'phone-1', url: `${link.url}?ref=mail` } }),
);
const ref: string | undefined = match.query_params['ref'];
const install = taken(
  await keyed.POST('/sdk/install', { body: { platform: 'ios', device_id: 'phone-1', match_id: match.match_id } }),
);
const revenue: Revenue = { amount: '19.99', currency: 'EUR' };
const tracked = taken(
  await keyed.POST('/sdk/events', {
    body: { events: [{ name: 'purchase', install_id: install.install_id, properties: { sku: 'A-1' }, revenue }] },
  }),
);

let overview = taken(await api.GET('/analytics/overview', { params: { query: { app_id: app.id } } }));
for (let tries = 0; overview.totals.conversions < 1 && tries < 150; tries++) {
  await new Promise((done) => setTimeout(done, 200));
  overview = taken(await api.GET('/analytics/overview', { params: { query: { app_id: app.id } } }));
}
const [amount] = overview.totals.revenue;

const missing = await api.GET('/links/{id}', { params: { path: { id: 'lnk_unknown' } } });

console.log(
  JSON.stringify({
    title: changed.title,
    coupon,
    listed: page.data.map((one) => one.id === link.id),
    matched: match.link?.id === link.id,
    ref,
    attributed: install.attributed,
    accepted: tracked.accepted,
    revenue: amount && `${amount.amount} ${amount.currency}`,
    missing: missing.error?.error.code,
  }),
);
