/**
 * Reads AdAttributionKit postbacks: a JWS with some unsigned fields beside it. Source: Apple, "Verifying a postback".
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
import { type AppleKeys, isDevelopmentKey } from './apple-keys.ts';

/** Null if the body is not a postback. */
export function readAdAttributionKitPostback(body: string, keys: AppleKeys): AdPostback | null {
  const outer = new PostbackFields(objectIn(body));
  const [header = '', payload = '', signature = ''] =
    outer.text('jws-string', /^[\w-]+\.[\w-]+\.[\w-]*$/)?.split('.') ?? [];
  const fields = new PostbackFields(objectIn(Buffer.from(payload, 'base64url').toString()));
  const app_store_id = fields.storeId('advertised-item-identifier');
  const transaction_id = fields.text('postback-identifier', transactionId);
  const read = {
    sequence_index: fields.whole('postback-sequence-index', SEQUENCE_INDEX_MAX) ?? 0,
    version: null,
    ad_network_id: fields.text('ad-network-identifier', name),
    campaign_id: null,
    source_identifier: fields.text('source-identifier', sourceIdentifier),
    source_app_id: fields.storeId('publisher-item-identifier'),
    source_domain: null,
    marketplace_id: fields.text('marketplace-identifier', name),
    conversion_type: fields.text('conversion-type', name),
    did_win: fields.flag('did-win'),
    fidelity_type: null,
    ad_interaction_type: outer.text('ad-interaction-type', /^(?:click|view)$/),
    conversion_value: outer.whole('conversion-value', CONVERSION_VALUE_MAX),
    coarse_conversion_value: outer.text('coarse-conversion-value', coarseValue),
    country_code: outer.text('country-code', countryCode),
  };
  if (!outer.isValid || !fields.isValid || app_store_id === null || transaction_id === null) return null;
  const unverified_reason = reasonOf(header, payload, signature, keys);
  return { framework: 'adattributionkit', app_store_id, transaction_id, unverified_reason, ...read };
}

function reasonOf(header: string, payload: string, signature: string, keys: AppleKeys): UnverifiedReason | null {
  const { alg, kid } = objectIn(Buffer.from(header, 'base64url').toString());
  const key = alg === 'ES256' && typeof kid === 'string' ? keys.get(kid) : undefined;
  // A header cannot select the keys of SKAdNetwork.
  if (key === undefined || typeof kid !== 'string' || kid.startsWith('skadnetwork')) return 'unknown_key';
  const isSigned = verify(
    'sha256',
    Buffer.from(`${header}.${payload}`),
    { key, dsaEncoding: 'ieee-p1363' },
    Buffer.from(signature, 'base64url'),
  );
  if (!isSigned) return 'bad_signature';
  return isDevelopmentKey(kid) ? 'development' : null;
}
