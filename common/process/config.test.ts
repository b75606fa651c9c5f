import { expect, test } from 'vitest';
import { ConfigError, loadConfig } from './config.ts';
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
