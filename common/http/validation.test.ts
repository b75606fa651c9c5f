import { Type } from 'typebox';
import { expect, test } from 'vitest';
import { bodyValidator } from './validation.ts';

test('the values that a field may have are named, null too', () => {
  const check = bodyValidator(Type.Object({ platform: Type.Unsafe({ enum: ['ios', 'web', null] }) }));
  expect(check({ platform: 'tv' })?.errors).toEqual([{ field: 'platform', message: 'must be one of ios, web, null' }]);
});
