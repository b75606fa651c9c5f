import { expect, test } from 'vitest';
import { newId } from '#common/ids.ts';
import {
  decodeInstall,
  type InstallRecord,
  installJson,
  installTextMax,
  openTriggers,
  reinstallJson,
} from './install-record.ts';

const now = 1_790_000_000_000;
const texts = Object.fromEntries(Object.keys(installTextMax).map((name) => [name, ''])) as Record<
  keyof typeof installTextMax,
  string
>;
const install: InstallRecord = {
  ...texts,
  install_id: newId('ins', now),
  organization_id: newId('org', now),
  app_id: newId('app', now),
  time: now,
  installed_at: now - 5,
  match_guaranteed: false,
  confidence: 0.5,
  attributed: false,
  trigger: 'install',
  platform: 'ios',
  privacy_mode: 'full_ip',
  properties: '',
};

const read = (fields: object) => decodeInstall(installJson({ ...install, ...fields }));

test('an install is read as it was written', () => {
  expect(read({})).toEqual(install);
});

test('an install without a trigger is an install, a reinstall and openings are read as they were written, and other triggers are rejected', () => {
  expect(installJson(install)).not.toContain('trigger');
  for (const trigger of openTriggers) expect(read({ trigger })).toMatchObject({ trigger });
  expect(decodeInstall(reinstallJson(installJson(install)))).toEqual({ ...install, trigger: 'reinstall' });
  expect(read({ trigger: 'update' })).toBe('bad_field');
});

test('an install that an older edge answered is stored, whatever it accepted as the time of the installation', () => {
  for (const installed_at of [0, 1, -1, 1_795_241_128, 946_684_800_000, 8_640_000_000_000_001]) {
    expect(read({ installed_at })).toMatchObject({ time: now, installed_at: now });
  }
});

test('texts of the maximum length, and texts about escapes, are valid', () => {
  const campaign = '😀'.repeat(255);
  const device_id = '😀'.repeat(256);
  expect(read({ campaign, device_id })).toMatchObject({ campaign, device_id });
  expect(read({ properties: '{"n":12345678901234567890}' })).toMatchObject({
    properties: '{"n":12345678901234567890}',
  });
  const properties = JSON.stringify({ '\\ud83d': 'a backslash and \\u0000' });
  expect(read({ properties })).toMatchObject({ properties });
});

test('an invalid install record is rejected with a reason, not an exception', () => {
  expect(read({ time: 1 })).toBe('bad_field');
  expect(read({ campaign: 'x'.repeat(256) })).toBe('bad_field');
  expect(read({ properties: '{"a":"\\u0000"}' })).toBe('bad_text');
  expect(read({ properties: `${'{"a":'.repeat(3_000)}1${'}'.repeat(3_000)}` })).toBe('bad_text');
  expect(decodeInstall('{')).toBe('not_json');
  expect(decodeInstall('7')).toBe('not_an_object');
});
