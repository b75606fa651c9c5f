/** A small shop with data for everything that the dashboard shows. */
import { DAY_MS, HOUR_MS } from '#common/durations.ts';
import type { LinkRule } from '#common/links/link-rule.ts';
import { namedTargets } from '#common/links/rule-id.ts';
import { SeededRandom } from '#testing/seeded-random.ts';
import { storeRecords, type TestRecord } from './records.ts';
import type { ApiForTest, Member } from './running-api.ts';
import { campaigns, shopRecords, storeMatches } from './shop-records.ts';

const titles = [
  ['Spring sale', 'https://www.example.com/sale'],
  ['Newsletter 42: new arrivals', 'https://www.example.com/new'],
  ['App launch, Instagram', 'https://www.example.com/app'],
  ['Creator: Mina', 'https://www.example.com/mina?ref=creator'],
  ['Poster, central station', 'https://www.example.com/station'],
  ['Gift finder', 'https://www.example.com/gifts'],
  ['Loyalty programme', 'https://www.example.com/loyalty'],
  ['Refer a friend', 'https://www.example.com/friends'],
] as const;

export interface Shop {
  readonly appId: string;
  readonly webhookId: string;
  readonly postbackId: string;
  /** The fragments of the addresses of a shared page and of one with a password. */
  readonly sharedToken: string;
  readonly lockedToken: string;
  /** An import that waits to be confirmed. */
  readonly importId: string;
  readonly linkIds: readonly string[];
  /** The secret of an open invitation. */
  readonly invitation: string;
}

/** Two apps (one with an unverified host), links, and a month of statistics. */
export async function openShop(api: ApiForTest, owner: Member): Promise<Shop> {
  const app = await owner.call('POST', '/apps', {
    name: 'Shop',
    fallback_url: 'https://www.example.com/',
    ios: { bundle_id: 'com.example.shop', team_id: 'ABCDE12345', app_store_id: '123456789' },
    android: { package_name: 'com.example.shop' },
    settings: { conversion_events: ['purchase'] },
  });
  await owner.call('POST', '/apps', { name: 'Travel guide', host: `go-${owner.user_id.slice(-6)}.travel.example` });
  const linkIds: string[] = [];
  for (const [at, [title, destination]] of titles.entries()) {
    const link = await owner.call('POST', '/links', {
      app_id: app.body.id,
      title,
      path: new URL(destination).pathname,
      fallback_url: destination,
      campaign: campaigns[at % campaigns.length],
      tags: at % 3 === 0 ? ['social', 'paid'] : at % 3 === 1 ? ['email'] : [],
      ...(at === 5 ? { expires_at: new Date(Date.now() + 9 * DAY_MS).toISOString() } : {}),
    });
    linkIds.push(link.body.id);
  }
  await owner.call('PATCH', `/links/${linkIds[2]}`, { rules });
  for (const [name, scopes] of [
    ['Shop backend', ['links:write', 'analytics:read']],
    ['Warehouse export', ['analytics:read']],
  ] as const)
    await owner.call('POST', '/keys', { name, scopes });
  const colleague = await api.member('viewer', owner.organization_id);
  await api.db.execute(`UPDATE users SET email = 'mina@example.com', name = 'Mina Okafor' WHERE id = $1`, [
    colleague.user_id,
  ]);
  const webhookId = await openWebhooks(api, owner);
  const postbackId = await openPostbacks(api, owner);
  await api.db.execute(
    `INSERT INTO orphan_visits (organization_id, app_id, day, short_code, visits, last_at)
     SELECT $1, $2, CURRENT_DATE, code, visits, now() - visits * interval '1 minute'
       FROM (VALUES ('spring-sale', 214), ('newsleter', 87), ('app', 31), ('xmas-2019', 4), ('', 12)) AS v (code, visits)`,
    [owner.organization_id, app.body.id],
  );
  await api.db.execute(
    `INSERT INTO ad_postbacks (organization_id, app_id, framework, transaction_id, sequence_index, unverified_reason, version,
       ad_network_id, source_identifier, did_win, conversion_value, coarse_conversion_value, received_at)
     SELECT $1, $2, 'skadnetwork', 'copy-' || n, index, reason, '4.0', network, source, true, fine, coarse, now() - n * interval '50 minutes'
       FROM (VALUES (1, 0, NULL, 'example1.skadnetwork', '5239', 63, NULL), (2, 0, NULL, 'example1.skadnetwork', '5239', 63, NULL),
                    (3, 0, NULL, 'example2.skadnetwork', '39', NULL, 'high'), (4, 1, NULL, 'example1.skadnetwork', '52', NULL, 'low'),
                    (5, 0, 'development', 'example1.skadnetwork', '5239', 12, NULL),
                    (6, 0, 'bad_signature', 'example3.skadnetwork', '7777', 63, NULL)) AS v (n, index, reason, network, source, fine, coarse)`,
    [owner.organization_id, app.body.id],
  );
  const share = async (more: object) =>
    (await owner.call('POST', '/shared-pages', { link_id: linkIds[0], ...more })).body.token;
  const sharedToken = await share({ expires_at: new Date(Date.now() + 30 * DAY_MS).toISOString() });
  const lockedToken = await share({ name: 'For Mina', password: 'open sesame' });
  const day = new Date(Date.now() - DAY_MS).toISOString().slice(0, 10);
  await owner.call('POST', '/costs', {
    costs: [
      { campaign: 'newsletter', day, amount: '80', currency: 'EUR' },
      { campaign: 'influencers', day, amount: '412.50', currency: 'EUR' },
    ],
  });
  await owner.call('POST', '/views', {
    name: 'Newsletter in Germany',
    query: { interval: '90d', campaign: 'newsletter', country: 'DE' },
  });
  await openTemplates(owner, app.body.id);
  await limitClicks(api, owner, linkIds[4] ?? '');
  await beginMoving(api, owner, app.body.id);
  const importId = await openImport(api, owner, app.body.id);
  await storeAudits(api);
  const place = { organization_id: owner.organization_id, app_id: app.body.id };
  const random = new SeededRandom(7);
  const all = shopRecords(() => random.next(), place, linkIds);
  await storeRecords(api.clickhouse, ruled(all, linkIds[2] ?? ''), owner.user_id.slice(-12));
  await storeMatches(api, place, linkIds);
  const invited = await owner.call('POST', '/invitations', { email: 'grace@example.com', role: 'member' });
  return {
    appId: app.body.id,
    webhookId,
    postbackId,
    sharedToken,
    lockedToken,
    importId,
    linkIds,
    invitation: invited.body.token,
  };
}

