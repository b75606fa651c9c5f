import { expect, test } from 'vitest';
import { docUrlOf } from './doc-pages.ts';

test.each([
  ['VALIDATION_ERROR', 'taken', 'short_code', 'many-links'],
  ['FORBIDDEN', 'scope_missing', undefined, 'server-keys'],
  ['VALIDATION_ERROR', null, 'idempotency-key', 'repeating-a-request'],
  ['VALIDATION_ERROR', null, 'path', 'errors'],
  ['UNAUTHORIZED', null, undefined, 'authentication'],
  ['FORBIDDEN', null, undefined, 'errors'],
  ['NOT_FOUND', null, undefined, 'errors'],
  ['RATE_LIMITED', null, undefined, 'limits'],
  ['INTERNAL_ERROR', null, undefined, 'errors'],
] as const)('an error leads to the section that explains it: %s %s %s', (code, reason, field, section) => {
  const errors = field === undefined ? [] : [{ field }];
  expect(docUrlOf({ code, reason, errors })).toBe(`/v1/docs/api.md#${section}`);
});

test('a field with the name of a property of every object leads to the table of errors', () => {
  for (const field of ['constructor', '__proto__', 'toString'])
    expect(docUrlOf({ code: 'VALIDATION_ERROR', reason: null, errors: [{ field }] })).toBe('/v1/docs/api.md#errors');
});
