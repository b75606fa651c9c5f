import fc from 'fast-check';
import { expect, test } from 'vitest';
import { decodeApp, decodeLink, encodeLink, type LinkSnapshot } from './link-snapshot.ts';

const text = fc.option(fc.string({ unit: 'binary-ascii', maxLength: 30 }));

const link: fc.Arbitrary<LinkSnapshot> = fc.record({
  id: fc.string(),
  app_id: fc.string(),
  short_code: fc.string(),
  campaign: text,
  archived: fc.boolean(),
  title: text,
  ios_url: text,
  android_url: text,
  fallback_url: text,
  utm_source: text,
  utm_medium: text,
  utm_campaign: text,
  utm_term: text,
  utm_content: text,
  og_title: text,
  og_description: text,
  og_image_url: text,
  expires_at: fc.option(fc.nat()),
  expired_url: text,
  tap_page: fc.constantFrom('off', 'ios', 'mobile', null),
  rules: fc.constantFrom(null, [{ country: ['DE'], url: 'https://de.example/' }]),
  password_hash: text,
  max_clicks: fc.option(fc.nat()),
});

test('a link that is encoded for Redis and decoded again is the same, field by field', () => {
  fc.assert(
    fc.property(link, (one) => {
      expect(decodeLink(encodeLink(one))).toEqual({ ...one });
    }),
  );
});

test('invalid snapshots are ignored: broken JSON, another shape, another number of fields', () => {
  for (const bad of ['', '{', 'null', '[]', '{"id":"lnk_1","app_id":"app_1"}', '["lnk_1","app_1"]', '"lnk_1"']) {
    expect(decodeLink(bad), bad).toBeUndefined();
  }
  for (const bad of ['', '{', 'null', '[]', '{"id":"app_1"}']) expect(decodeApp(bad), bad).toBeUndefined();
});

test('snapshots written by a version without tap pages are read, and show none', () => {
  const now: unknown[] = JSON.parse(
    encodeLink({
      ...fc.sample(link, 1)[0],
      tap_page: 'ios',
      rules: null,
      password_hash: null,
      max_clicks: null,
    } as LinkSnapshot),
  );
  expect(decodeLink(JSON.stringify(now))?.tap_page).toBe('ios');
  expect(decodeLink(JSON.stringify(now.slice(0, 19)))).toMatchObject({ tap_page: null });
  expect(decodeApp('{"id":"app_1","organization_id":"org_1"}')).toMatchObject({ tap_page: 'off' });
});

test('the snapshot of a link without rules is read by versions without rules, and that of one with rules is not', () => {
  const lengthOf = (rules: LinkSnapshot['rules']) =>
    JSON.parse(encodeLink({ ...fc.sample(link, 1)[0], rules, password_hash: null, max_clicks: null } as LinkSnapshot))
      .length;
  expect([lengthOf(null), lengthOf([])]).toEqual([20, 21]);
});
