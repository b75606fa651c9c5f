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

test('what systemd, Kubernetes and Docker add is not reported, whatever a service is called', () => {
  const added: Record<string, string> = { JOURNAL_STREAM: '8:4711', INVOCATION_ID: 'x', MANAGERPID: '1' };
  for (const service of ['REDIRECTOR', 'INGEST', 'SIGNPOST_API', 'APP', 'OAUTH_GOOGLE']) {
    added[`${service}_SERVICE_HOST`] = '10.96.0.5';
    added[`${service}_SERVICE_PORT`] = '80';
    added[`${service}_SERVICE_PORT_HTTP`] = '80';
    added[`${service}_PORT`] = 'tcp://10.96.0.5:80';
    for (const end of ['', '_PROTO', '_PORT', '_ADDR']) added[`${service}_PORT_80_TCP${end}`] = 'x';
    added[`${service}_NAME`] = '/web/redirector';
    added[`${service}_ENV_NODE_VERSION`] = '22';
  }
  expect(unknownSettings(added)).toEqual([]);
  expect(unknownSettings({ REDIRECTOR_PORT: '80', INGEST_NAME: 'x' })).toHaveLength(2);
});

test('the file of a secret is a setting, that of another setting is not', () => {
  expect(unknownSettings({ OAUTH_GOOGLE_CLIENT_SECRET_FILE: '/x', REDIS_URL_FILE: '/x' })).toEqual([]);
  expect(unknownSettings({ REDIRECTOR_HOST_FILE: '/x' })).toHaveLength(1);
});
