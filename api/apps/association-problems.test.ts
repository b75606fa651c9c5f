import { expect, test } from 'vitest';
import type { OutboundAnswer } from '#common/outbound-request.ts';
import { ASSOCIATION_BYTES_MAX, judgeAndroid, judgeApple, problemsOf } from './association-problems.ts';

const [first, second] = ['AA', 'BB'].map((pair) => Array.from({ length: 32 }, () => pair).join(':'));
const apple = JSON.stringify({
  applinks: { apps: [], details: [{ appIDs: ['TEAM123456.com.a'], appID: 'TEAM123456.com.a', paths: ['*'] }] },
});
const androidStatement = (more: object = {}, relation = 'delegate_permission/common.handle_all_urls') => ({
  relation: [relation],
  target: { namespace: 'android_app', package_name: 'com.a', sha256_cert_fingerprints: [first, second], ...more },
});
const android = JSON.stringify([androidStatement()]);

function answer(body: string | Buffer, more: Partial<OutboundAnswer> = {}): OutboundAnswer {
  const headers = { 'content-type': 'application/json' };
  return { kind: 'answered', status: 200, headers, body: Buffer.from(body), isWhole: true, ...more };
}
const ofApple = (body: unknown) => problemsOf(answer(JSON.stringify(body)), apple, judgeApple);
const ofAndroid = (body: unknown) => problemsOf(answer(JSON.stringify(body)), android, judgeAndroid);

test('a correct file has no problem, whatever the order of its keys', () => {
  expect(problemsOf(answer(apple), apple, judgeApple)).toEqual([]);
  const { relation, target } = androidStatement();
  expect(ofAndroid([{ target, relation }])).toEqual([]);
});

test.each([
  ['redirected', answer('', { status: 301 })],
  ['status', answer(apple, { status: 404 })],
  ['status', answer(apple, { status: 204 })],
  ['too_large', answer(Buffer.alloc(ASSOCIATION_BYTES_MAX, ' '), { isWhole: false })],
  ['cut_off', answer(apple, { isWhole: false })],
  ['content_type', answer(apple, { headers: { 'content-type': 'text/html' } })],
  ['content_type', answer(apple, { headers: {} })],
  ['content_type', answer(apple, { headers: { 'content-type': 'application/json-seq' } })],
  ['not_json', answer('<html>')],
  ['not_json', answer('')],
  ['not_json', answer(`\ufeff${apple}`)],
])('an answer that phones do not accept is %s', (problem, found) => {
  expect(problemsOf(found, apple, judgeApple)).toEqual([problem]);
});

test('a content type with parameters is accepted', () => {
  const headers = { 'content-type': 'Application/JSON; charset=utf-8' };
  expect(problemsOf(answer(apple, { headers }), apple, judgeApple)).toEqual([]);
});

test('a response with several problems reports all of them', () => {
  const found = answer('{}', { headers: { 'content-type': 'text/plain' } });
  expect(problemsOf(found, apple, judgeApple)).toEqual(['content_type', 'app_missing']);
});

test.each([
  ['in another case', { details: [{ appID: 'TEAM123456.com.A' }] }],
  ['without details', {}],
  ['with another team', { details: [{ appIDs: ['TEAM999999.com.a'] }, 1, null] }],
  ['as a number', { details: [{ appIDs: 5, appID: 7 }] }],
  ['in details that are a text', { details: 'TEAM123456.com.a' }],
])('an Apple file that has the app %s lacks it', (_, applinks) => {
  expect(ofApple({ applinks })).toEqual(['app_missing']);
  expect(ofApple([applinks])).toEqual(['app_missing']);
});

test.each([
  ['in appIDs', { details: [{ appIDs: ['X.y', 'TEAM123456.com.a'], components: [] }] }],
  ['in appID', { details: [{ appID: 'TEAM123456.com.a', paths: [] }] }],
  ['as a key', { details: { 'TEAM123456.com.a': { paths: ['*'] } } }],
])('another Apple file that names the app %s differs, and no more', (_, applinks) => {
  expect(ofApple({ applinks })).toEqual(['differs']);
});

test.each<[string, unknown, string]>([
  ['is for other links only', [androidStatement({}, 'delegate_permission/common.get_login_creds')], 'app_missing'],
  ['names another package', [androidStatement({ package_name: 'com.b' })], 'app_missing'],
  ['names a site', [androidStatement({ namespace: 'web' })], 'app_missing'],
  ['is an object', androidStatement(), 'app_missing'],
  ['has no relation', [{ target: androidStatement().target }, null, 3], 'app_missing'],
  ['lacks a certificate', [androidStatement({ sha256_cert_fingerprints: [first] })], 'fingerprint_missing'],
  ['has none', [androidStatement({ sha256_cert_fingerprints: { toString: 1 } })], 'fingerprint_missing'],
  ['has objects for it', [androidStatement({ sha256_cert_fingerprints: [{ toString: 1 }] })], 'fingerprint_missing'],
  ['has one more', [androidStatement({ sha256_cert_fingerprints: [first, second, 'CC'] })], 'differs'],
  [
    'has them in lower case',
    [androidStatement({ sha256_cert_fingerprints: [first?.toLowerCase(), second] })],
    'differs',
  ],
])('a Google file that %s', (_, body, problem) => {
  expect(ofAndroid(body)).toEqual([problem]);
});

test('certificates may be in several statements of the app', () => {
  const statements = [first, second].map((one) => androidStatement({ sha256_cert_fingerprints: [one] }));
  expect(ofAndroid(statements)).toEqual(['differs']);
});

test('a file that is nested as deeply as its length allows is checked', () => {
  const deep = '['.repeat(ASSOCIATION_BYTES_MAX / 2) + ']'.repeat(ASSOCIATION_BYTES_MAX / 2);
  expect(problemsOf(answer(deep), apple, judgeApple)).toEqual(['app_missing']);
  const inside = `{"applinks":{"details":[{"appID":"TEAM123456.com.a","paths":${deep}}]}}`;
  expect(problemsOf(answer(inside), apple, judgeApple)).toEqual(['differs']);
});

test('a failed request reports its reason as the problem', () => {
  expect(problemsOf({ kind: 'failed', reason: 'tls_failed' }, apple, judgeApple)).toEqual(['tls_failed']);
});
