/** A copy of one of Apple's postbacks, as redirectors store it and as the API returns it. */
import { Type } from 'typebox';
import { nullable } from '#common/links/link-fields.ts';

export const adPostbackColumns = `id, framework, transaction_id, sequence_index, received_at, unverified_reason, version, ad_network_id, campaign_id,
  source_identifier, source_app_id, source_domain, marketplace_id, conversion_type, did_win, fidelity_type, ad_interaction_type,
  conversion_value, coarse_conversion_value, country_code`;

export interface AdPostbackRow {
  readonly id: string;
  readonly received_at: Date;
  readonly unverified_reason: UnverifiedReason | null;
  readonly [field: string]: unknown;
}

const frameworks = ['skadnetwork', 'adattributionkit'] as const;
const unverifiedReasons = ['development', 'bad_signature', 'unknown_key', 'unknown_version'] as const;
type UnverifiedReason = (typeof unverifiedReasons)[number];

export function adPostbackAnswer({ id: _, received_at, unverified_reason, ...fields }: AdPostbackRow): object {
  return {
    ...fields,
    verified: unverified_reason === null,
    unverified_reason,
    received_at: received_at.toISOString(),
  };
}

const text = nullable(Type.String());
const whole = nullable(Type.Integer());
const sequence_index = Type.Integer({
  description: 'Index of the conversion window: a conversion has up to three postbacks, 0, 1 and 2.',
});
const source = {
  ad_network_id: text,
  campaign_id: nullable(Type.Integer({ description: 'SKAdNetwork before version 4.' })),
  source_identifier: nullable(Type.String({ description: 'Two, three or four digits.' })),
  sequence_index,
  conversion_value: nullable(Type.Integer({ description: '0 to 63. Apple does not sign it.' })),
  coarse_conversion_value: nullable(Type.String({ description: 'low, medium or high. Apple does not sign it.' })),
};

export const adPostbackSchema = Type.Object(
  {
    framework: Type.Unsafe<(typeof frameworks)[number]>({ type: 'string', enum: [...frameworks] }),
    transaction_id: Type.String({ description: 'Apple’s id of the transaction; a repeated copy is stored once.' }),
    ...source,
    verified: Type.Boolean({ description: 'Whether Apple signed it, and it is not a test.' }),
    unverified_reason: Type.Unsafe<UnverifiedReason | null>({
      type: ['string', 'null'],
      enum: [...unverifiedReasons, null],
      description: 'Why it is not verified. development: Apple signed it for a test. null if it is verified.',
    }),
    received_at: Type.String({ format: 'date-time' }),
    version: nullable(Type.String({ description: 'Version of SKAdNetwork.' })),
    source_app_id: nullable(Type.String({ description: 'The app that showed the ad, in the App Store.' })),
    source_domain: text,
    marketplace_id: text,
    conversion_type: nullable(Type.String({ description: 'download, redownload or re-engagement.' })),
    did_win: nullable(Type.Boolean({ description: 'null: a version that reports only winning postbacks.' })),
    fidelity_type: whole,
    ad_interaction_type: nullable(Type.String({ description: 'click or view.' })),
    country_code: nullable(Type.String({ description: 'Apple does not sign it.' })),
  },
  { title: 'AdPostback' },
);

export const adPostbackCountSchema = Type.Object(
  { ...source, postbacks: Type.Integer() },
  { title: 'AdPostbackCount' },
);

export const countExample = {
  ad_network_id: 'com.example',
  campaign_id: null,
  source_identifier: '5239',
  sequence_index: 0,
  conversion_value: 63,
  coarse_conversion_value: null,
  postbacks: 1,
};

const { postbacks: _, ...sourceExample } = countExample;

export const adPostbackExample = {
  framework: 'skadnetwork',
  transaction_id: '6aafb7a5-0170-41b5-bbe4-fe71dedf1e30',
  ...sourceExample,
  verified: true,
  unverified_reason: null,
  received_at: '2026-01-15T09:30:00.000Z',
  version: '4.0',
  source_app_id: null,
  source_domain: 'example.com',
  marketplace_id: null,
  conversion_type: 'download',
  did_win: true,
  fidelity_type: 1,
  ad_interaction_type: null,
  country_code: null,
};
