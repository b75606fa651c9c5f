import { expect, test } from 'vitest';
import { RawBody } from './raw-body.ts';

test('a body returns the same bytes, and its text if it is UTF-8, without a byte order mark', () => {
  const text = '{"a":"ü😀"}';
  expect(new RawBody(Buffer.from(text)).text()).toBe(text);
  expect(new RawBody(Buffer.from(`\ufeff${text}`)).text()).toBe(text);
  expect(new RawBody(Buffer.from(`\ufeff${text}`)).bytes).toEqual(Buffer.from(text));
  const all = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte));
  expect(new RawBody(all).bytes).toEqual(all);
  expect(new RawBody(all).text()).toBeNull();
});

test('a body is unaffected when the buffer that it was made from is reused', () => {
  const bytes = Buffer.from('{"a":1}');
  const body = new RawBody(bytes);
  bytes.fill(0);
  expect([body.text(), body.byteLength]).toEqual(['{"a":1}', 7]);
});
