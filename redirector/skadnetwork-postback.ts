/**
 * Reads SKAdNetwork postbacks, with the fields that Apple signs in each version. Source: Apple, "Verifying an
 * install-validation postback".
 */
import { verify } from 'node:crypto';
import { objectIn } from '#common/json-object.ts';
import {
  type AdPostback,
  CONVERSION_VALUE_MAX,
  coarseValue,
  countryCode,
  name,
  PostbackFields,
  SEQUENCE_INDEX_MAX,
  sourceIdentifier,
  transactionId,
  type UnverifiedReason,
} from './ad-postback.ts';
import { type AppleKeys, SKADNETWORK_2_0_KEY, SKADNETWORK_KEY } from './apple-keys.ts';

/** It contains a dot, so it cannot be the signed number of an app. Apple writes 0 for an ad in a development build. */
const sourceDomain = /^(?:0|(?=.{1,253}$)[\w-]+(?:\.[\w-]+)+)$/;

const separator = '\u2063';
const common = ['app-id', 'transaction-id', 'redownload', 'source'] as const;

/** The signed parameters in order. `source` is the app or the web domain that showed the ad, if there is one. */
const signed: Readonly<Record<string, readonly string[]>> = {
  '2.0': ['version', 'ad-network-id', 'campaign-id', ...common],
  '2.1': ['version', 'ad-network-id', 'campaign-id', ...common],
  '2.2': ['version', 'ad-network-id', 'campaign-id', ...common, 'fidelity-type'],
  '3.0': ['version', 'ad-network-id', 'campaign-id', ...common, 'fidelity-type', 'did-win'],
  '4.0': [
    ...['version', 'ad-network-id', 'source-identifier', ...common],
    ...['fidelity-type', 'did-win', 'postback-sequence-index'],
  ],
};

/**
 * Null if the body is not a postback. Parameters that the version does not sign are ignored: anyone could have added
 * them.
 */
export function readSkadnetworkPostback(body: string, keys: AppleKeys): AdPostback | null {
  const json = objectIn(body);
  const fields = new PostbackFields(json);
  // Version 1 has no such field.
  const version = fields.text('version', /^\d{1,3}\.\d{1,3}$/) ?? '1.0';
  const parameters = signed[version];
  const ifSigned = <T>(parameter: string, value: T): T | null =>
    parameters === undefined || parameters.includes(parameter) ? value : null;
  const app_store_id = fields.storeId('app-id');
  const transaction_id = fields.text('transaction-id', transactionId);
  const redownload = fields.flag('redownload');
  const signature = fields.text('attribution-signature', /^[\w+/]{1,200}={0,2}$/) ?? '';
  const source_app_id = fields.storeId('source-app-id');
  const source_domain = fields.text('source-domain', sourceDomain);
  const sequence_index = fields.whole('postback-sequence-index', SEQUENCE_INDEX_MAX);
  const read = {
    version,
    ad_network_id: fields.text('ad-network-id', name),
    campaign_id: ifSigned('campaign-id', fields.whole('campaign-id', 9_999)),
    source_identifier: ifSigned('source-identifier', fields.text('source-identifier', sourceIdentifier)),
    source_app_id,
    source_domain: source_app_id === null ? source_domain : null,
    marketplace_id: null,
    conversion_type: redownload === null ? null : redownload ? 'redownload' : 'download',
    did_win: ifSigned('did-win', fields.flag('did-win')),
    fidelity_type: ifSigned('fidelity-type', fields.whole('fidelity-type', 9)),
    ad_interaction_type: null,
    conversion_value: fields.whole('conversion-value', CONVERSION_VALUE_MAX),
    coarse_conversion_value: fields.text('coarse-conversion-value', coarseValue),
    country_code: fields.text('country-code', countryCode),
  };
  if (!fields.isValid || app_store_id === null || transaction_id === null) return null;
  return {
    framework: 'skadnetwork',
    ...{ app_store_id, transaction_id },
    sequence_index: (parameters && ifSigned('postback-sequence-index', sequence_index)) ?? 0,
    unverified_reason:
      parameters === undefined
        ? 'unknown_version'
        : reasonOf(json, parameters, source_app_id ?? source_domain, signature, keys),
    ...read,
  };
}

function reasonOf(
  json: Readonly<Record<string, unknown>>,
  parameters: readonly string[],
  source: string | null,
  signature: string,
  keys: AppleKeys,
): UnverifiedReason | null {
  const key = keys.get(json['version'] === '2.0' ? SKADNETWORK_2_0_KEY : SKADNETWORK_KEY);
  if (key === undefined) return 'unknown_key';
  const values = parameters.flatMap((parameter) => {
    if (parameter !== 'source') return [String(json[parameter])];
    return source === null ? [] : [source];
  });
  if (!verify('sha256', Buffer.from(values.join(separator)), key, Buffer.from(signature, 'base64')))
    return 'bad_signature';
  // Apple signs postbacks of an ad in a development build in this way.
  return source === '0' ? 'development' : null;
}
