import { expect, test, vi } from 'vitest';
import { parseObject } from './json.ts';
import { RawBody } from './raw-body.ts';

const nested = (depth: number) => `{"a":${'['.repeat(depth - 1)}${']'.repeat(depth - 1)}}`;

function faults(text: string): string[] {
  const parsed = parseObject(new RawBody(Buffer.from(text)));
  return 'rejection' in parsed ? parsed.rejection.errors.map(({ field, message }) => `${field} ${message}`) : [];
}

test('a fault is named by the path to it', () => {
  const unstorable = 'contains a NUL or an unpaired surrogate';
  expect(faults('{"a":{"b":[1,{"c":"\\u0000"}]},"d":"\\ud800"}')).toEqual([
    `a.b[1].c ${unstorable}`,
    `d ${unstorable}`,
  ]);
  expect(faults('{"\\u0000":1}')).toEqual(['body has a key that contains a NUL or an unpaired surrogate']);
  expect(faults('{"a":[{"\\u0000":1}]}')).toEqual(['a[0] has a key that contains a NUL or an unpaired surrogate']);
  expect(faults(nested(32))).toEqual([]);
  expect(faults(nested(33))).toEqual([`a${'[0]'.repeat(31)} is nested more than 32 levels deep`]);
});

test('of very many faults a hundred are named', () => {
  expect(faults(`{"a":[${Array(5_000).fill('"\\u0000"').join()}]}`)).toHaveLength(100);
  const keys = Array.from({ length: 5_000 }, (_, n) => `"\\u0000${n}":1`);
  expect(faults(`{${keys.join()}}`)).toHaveLength(100);
});

test('a list is checked without copying it into pairs', () => {
  const entries = vi.spyOn(Object, 'entries');
  expect(faults(`{"batch":[${Array(10_000).fill('1').join()}]}`)).toEqual([]);
  const sizes = entries.mock.results.map(({ value }) => (Array.isArray(value) ? value.length : 0));
  entries.mockRestore();
  expect(Math.max(...sizes)).toBe(1);
});
