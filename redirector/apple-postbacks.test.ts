import { expect, test } from 'vitest';
import { appleKeyOf } from '#common/process/config-formats.ts';
import { readAdAttributionKitPostback } from './adattributionkit-postback.ts';
import { appleKeys } from './apple-keys.ts';
import { readSkadnetworkPostback } from './skadnetwork-postback.ts';
import { appleExamples, developmentExample, jws, skadnetworkSignature, testKey } from './testing/apple-postbacks.ts';

const keys = appleKeys();
const skadnetwork = (message: object, with_ = keys) => readSkadnetworkPostback(JSON.stringify(message), with_);
const adAttributionKit = (message: object, with_ = keys) =>
  readAdAttributionKitPostback(JSON.stringify(message), with_);

test.each(Object.entries(appleExamples))('Apple’s example of SKAdNetwork %s is verified', (_, example) => {
  expect(skadnetwork(example)).toMatchObject({
    unverified_reason: null,
    transaction_id: example['transaction-id'],
    app_store_id: '525463029',
  });
});

test('a changed signed field is detected, and a changed unsigned field is not', () => {
  const example = appleExamples['4.0, fine value'];
  const other: Record<string, unknown> = {
    version: '3.0',
    'ad-network-id': 'com.example2',
    'source-identifier': '5238',
    'app-id': 525463028,
    'transaction-id': '6aafb7a5-0170-41b5-bbe4-fe71dedf1e39',
    redownload: true,
    'source-domain': 'example.org',
    'source-app-id': 5,
    'fidelity-type': 0,
    'did-win': false,
    'postback-sequence-index': 1,
    'attribution-signature': appleExamples['4.0, coarse value']['attribution-signature'],
  };
  for (const [field, value] of Object.entries(other))
    expect([field, skadnetwork({ ...example, [field]: value })?.unverified_reason]).toEqual([field, 'bad_signature']);
  for (const field of Object.keys(other).filter((one) => one !== 'app-id' && one !== 'transaction-id')) {
    const { [field]: _, ...rest } = { ...example } as Record<string, unknown>;
    if (field === 'source-app-id') continue;
    const reason = field === 'version' ? 'unknown_version' : 'bad_signature';
    expect([field, skadnetwork(rest)?.unverified_reason]).toEqual([field, reason]);
  }
  expect(skadnetwork({ ...example, 'conversion-value': 1 })).toMatchObject({
    unverified_reason: null,
    conversion_value: 1,
  });
});

test('fields that a version does not sign are ignored', () => {
  const added = { 'source-identifier': '1234', 'postback-sequence-index': 2 };
  expect(skadnetwork({ ...appleExamples['3.0, won'], ...added, 'source-domain': 'evil.example' })).toMatchObject({
    unverified_reason: null,
    source_identifier: null,
    source_domain: null,
    source_app_id: '1234567891',
    sequence_index: 0,
  });
  expect(skadnetwork({ ...appleExamples['2.2'], 'did-win': false })).toMatchObject({
    unverified_reason: null,
    did_win: null,
  });
  expect(skadnetwork({ ...appleExamples['4.0, fine value'], 'campaign-id': 7 })?.campaign_id).toBeNull();
});

test('unknown versions, and version 1, are stored as unverified', () => {
  const example = appleExamples['4.0, fine value'];
  for (const version of ['1.0', '4.1', '5.0'])
    expect(skadnetwork({ ...example, version })).toMatchObject({ version, unverified_reason: 'unknown_version' });
});

test('version 2.0 is verified with its own key, which uses another curve', () => {
  const key = testKey('skadnetwork/2.0', 'prime192v1');
  const message = { ...appleExamples['2.1'], version: '2.0' };
  const values = ['2.0', 'com.example', 42, 525463029, message['transaction-id'], true, 1234567891];
  const signed = { ...message, 'attribution-signature': skadnetworkSignature(key, values) };
  expect(skadnetwork(signed, appleKeys([key.setting]))?.unverified_reason).toBeNull();
  expect(skadnetwork(signed)?.unverified_reason).toBe('bad_signature');
});