const rules = [
  {
    country: ['DE', 'AT', 'CH'],
    platform: ['ios'],
    os_version_min: '17.4',
    url: 'https://www.example.com/de/app',
  },
  {
    language: ['es', 'pt-BR'],
    variants: [
      { url: 'https://www.example.com/es/app', percent: 60 },
      { url: 'https://www.example.com/es/now', percent: 30 },
    ],
  },
  {
    weekdays: ['sat', 'sun'],
    time_from: '08:00',
    time_until: '20:00',
    timezone: 'Europe/Berlin',
    url: 'https://www.example.com/weekend',
  },
];

/** Clicks of the link with rules; a fifth matched no rule. */
function ruled(records: readonly TestRecord[], linkId: string): TestRecord[] {
  const ids = ['', ...namedTargets(linkId, rules as readonly LinkRule[]).map(({ id }) => id)];
  return records.map((record) => ({
    ...record,
    rule: record.link_id === linkId && record.kind === 'clicks' ? (ids[record.idx % ids.length] ?? '') : '',
  }));
}

/** A message and its attempt. */
const attemptInsertion = `WITH message AS (
      INSERT INTO webhook_messages (id, endpoint_id, organization_id, type, occurred_at, data, status, tries, created_at, due_at)
      VALUES ($1, $2, $3, $4, now(), '{}', $5, 1, now() - $6 * interval '1 minute', now() + interval '4 minutes') RETURNING *)
    INSERT INTO webhook_attempts (endpoint_id, organization_id, message_id, type, url, attempted_at, duration_ms, outcome, http_status, answer)
    SELECT endpoint_id, organization_id, id, type, $7, created_at, $8, $9, $10, $11 FROM message`;

/** A webhook with attempts of each kind, and a disabled one. */
async function openWebhooks(api: ApiForTest, owner: Member): Promise<string> {
  const gone = await owner.call('POST', '/webhooks', {
    url: 'https://old.example.com/hook',
    description: 'Before the move',
    events: ['link.created'],
  });
  await api.db.execute(
    `UPDATE webhook_endpoints SET disabled_at = now() - interval '3 days', disabled_reason = 'gone' WHERE id = $1`,
    [gone.body.id],
  );
  const { body } = await owner.call('POST', '/webhooks', {
    url: 'https://hooks.example.com/warehouse',
    description: 'Warehouse',
    events: ['install.attributed', 'event.recorded', 'click.batch'],
    event_names: ['purchase', 'refund'],
  });
  const attempts = [
    ['event.recorded', 'delivered', 190, 84, 'delivered', 204, ''],
    ['install.attributed', 'delivered', 120, 131, 'delivered', 200, '{"ok":true}'],
    ['click.batch', 'pending', 14, 20_000, 'timeout', null, ''],
    ['event.recorded', 'failed', 9, 61, 'http_error', 503, '<h1>Service Unavailable</h1>'],
    ['click.batch', 'delivered', 2, 96, 'delivered', 204, ''],
  ] as const;
  for (const [at, [type, status, minutes, took, outcome, http, answer]] of attempts.entries()) {
    const id = `msg_${body.id.slice(-20)}${at}`;
    const values = [id, body.id, owner.organization_id, type, status, minutes, body.url, took, outcome, http, answer];
    await api.db.execute(attemptInsertion, values);
  }
  return body.id;
}

