import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { ConfigError, loadConfig } from './config.ts';
import { type ProcessRole, settingsOfRole, settingsOfTool } from './config-roles.ts';
import { urlsIn } from './url-list.ts';

test('all errors are reported at once, and no secret is shown', () => {
  let faults: readonly string[] = [];
  try {
    loadConfig(['NATS_URL'], { API_PORT: 'x', DATABASE_URL: 'http://user:hush@host', LOG_LEVEL: 'loud' });
  } catch (error) {
    if (error instanceof ConfigError) faults = error.faults;
  }
  expect(faults.map((fault) => fault.split(' ')[0])).toEqual(['LOG_LEVEL', 'DATABASE_URL', 'API_PORT', 'NATS_URL']);
  expect(faults.join()).not.toContain('hush');
});

test('an absent setting has its default, and empty text counts as absent', () => {
  expect(loadConfig([], { API_PORT: '' })).toMatchObject({ API_PORT: 8443, DATA_DIR: '.data', CORS_ORIGINS: [] });
});

test.each([
  ['TRUSTED_PROXIES', '10.0.0.0/8, foo', '10.0.0.0/8, ::1', ['10.0.0.0/8', '::1']],
  ['TRUSTED_PROXIES', '10.0.0.0/99', '192.0.2.1', ['192.0.2.1']],
  ['CORS_ORIGINS', 'nope', 'https://dash.example', ['https://dash.example']],
  ['CORS_ORIGINS', 'https://dash.example/', 'http://localhost:3000', ['http://localhost:3000']],
  ['CORS_ORIGINS', '*', 'capacitor://localhost', ['capacitor://localhost']],
  ['MACHINE_NAME', 'edge/7', 'edge-7.eu', 'edge-7.eu'],
  ['SHORT_LINK_DOMAIN', 'bad domain', 'Go.Example.com', 'go.example.com'],
  ['SHORT_LINK_DOMAIN', '127.0.0.1', 'localhost', 'localhost'],
  ['SHORT_LINK_DOMAIN', 'https://go.example.com', 'go.example.com', 'go.example.com'],
  ['API_PUBLIC_URL', 'zzz', 'https://api.example.com/v1', 'https://api.example.com/v1'],
  ['API_PUBLIC_URL', 'https://api.example.com/v1/', 'http://localhost:8080/links/v1', 'http://localhost:8080/links/v1'],
])('%s=%s is a fault, %s is valid', (name, bad, good, value) => {
  expect(() => loadConfig([], { [name]: bad })).toThrow(
    new RegExp(`${name} must .*, not ${JSON.stringify(bad).replace(/[*.]/g, '\\$&')}$`),
  );
  expect(loadConfig([], { [name]: good })).toMatchObject({ [name]: value });
});

