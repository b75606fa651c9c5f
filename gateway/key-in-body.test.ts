import { expect, test } from 'vitest';
import { newApiKey } from '#common/api-key.ts';
import { RawBody } from '#common/http/raw-body.ts';
import { Rejection } from '#common/http/rejection.ts';
import { type KeyPlaces, readKeyInBody } from './key-in-body.ts';

const key = newApiKey();

const atTop: KeyPlaces = { names: ['api_key'], depthInObject: 1, depthInList: 0 };
const inCaptures: KeyPlaces = { names: ['api_key', 'token'], depthInObject: 2, depthInList: 3 };

function read(text: string, places = atTop): string {
  const found = readKeyInBody(new RawBody(Buffer.from(text)), places);
  return found instanceof Rejection ? (found.errors[0]?.message ?? '') : found;
}

test('the key is found anywhere in the object of the body', () => {
  for (const rest of [{}, { batch: [{ a: [{}, '}]"\\'] }] }, { 'Ä€𝒳"\\': '\\"{[' }, { '': null, a: 'api_key' }]) {
    for (const space of [0, 2, '\t']) {
      expect(read(JSON.stringify({ api_key: key, ...rest }, null, space))).toBe(key);
      expect(read(`\n ${JSON.stringify({ ...rest, api_key: key }, null, space)}`)).toBe(key);
    }
  }
});

test("text inside an event, a string or a value is not mistaken for the request's key", () => {
  const own = { api_key: key };
  for (const body of [
    { batch: [own], properties: own },
    { text: JSON.stringify(own), more: `"api_key":"${key}"` },
    { a: 'api_key', b: key },
    { api_key: 7 },
    { api_key: { api_key: key } },
    { xapi_key: key, api_key2: key },
  ]) {
    expect([body, read(JSON.stringify(body))]).toEqual([body, '']);
  }
});

test('a body that ends too early or is not an object is distinguished from an object without a key', () => {
  expect(read('{}')).toBe('');
  for (const text of ['{', '{"a":"}', '{"a":[}', '{"api_key":"lk_']) expect(read(text)).toBe('is not valid JSON');
  for (const text of ['[]', '7', `["api_key","${key}"]`]) expect(read(text)).toBe('must be a JSON object');
  for (const text of ['', ' \n']) expect(read(text)).toBe('must be a JSON object, but is empty');
});

test('the scan stops at the key and builds no values before it, whatever the nesting and the number of values', () => {
  expect(read(`{"api_key":"${key}",${'['.repeat(500_000)}`)).toBe(key);
  const deep = 500_000;
  expect(read(`{"a":${'['.repeat(deep)}${']'.repeat(deep)},"api_key":"${key}"}`)).toBe(key);
});

test('in a single capture or a list of them, the key is found in the properties, and only a well-formed one', () => {
  const capture = { event: 'x', properties: { token: 'of the user', plan: { token: newApiKey() } } };
  const own = { event: 'x', properties: { a: [], token: key } };
  const read2 = (value: unknown) => read(JSON.stringify(value), inCaptures);
  expect([own, [own], [capture, own], { token: key }, { api_key: key, batch: [] }].map(read2)).toEqual([
    key,
    key,
    key,
    key,
    key,
  ]);
  expect([capture, [capture], { batch: [own] }, [[own]], {}].map(read2)).toEqual(['', '', '', '', '']);
});
