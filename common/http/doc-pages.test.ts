import { expect, test } from 'vitest';
import { docUrlOf } from './doc-pages.ts';

test('a field or reason with the name of a property of every object points to no section', () => {
  for (const name of ['constructor', '__proto__', 'toString'])
    expect(docUrlOf({ code: 'VALIDATION_ERROR', reason: name, errors: [{ field: name }] })).toBeNull();
  expect(docUrlOf({ code: 'VALIDATION_ERROR', reason: 'taken', errors: [] })).toBe('/v1/docs/api.md#many-links');
});
