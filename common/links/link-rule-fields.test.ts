import { expect, test } from 'vitest';
import { bodyValidator } from '#common/http/validation.ts';
import { linkChangesBody, linkFaults, storedValue } from './link-fields.ts';

const url = 'https://rule.example/';
const check = bodyValidator(linkChangesBody);

function faultsOf(rules: unknown): readonly { field: string; message: string }[] {
  const body = { rules };
  return check(body, linkFaults(body))?.errors ?? [];
}

const second = (rule: unknown) => faultsOf([{ url }, rule]).map(({ field }) => field);

test.each<[string, unknown]>([
  ['rules[1].url', {}],
  ['rules[1].url', { url, variants: [{ url, percent: 1 }] }],
  ['rules[1].url', { url: 'http://plain.example/' }],
  ['rules[1].url', { url: 'javascript:alert(1)' }],
  ['rules[1].url', { url: 7 }],
  ['rules[1].county', { url, county: ['DE'] }],
  ['rules[1].country', { url, country: [] }],
  ['rules[1].country[1]', { url, country: ['DE', 'de'] }],
  ['rules[1].country[1]', { url, country: ['DE', 'XX'] }],
  ['rules[1].country[0]', { url, country: ['UK'] }],
  ['rules[1].platform[0]', { url, platform: ['windows'] }],
  ['rules[1].os_version_min', { url, os_version_min: '17' }],
  ['rules[1].os_version_min', { url, os_version_min: '17', platform: ['ios', 'android'] }],
  ['rules[1].os_version_min', { url, os_version_min: '17', platform: ['desktop'] }],
  ['rules[1].os_version_min', { url, os_version_min: 'x', platform: ['ios'] }],
  ['rules[1].os_version_max', { url, os_version_max: '16', os_version_min: '17', platform: ['ios'] }],
  ['rules[1].browser[0]', { url, browser: ['\u0000'] }],
  ['rules[1].language[0]', { url, language: ['german'] }],
  ['rules[1].after', { url, after: 'tomorrow' }],
  ['rules[1].after', { url, after: '9999-12-31T23:59:59-23:59' }],
  ['rules[1].before', { url, after: '2026-01-02T00:00:00Z', before: '2026-01-02T00:00:00Z' }],
  ['rules[1].weekdays[0]', { url, weekdays: ['Monday'], timezone: 'UTC' }],
  ['rules[1].timezone', { url, weekdays: ['mon'] }],
  ['rules[1].timezone', { url, time_from: '09:00', time_until: '10:00' }],
  ['rules[1].timezone', { url, weekdays: ['mon'], timezone: 'Mars/Olympus' }],
  ['rules[1].timezone', { url, weekdays: ['mon'], timezone: '+01:00' }],
  ['rules[1].time_until', { url, time_from: '09:00', timezone: 'UTC' }],
  ['rules[1].time_until', { url, time_from: '09:00', time_until: '09:00', timezone: 'UTC' }],
  ['rules[1].time_from', { url, time_from: '24:00', time_until: '09:00', timezone: 'UTC' }],
  ['rules[1].variants', { variants: [] }],
  ['rules[1].variants', { variants: [60, 41].map((percent) => ({ url, percent })) }],
  ['rules[1].variants[0].percent', { variants: [{ url, percent: 0 }] }],
  [
    'rules[1].variants[1].url',
    {
      variants: [
        { url, percent: 1 },
        { url: 'ftp://x.example/', percent: 1 },
      ],
    },
  ],
])('a fault is reported at %s of %j', (field, rule) => {
  expect(second(rule)).toContain(field);
});

test('rules that use every condition are accepted, and so is an empty list', () => {
  const rule = {
    ...{ country: ['DE'], platform: ['ios'], os_version_min: '17', os_version_max: '17', browser: ['Safari'] },
    ...{ language: ['de', 'pt-BR'], after: '2026-01-01T00:00:00Z', before: '2027-01-01T00:00:00Z' },
    ...{ weekdays: ['mon'], time_from: '22:00', time_until: '06:00', timezone: 'Europe/Berlin', url },
  };
  const shared = { variants: [60, 40].map((percent) => ({ url, percent })) };
  for (const rules of [[rule, shared], [], null]) expect(faultsOf(rules), JSON.stringify(rules)).toEqual([]);
  expect(storedValue('rules', [])).toBeNull();
});

test('at most 20 rules, and 16 KiB of them, are accepted', () => {
  expect(faultsOf(Array(20).fill({ url }))).toEqual([]);
  expect(faultsOf(Array(21).fill({ url }))[0]?.field).toBe('rules');
  expect(faultsOf(Array(20).fill({ url: url.padEnd(1_000, 'x') }))[0]?.field).toBe('rules');
});

test('no value of any type makes the check fail', () => {
  for (const rules of [
    0,
    '',
    {},
    [null],
    [7],
    [[]],
    [{ variants: 7 }],
    [{ variants: [null], platform: 3, timezone: 1 }],
  ])
    expect(faultsOf(rules).length, JSON.stringify(rules)).toBeGreaterThan(0);
});
