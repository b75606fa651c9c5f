import { Type } from 'typebox';
import { expect, test } from 'vitest';
import { bodyValidator } from './validation.ts';

test('the allowed values of a field are named, including null', () => {
  const check = bodyValidator(Type.Object({ platform: Type.Unsafe({ enum: ['ios', 'web', null] }) }));
  expect(check({ platform: 'tv' })?.errors).toEqual([{ field: 'platform', message: 'must be one of ios, web, null' }]);
});

test('a refused form comes with an example of it', () => {
  const check = bodyValidator(
    Type.Object({
      code: Type.String({ pattern: '^[a-z]+$', examples: ['summer'] }),
      name: Type.String({ format: 'visible' }),
    }),
  );
  expect(check({ code: 'A', name: ' ' })?.errors).toEqual([
    { field: 'code', message: 'has characters or a format that is not allowed; an example is "summer"' },
    { field: 'name', message: 'must have a visible character' },
  ]);
});
