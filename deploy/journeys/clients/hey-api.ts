/**
 * The same with @hey-api/openapi-ts, which makes a function of each operation. The test generates ./hey-api/ from the
 * description. Arguments: base URL, e-mail address, password.
 */
import { createClient } from './hey-api/client/index.ts';
import {
  createApp,
  createLink,
  getLink,
  getOverview,
  listLinks,
  login,
  matchDevice,
  trackEvents,
  trackInstall,
  updateLink,
} from './hey-api/index.ts';

const [baseUrl = '', email = '', password = ''] = process.argv.slice(2);
const throwOnError = true;

const open = createClient({ baseUrl });
const { data: pair } = await login({ client: open, body: { email, password }, throwOnError });
const client = createClient({ baseUrl, headers: { authorization: `Bearer ${pair.access_token}` } });

const { data: app } = await createApp({
  client,
  body: { name: 'Functions', fallback_url: 'https://example.com/', ios: { bundle_id: 'a.b' } },
  throwOnError,
});
const keyed = createClient({ baseUrl, headers: { 'X-API-Key': app.api_key } });

const { data: link } = await createLink({
  client,
  body: { app_id: app.id, path: '/shoes', campaign: 'spring', data: { coupon: 'SUN', sizes: [41, 42] } },
  throwOnError,
});
const { data: changed } = await updateLink({
  client,
  path: { id: link.id },
  body: { title: 'Shoes', tags: ['sale'] },
  throwOnError,
});
const { data: page } = await listLinks({ client, query: { app_id: app.id, limit: 10 }, throwOnError });

const { data: match } = await matchDevice({
  client: keyed,
  body: { platform: 'ios', device_id: 'phone-1', url: `${link.url}?ref=mail` },
  throwOnError,
});
const { data: install } = await trackInstall({
  client: keyed,
  body: { platform: 'ios', device_id: 'phone-1', match_id: match.match_id },
  throwOnError,
});
const { data: tracked } = await trackEvents({
  client: keyed,
  body: {
    events: [
      {
        name: 'purchase',
        install_id: install.install_id,
        properties: { sku: 'A-1' },
        revenue: { amount: '19.99', currency: 'EUR' },
      },
    ],
  },
  throwOnError,
});

const read = () => getOverview({ client, query: { app_id: app.id }, throwOnError });
let { data: overview } = await read();
for (let tries = 0; overview.totals.conversions < 1 && tries < 150; tries++) {
  await new Promise((done) => setTimeout(done, 200));
  overview = (await read()).data;
}
const [amount] = overview.totals.revenue;

const missing = await getLink({ client, path: { id: 'lnk_unknown' } });

console.log(
  JSON.stringify({
    title: changed.title,
    coupon: changed.data['coupon'],
    listed: page.data.map((one) => one.id === link.id),
    matched: match.link?.id === link.id,
    ref: match.query_params['ref'],
    attributed: install.attributed,
    accepted: tracked.accepted,
    revenue: amount && `${amount.amount} ${amount.currency}`,
    missing: missing.error?.error.code,
  }),
);
