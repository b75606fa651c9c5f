import { expect, test } from 'vitest';
import { changedFields, renewed } from './form-changes.ts';

const before = {
  name: 'Shop',
  fallback_url: null as string | null,
  events: ['purchase'],
  ios: { bundle_id: 'com.example.shop', team_id: null as string | null } as object | null,
  android: null as object | null,
  settings: { min_confidence: 0.6, conversion_events: ['purchase'] },
};

test('only the fields that were changed are sent, also those of an object', () => {
  expect(changedFields(before, before)).toEqual({});
  expect(changedFields({ ...before, name: 'Store', fallback_url: 'https://example.com' }, before)).toEqual({
    name: 'Store',
    fallback_url: 'https://example.com',
  });
  const settings = { ...before.settings, conversion_events: ['purchase', 'trial'] };
  expect(changedFields({ ...before, settings }, before)).toEqual({
    settings: { conversion_events: ['purchase', 'trial'] },
  });
});

test('a list is sent as a whole, an object as a whole if there was none, and null if it is gone', () => {
  const android = { package_name: 'com.example.shop', uri_scheme: null };
  expect(changedFields({ ...before, events: [], android, ios: null }, before)).toEqual({
    events: [],
    android,
    ios: null,
  });
});

test('newer values replace what the user has not touched, and nothing else', () => {
  const opened = { name: 'Shop', url: 'https://a.example', events: ['a'], isOn: false };
  const draft = { ...opened, url: 'https://typed.example', events: ['a', 'b'] };
  expect(renewed(draft, opened, { name: 'Store', url: 'https://b.example', events: ['c'], isOn: true })).toEqual({
    name: 'Store',
    url: 'https://typed.example',
    events: ['a', 'b'],
    isOn: true,
  });
});