test('postbacks that Apple signs for an ad in a development build are tests, wherever the 0 is written', () => {
  const key = testKey('skadnetwork');
  const { 'source-app-id': _, ...message } = appleExamples['2.1'];
  const values = ['2.1', 'com.example', 42, 525463029, message['transaction-id'], true, 0];
  const signed = { ...message, 'attribution-signature': skadnetworkSignature(key, values) };
  for (const source of [{ 'source-app-id': 0 }, { 'source-domain': '0' }])
    expect(skadnetwork({ ...signed, ...source }, appleKeys([key.setting]))?.unverified_reason).toBe('development');
});

test('the signed number of an app is not accepted as a domain', () => {
  const { 'source-app-id': source, ...message } = appleExamples['2.1'];
  expect(skadnetwork({ ...message, 'source-app-id': source })?.unverified_reason).toBeNull();
  const moved = skadnetwork({ ...message, 'source-domain': String(source) });
  expect(moved?.source_domain ?? null).toBeNull();
  expect(moved?.unverified_reason).not.toBeNull();
});

test('Apple’s AdAttributionKit example is signed by a development key, so it is a test', () => {
  expect(adAttributionKit(developmentExample)).toMatchObject({
    app_store_id: '10738027756',
    transaction_id: '85546EB7-FD39-44BC-8990-C98A4AC36A49',
    unverified_reason: 'development',
    conversion_value: 24,
    ad_interaction_type: 'click',
    conversion_type: 're-engagement',
    source_identifier: '1234',
    country_code: 'US',
  });
});

test('a JWS is verified by the key that it names, and only with ES256', () => {
  const kid = 'apple-cas-identifier/9';
  const key = testKey(kid);
  const own = appleKeys([key.setting]);
  const payload = { 'advertised-item-identifier': 5, 'postback-identifier': 'a-1', 'source-identifier': '12' };
  const reasonOf = (text: string, known = own) => adAttributionKit({ 'jws-string': text }, known)?.unverified_reason;
  const good = jws(key, kid, payload);
  expect(reasonOf(good)).toBeNull();
  const [header, , signature] = good.split('.');
  const changed = Buffer.from(JSON.stringify({ ...payload, 'source-identifier': '13' })).toString('base64url');
  expect(reasonOf(`${header}.${changed}.${signature}`)).toBe('bad_signature');
  expect(reasonOf(`${good}AA`)).toBe('bad_signature');
  expect(reasonOf(`${header}.${good.split('.')[1]}.`)).toBe('bad_signature');
  expect(reasonOf(good, keys)).toBe('unknown_key');
  expect(reasonOf(jws(testKey(kid), kid, payload))).toBe('bad_signature');
  expect(reasonOf(jws(key, 'apple-cas-identifier/0', payload))).toBe('bad_signature');
  expect(reasonOf(jws(key, kid, payload, { alg: 'none' }))).toBe('unknown_key');
  expect(reasonOf(jws(testKey('x'), 'skadnetwork', payload), appleKeys())).toBe('unknown_key');
});

test.each([
  ['no JSON', 'x'],
  ['a list', '[]'],
  ['no transaction id', { 'transaction-id': undefined }],
  ['no app', { 'app-id': undefined }],
  ['an app that is no number', { 'app-id': 'x' }],
  ['a value out of range', { 'conversion-value': 64 }],
  ['a coarse value that is none', { 'coarse-conversion-value': 'huge' }],
  ['an object for a text', { 'ad-network-id': {} }],
  ['a text for a flag', { redownload: 'true' }],
  ['a very long text', { 'ad-network-id': 'x'.repeat(101) }],
  ['a sequence index that is none', { 'postback-sequence-index': 3 }],
  ['a separator in a text', { 'ad-network-id': 'a\u2063b' }],
])('%s is not a postback', (_, wrong) => {
  const body = typeof wrong === 'string' ? wrong : JSON.stringify({ ...appleExamples['4.0, fine value'], ...wrong });
  expect(readSkadnetworkPostback(body, keys)).toBeNull();
  expect(readAdAttributionKitPostback(body, keys)).toBeNull();
});

test('a setting has the name of a key and the key', () => {
  const { setting } = testKey('apple-cas-identifier/1');
  expect(appleKeyOf(setting)).toBe(setting);
  for (const wrong of ['', 'x', 'x=', 'x=AAAA', setting.slice(0, -20), setting.slice('apple-cas-identifier/1='.length)])
    expect([wrong, appleKeyOf(wrong)]).toEqual([wrong, null]);
});
