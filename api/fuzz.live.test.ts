import fc from 'fast-check';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { linkChangesBody, newLinkBody } from '#common/links/link-fields.ts';
import { anyCharacter } from '#testing/any-character.ts';
import { testCostlyCases } from '#testing/costly-cases.ts';
import { appChangesBody, newAppBody } from './apps/fields.ts';
import { type ApiForTest, apiForTest, type Member } from './testing/running-api.ts';

let api: ApiForTest;
let owner: Member;
let appId = '';
let linkId = '';

beforeAll(async () => {
  api = await apiForTest();
  owner = await api.member();
  appId = (await owner.call('POST', '/apps', { name: 'Fuzz' })).body.id;
  linkId = (await owner.call('POST', '/links', { path: '/x', app_id: appId })).body.id;
});
afterAll(() => api.stop());

const texts = fc.oneof(
  fc.string({ unit: anyCharacter, maxLength: 40 }),
  fc.constantFrom(
    '',
    '\0',
    '\ud800',
    'https://example.com/',
    'https://[::1]/',
    'https://exa\u00admple.com',
    'https://xn--/',
    'javascript:x',
    "'; DROP TABLE links; --",
    '2030-01-01T00:00:00Z',
    '2030-02-30T00:00:00Z',
    '9999-12-31T23:59:59+23:59',
    '__proto__',
    'x'.repeat(70_000),
  ),
);
const values = fc.oneof(
  texts,
  fc.constantFrom(null, true, 0, -0, 1e308, -1, 2 ** 53, [], {}, [[]], [null]),
  fc.jsonValue({ maxDepth: 4 }),
  fc.dictionary(texts, fc.oneof(texts, fc.integer()), { maxKeys: 3 }),
  fc.array(texts, { maxLength: 3 }),
);

/** Bodies with fields of the schema, some valid, most invalid, and with unknown fields. */
function bodies(properties: object, valid: Record<string, unknown>) {
  const names = [...Object.keys(properties), '__proto__', 'constructor', 'zzz'];
  return fc
    .dictionary(fc.constantFrom(...names), values, { maxKeys: 4 })
    .chain((fuzz) => fc.subarray(Object.entries(valid)).map((kept) => ({ ...Object.fromEntries(kept), ...fuzz })));
}

const good = { app: { name: 'x', fallback_url: 'https://a.example' }, link: { path: '/x', app_id: '', title: 'x' } };

const writes = [
  { method: 'POST', path: () => '/apps', properties: newAppBody.properties, valid: () => good.app },
  { method: 'PATCH', path: () => `/apps/${appId}`, properties: appChangesBody.properties, valid: () => good.app },
  {
    method: 'POST',
    path: () => '/links',
    properties: newLinkBody.properties,
    valid: () => ({ ...good.link, app_id: appId }),
  },
  {
    method: 'PATCH',
    path: () => `/links/${linkId}`,
    properties: linkChangesBody.properties,
    valid: () => ({ title: 'x', path: '/x' }),
  },
];
const sizes = [80, 400].flatMap((count) => writes.map((write) => ({ ...write, count })));
const title = '$method with any of $count bodies is executed or refused, and never fails';
testCostlyCases(sizes, writes.length, title, async ({ method, path, properties, valid, count: numRuns }) => {
  await fc.assert(
    fc.asyncProperty(bodies(properties, valid()), async (body) => {
      const reply = await owner.call(method, path(), JSON.stringify(body));
      expect(api.failures.splice(0)).toEqual([]);
      expect([200, 201, 400, 404]).toContain(reply.status);
      if (reply.status === 400) expect(reply.body.error.details.field).toEqual(expect.any(String));
    }),
    { numRuns },
  );
});

test('a list with any query is served or rejected, and never fails', async () => {
  const names = ['limit', 'offset', 'app_id', 'campaign', 'tag', 'search', 'archived', 'created_after', 'sort', 'zzz'];
  await fc.assert(
    fc.asyncProperty(fc.dictionary(fc.constantFrom(...names), texts, { maxKeys: 3 }), async (query) => {
      const text = Object.entries(query).map(
        ([name, value]) => `${name}=${encodeURIComponent(value.toWellFormed().slice(0, 900))}`,
      );
      const reply = await owner.call('GET', `/links?${text.join('&')}`);
      expect(api.failures.splice(0)).toEqual([]);
      expect([200, 400, 404]).toContain(reply.status);
    }),
    { numRuns: 100 },
  );
});