test('several servers are separated by commas, each of them is checked, and no password is shown', () => {
  const given = 'nats://u:a%2Cb@one:4222, nats://u:a%2Cb@two:4222';
  expect(loadConfig([], { NATS_URL: given })).toMatchObject({ NATS_URL: given.replace(' ', '') });
  expect(urlsIn(given)).toEqual(['nats://u:a%2Cb@one:4222', 'nats://u:a%2Cb@two:4222']);
  const load = () => loadConfig([], { NATS_URL: 'nats://one:4222,http://u:hush@two' });
  expect(load).toThrow(/NATS_URL must be a URL with nats or tls:\/\//);
  expect(load).not.toThrow(/hush/);
});

const readBy = { ...settingsOfRole, ...settingsOfTool };

test.each(Object.keys(readBy) as (keyof typeof readBy)[])(
  '%s does not refuse a setting that it does not read, such as the API_PORT that Kubernetes sets for a Service api',
  (reader) => {
    const env = {
      API_PORT: 'tcp://10.96.0.5:80',
      JOURNAL_SYNC: 'x',
      SMTP_URL: 'x',
      LEASE_SECONDS: 'x',
      OAUTH_SIGNUP: 'x',
    };
    const refused = Object.keys(env).filter((name) => readBy[reader].some((read) => read === name));
    const load = () => loadConfig([], env, readBy[reader]);
    if (refused.length === 0) expect(load()).toMatchObject({ API_PORT: 8443, LEASE_SECONDS: 6 });
    else expect(faultsOf(load).map((fault) => fault.split(' ')[0])).toEqual(expect.arrayContaining(refused));
    if (refused.length > 0) expect(faultsOf(load)).toHaveLength(refused.length);
  },
);

test('a port that Kubernetes set for a Service is refused with the way out', () => {
  expect(faultsOf(() => loadConfig([], { METRICS_PORT: 'tcp://10.96.0.5:80' })).join()).toContain(
    'set enableServiceLinks: false',
  );
});

test.each([
  ['redis+sentinel://one:26379,two:26379/main', /one primary: Sentinel and Cluster are not supported/],
  ['redis-sentinel://one:26379', /Use an address that follows the primary/],
  ['redis://one:6379,redis://two:6379', /one primary/],
  ['rediss+cluster://one:6379', /one primary/],
  ['unix:///run/redis/redis.sock', /Unix socket is not supported, use a port/],
  ['redis+unix:///run/redis.sock', /Unix socket/],
  ['/run/redis/redis.sock', /Unix socket/],
  ['http://one', /must be a URL with redis or rediss:/],
])('REDIS_URL=%s is refused with what to do', (given, sentence) => {
  expect(faultsOf(() => loadConfig([], { REDIS_URL: given }))).toEqual([expect.stringMatching(sentence)]);
});

test('a secret is read from its file, and the settings of each process have one for each of its secrets', () => {
  const path = secretFile('redis://:hush@cache:6379/0\n');
  expect(loadConfig(['REDIS_URL'], { REDIS_URL_FILE: path })).toMatchObject({
    REDIS_URL: 'redis://:hush@cache:6379/0',
  });
  for (const role of Object.keys(settingsOfRole) as ProcessRole[]) {
    const env = { ADDRESS_KEY_FILE: '/none', SECRET_KEY_FILE: '/none', NATS_URL_FILE: '/none', SMTP_URL_FILE: '/none' };
    const read = [...new Set(settingsOfRole[role].filter((name) => `${name}_FILE` in env))];
    const faults = read.length === 0 ? [] : faultsOf(() => loadConfig([], env, settingsOfRole[role]));
    expect(faults.map((fault) => fault.split(' ')[0]).sort()).toEqual(read.map((name) => `${name}_FILE`).sort());
  }
});

test.each([
  ['is not there', () => '/none/secret', /^ADDRESS_KEY_FILE cannot be read: ENOENT/],
  ['is empty', () => secretFile('\n'), /^ADDRESS_KEY_FILE: .* is empty$/],
  ['is a large file', () => secretFile('x'.repeat(70_000)), /^ADDRESS_KEY_FILE: .* is larger than 65536 bytes$/],
  ['is too short a secret', () => secretFile('hush'), /^ADDRESS_KEY must have at least 32 characters$/],
])('a file of a secret that %s is one sentence without the secret', (_what, path, sentence) => {
  expect(faultsOf(() => loadConfig([], { ADDRESS_KEY_FILE: path() }))).toEqual([expect.stringMatching(sentence)]);
});

test('a secret that is given twice is refused, and only secrets have files', () => {
  const path = secretFile('x');
  const twice = () => loadConfig([], { SECRET_KEY: 'y', SECRET_KEY_FILE: path });
  expect(faultsOf(twice)).toEqual(['SECRET_KEY and SECRET_KEY_FILE are both set: set one of them']);
  expect(loadConfig([], { SECRET_KEY: '', SECRET_KEY_FILE: path }).SECRET_KEY).toBe('x');
  expect(loadConfig([], { INSTANCE_FILE: path }).INSTANCE).toBe('');
});

function faultsOf(load: () => unknown): readonly string[] {
  try {
    load();
  } catch (error) {
    if (error instanceof ConfigError) return error.faults;
    throw error;
  }
  throw new Error('the settings are valid');
}

function secretFile(content: string): string {
  const folder = mkdtempSync(join(tmpdir(), 'machine-secret-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const path = join(folder, 'secret');
  writeFileSync(path, content);
  chmodSync(path, 0o400);
  return path;
}
