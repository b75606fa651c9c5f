import { expect, test } from 'vitest';
import { unknownSettings } from './unknown-settings.ts';

test.each([
  ['RATE_LIMIT_LINK', 'RATE_LIMIT_LINKS'],
  ['REDIRECTOR_HTTP_PRT', 'REDIRECTOR_HTTP_PORT'],
  ['DATABSE_URL', 'DATABASE_URL'],
  ['LOG_PARTITION', 'LOG_PARTITIONS'],
])('%s is named, and %s is suggested', (given, meant) => {
  expect(unknownSettings({ [given]: '1' })).toEqual([
    `${given} is not a setting and has no effect. Did you mean ${meant}?`,
  ]);
});

test('a name with a Signpost prefix is reported even if it is close to no setting', () => {
  expect(unknownSettings({ JOURNAL_FORMAT: 'x' })).toEqual([
    'JOURNAL_FORMAT is not a setting and has no effect. docs/settings.md lists all settings.',
  ]);
});

test('settings, and variables of the system and of other programs, are not reported', () => {
  const other = [
    'PATH',
    'HOME',
    'PGUSER',
    'NODE_OPTIONS',
    'API_KEY',
    'npm_config_cache',
    'NATS_CREDS',
    'REDIS_URI',
    'CI',
  ];
  const env = Object.fromEntries([...other, 'RATE_LIMIT_LINKS', 'DATA_DIR', 'METRICS_PORT'].map((name) => [name, '1']));
  expect(unknownSettings(env).filter((line) => !line.startsWith('REDIS_URI '))).toEqual([]);
});
