/** Payloads of records: the columns that clickhouse/queries/batch-records.ts selects. A text that is not known is empty. */
import { type TSchema, Type } from 'typebox';

const time = Type.String({ format: 'date-time' });
const properties = Type.Object({}, { additionalProperties: true, description: 'As the app sent them.' });

function texts(names: string): Record<string, TSchema> {
  return Object.fromEntries(names.split(' ').map((name) => [name, Type.String()]));
}

const campaign = texts('campaign utm_source utm_medium utm_campaign utm_term utm_content');
const device = texts('platform os os_version device_model');

const click = Type.Object(
  {
    ...texts('click_id app_id link_id'),
    time,
    ...device,
    ...texts('browser language country region city referrer_host'),
    ...campaign,
    ...texts('trigger rule'),
    is_bot: Type.Boolean(),
    ...texts('bot_reason'),
  },
  { title: 'WebhookClick' },
);

export const clicksPayload = Type.Object({ clicks: Type.Array(click, { maxItems: 500 }) });

export const installPayload = Type.Object(
  {
    ...texts('install_id app_id link_id click_id'),
    time,
    installed_at: time,
    ...texts('device_id user_id match_id match_type'),
    match_guaranteed: Type.Boolean(),
    confidence: Type.Number(),
    attributed: Type.Boolean(),
    trigger: Type.String({ description: 'install or reinstall.' }),
    ...device,
    ...texts('app_version sdk_name sdk_version language country region city'),
    ...campaign,
    properties,
  },
  { title: 'WebhookInstall' },
);

export const eventPayload = Type.Object(
  {
    ...texts('event_id app_id name'),
    time,
    received_at: time,
    ...texts('install_id device_id user_id session_id link_id click_id platform country region city'),
    ...campaign,
    revenue_amount: Type.Unsafe<string | null>({
      type: ['string', 'null'],
      description: 'A decimal number, exact; null for an event without revenue.',
    }),
    revenue_currency: Type.String(),
    is_conversion: Type.Boolean(),
    properties,
  },
  { title: 'WebhookRecordedEvent' },
);

export const matchPayload = Type.Object(
  {
    ...texts('match_id app_id'),
    time,
    ...texts('platform device_id install_id'),
    outcome: Type.String({ description: 'Why no link was matched, as in GET /matches.' }),
    confidence: Type.Number(),
    competing_links: Type.Integer(),
  },
  { title: 'WebhookRefusedMatch' },
);

const campaignExample = {
  campaign: 'summer_sale',
  utm_source: 'newsletter',
  utm_medium: 'email',
  utm_campaign: 'summer_sale',
  utm_term: '',
  utm_content: '',
};
const deviceExample = { platform: 'ios', os: 'iOS', os_version: '19.1', device_model: 'iPhone' };
const at = '2026-01-15T09:30:00.000Z';
const ids = {
  app_id: 'app_01j9z3k4m5n6p7q8r9s0t1v2w3',
  link_id: 'lnk_01j9z3k4m5n6p7q8r9s0t1v2w3',
  click_id: 'clk_01j9z3k4m5n6p7q8r9s0t1v2w3',
};

export const clicksExample = {
  clicks: [
    {
      ...ids,
      time: at,
      ...deviceExample,
      ...{
        browser: 'Safari',
        language: 'en',
        country: 'GB',
        region: 'GB-ENG',
        city: 'London',
        referrer_host: 'mail.example.com',
      },
      ...campaignExample,
      ...{ trigger: 'link', rule: '', is_bot: false, bot_reason: '' },
    },
  ],
};

export const installExample = {
  install_id: 'ins_01j9z3k4m5n6p7q8r9s0t1v2w3',
  ...ids,
  time: at,
  installed_at: at,
  ...{ device_id: 'd1', user_id: '', match_id: 'mat_01j9z3k4m5n6p7q8r9s0t1v2w3', match_type: 'click_id' },
  ...{ match_guaranteed: true, confidence: 1, attributed: true, trigger: 'install' },
  ...deviceExample,
  ...{ app_version: '2.1.0', sdk_name: 'signpost-ios', sdk_version: '1.0.0', language: 'en' },
  ...{ country: 'GB', region: 'GB-ENG', city: 'London' },
  ...campaignExample,
  properties: {},
};

export const eventExample = {
  event_id: 'e1',
  ...ids,
  ...{ name: 'purchase', time: at, received_at: at },
  ...{ install_id: installExample.install_id, device_id: 'd1', user_id: '', session_id: '' },
  ...{ platform: 'ios', country: 'GB', region: 'GB-ENG', city: 'London' },
  ...campaignExample,
  ...{ revenue_amount: '12.5', revenue_currency: 'EUR', is_conversion: true, properties: { sku: '42' } },
};

export const matchExample = {
  match_id: installExample.match_id,
  ...{ app_id: ids.app_id, time: at, platform: 'ios', device_id: 'd1', install_id: '' },
  ...{ outcome: 'ambiguous', confidence: 0.7, competing_links: 2 },
};
