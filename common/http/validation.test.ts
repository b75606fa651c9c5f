import { Type } from 'typebox';
import { expect, test } from 'vitest';
import { bodyValidator } from './validation.ts';

test('the allowed values of a field are named, including null', () => {
  const check = bodyValidator(Type.Object({ platform: Type.Unsafe({ enum: ['ios', 'web', null] }) }));
  expect(check({ platform: 'tv' })?.errors).toEqual([{ field: 'platform', message: 'must be one of ios, web, null' }]);
});
