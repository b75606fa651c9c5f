import { Type } from 'typebox';
import { expect, test } from 'vitest';
import { bodyValidator, queryValidator } from './validation.ts';

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

test('a name is told apart from one that has nothing to see, and from one that hides something', () => {
  const check = bodyValidator(Type.Object({ name: Type.String({ format: 'visible' }) }));
  const messageOf = (name: string) => check({ name })?.errors?.[0]?.message;
  expect(messageOf('\u200b')).toBe('must have a visible character');
  for (const name of ['ann@a.test\u202e', 'a\nb', 'a\u2028b', 'a\0', '\ud800a'])
    expect(messageOf(name)).toContain('line breaks');
  expect(messageOf('می‌خواهم 👩‍👩‍👧')).toBeUndefined();
});

test('a date-time is one that JavaScript and Postgres both have', () => {
  const check = queryValidator(Type.Object({ start: Type.String({ format: 'date-time' }) }));
  const faultsOf = (start: string) => check({ start })?.errors?.map(({ field }) => field) ?? [];
  for (const start of ['0000-01-01T00:00:00Z', '2016-12-31T23:59:60Z', '2026-02-31T00:00:00Z', '2026-01-31 12:00'])
    expect(faultsOf(start), start).toEqual(['start']);
  for (const start of ['2026-01-31T12:00:00Z', '2026-01-31T12:00:00.5+02:00', '1600-01-01T00:00:00Z'])
    expect(faultsOf(start), start).toEqual([]);
});

test.each([
  [Type.String(), 5, 'must be a string'],
  [Type.Unsafe({ type: ['object', 'null'] }), [], 'must be an object or null'],
  [Type.Array(Type.String(), { minItems: 1 }), [], 'must have at least 1 item'],
  [Type.Array(Type.String(), { maxItems: 2 }), ['a', 'b', 'c'], 'must have at most 2 items'],
  [Type.Array(Type.String(), { uniqueItems: true }), ['a', 'a'], 'must not contain the same item twice'],
  [Type.String({ minLength: 1 }), '', 'must have at least 1 character'],
  [Type.String({ maxLength: 3 }), 'summer', 'must have at most 3 characters'],
  [Type.Object({}, { minProperties: 1 }), {}, 'must have at least 1 field'],
  [Type.Integer({ minimum: 1 }), 0, 'must be at least 1'],
  [Type.Number({ maximum: 1 }), 2, 'must be at most 1'],
  [Type.String({ format: 'date-time' }), 'now', /^must be a date and time with its offset, such as 2026/],
  [Type.String({ format: 'email' }), 'ada', 'must be an e-mail address'],
  [Type.String({ anyOf: [{ format: 'ipv4' }, { format: 'ipv6' }] }), 'here', 'must be an IP address'],
  [Type.Union([Type.Object({}), Type.Integer()]), true, 'must be an object'],
])('a fault is reported in words: %#', (schema, value, message) => {
  const [error] = bodyValidator(Type.Object({ field: schema }))({ field: value })?.errors ?? [];
  expect(error).toEqual({
    field: 'field',
    message: typeof message === 'string' ? message : expect.stringMatching(message),
  });
});

test('an unknown field of a body is called a field, and one of a query a parameter', () => {
  const schema = Type.Object({}, { additionalProperties: false });
  expect(bodyValidator(schema)({ a: 1 })?.message).toBe('a: is not a known field');
  expect(queryValidator(schema)({ a: '1' })?.message).toBe('a: is not a known parameter');
});

test('the message of several faults names the first five fields', () => {
  const schema = Type.Object({}, { additionalProperties: false });
  const faults = (names: string) =>
    bodyValidator(schema)(Object.fromEntries([...names].map((name) => [name, 1])))?.message;
  expect(faults('ab')).toBe('2 fields are not valid: a, b.');
  expect(faults('abcdefg')).toBe('7 fields are not valid: a, b, c, d, e and 2 more.');
});