/** A postback that works, and one that its network no longer accepts. */
async function openPostbacks(api: ApiForTest, owner: Member): Promise<string> {
  await owner.call('POST', '/postbacks', {
    url: 'https://ads.example.net/s2s/{click_id}/install',
    events: ['install.attributed'],
    method: 'POST',
    body: 'event={event_name}&campaign={campaign}',
  });
  const { body } = await owner.call('POST', '/postbacks', {
    url: 'https://network.example.com/postback?click={query.gclid}&event={event_name}&value={revenue}&currency={currency}&id={event_id}',
    description: 'Example Ads',
    events: ['event.recorded'],
    event_names: ['purchase'],
    campaigns: ['spring-sale', 'influencers'],
  });
  const attempts = [
    ['delivered', 95, 112, 'delivered', 200, 'OK'],
    ['failed', 7, 58, 'http_error', 400, '{"error":"unknown click"}'],
  ] as const;
  for (const [at, [status, minutes, took, outcome, http, answer]] of attempts.entries()) {
    const id = `msg_${body.id.slice(-20)}${at}`;
    const { organization_id } = owner;
    const values = [
      id,
      body.id,
      organization_id,
      'event.recorded',
      status,
      minutes,
      body.url,
      took,
      outcome,
      http,
      answer,
    ];
    await api.db.execute(attemptInsertion, values);
  }
  return body.id;
}

/** A file with rows of every outcome, checked. */
async function openImport(api: ApiForTest, owner: Member, appId: string): Promise<string> {
  const names = ['winter-sale', 'gift-card', 'app-store', 'stores', 'jobs', 'press'];
  const lines = [
    'Short URL,Long URL,Title',
    ...names.map((name) => `https://go.example.com/${name},https://www.example.com/${name},${name}`),
    'https://go.example.com/old,ftp://files.example.com/old,Old files',
    'https://other.example.com/x,https://www.example.com/x,Of another host',
    'https://go.example.com/press,https://www.example.com/press-kit,Twice',
  ];
  const { body } = await owner.call('POST', '/imports', { app_id: appId, source: 'bitly', hosts: ['go.example.com'] });
  const sent = await fetch(`${api.url}/imports/${body.id}/parts/1`, {
    method: 'PUT',
    headers: { authorization: `Bearer ${owner.token}`, 'content-type': 'text/csv', 'x-forwarded-proto': 'https' },
    body: lines.join('\n'),
  });
  if (!sent.ok) throw new Error(await sent.text());
  await owner.call('POST', `/imports/${body.id}/check`);
  while (await api.imports.work(body.id));
  return body.id;
}

/** Templates of the organization and of one of its apps. */
async function openTemplates(owner: Member, appId: string): Promise<void> {
  for (const template of [
    { name: 'Newsletter', utm_source: 'newsletter', utm_medium: 'email' },
    { name: 'Instagram, paid', utm_source: 'instagram', utm_medium: 'paid-social', utm_campaign: 'spring-sale' },
    { name: 'Posters', app_id: appId, utm_source: 'poster', utm_medium: 'print', utm_content: 'qr' },
  ])
    await owner.call('POST', '/utm-templates', template);
}

async function limitClicks(api: ApiForTest, owner: Member, linkId: string): Promise<void> {
  const { app_id } = (await owner.call('PATCH', `/links/${linkId}`, { max_clicks: 500 })).body;
  await api.db.execute(
    `INSERT INTO click_shares (organization_id, app_id, link_id, holder, granted, returned, used) VALUES ($1, $2, $3, 'r1', 240, 0, 212)`,
    [owner.organization_id, app_id, linkId],
  );
}

/** With codes that the old service did not know, or whose destination is on another host. */
async function beginMoving(api: ApiForTest, owner: Member, appId: string): Promise<void> {
  const migration = { url: 'https://old.example.com/{code}', destination_hosts: ['www.example.com'] };
  await owner.call('PATCH', `/apps/${appId}`, { settings: { migration } });
  await api.db.execute(
    `INSERT INTO unlearned_codes (organization_id, app_id, short_code, reason, detail, asks, last_at)
     SELECT $1, $2, code, reason, detail, 1, now() - n * interval '25 minutes'
       FROM (VALUES (1, 'xmas-2019', 'unknown', '404'), (2, 'partner/42', 'foreign_host', 'partners.example.net'),
                    (3, 'newsleter', 'unknown', '404')) AS v (n, code, reason, detail)`,
    [owner.organization_id, appId],
  );
}

/** The last 26 days were audited; one hour had a problem. */
async function storeAudits(api: ApiForTest): Promise<void> {
  const sql = `INSERT INTO hourly_audits (hour, owner, claimed_until, figures)
    SELECT h, 'test', now(), jsonb_build_object('lost', 0, 'duplicated', 0, 'rollup_difference', (h = $2::bigint)::int)
      FROM generate_series($1::bigint - 26 * 24 * $3::bigint, $1::bigint, $3::bigint) h ON CONFLICT DO NOTHING`;
  const lastMs = Math.floor(Date.now() / HOUR_MS - 1) * HOUR_MS;
  await api.db.execute(sql, [lastMs, lastMs - 9 * DAY_MS, HOUR_MS]);
}
