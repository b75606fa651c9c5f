import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { generate } from 'selfsigned';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { newSecretKey } from '#common/encryption.ts';
import { loadConfig } from './config.ts';
import { contentFaults } from './config-contents.ts';

const folder = mkdtempSync(join(tmpdir(), 'signpost-config-'));
const place = (name: string) => join(folder, name);
const faultsOf = (env: Record<string, string>) => contentFaults(loadConfig([], env)).join('\n');

beforeAll(async () => {
  for (const name of ['one', 'other']) {
    const extensions = [{ name: 'basicConstraints' as const, cA: false }];
    const made = await generate([{ name: 'commonName', value: name }], { extensions, keyType: 'ec' });
    writeFileSync(place(`${name}.cert`), made.cert);
    writeFileSync(place(`${name}.key`), made.private);
  }
  writeFileSync(place('junk'), 'junk');
});
afterAll(() => rmSync(folder, { recursive: true }));

test('settings with valid contents have no errors, and neither do the defaults', () => {
  expect(faultsOf({})).toBe('');
  const oauth = {
    OAUTH_GITHUB_CLIENT_ID: 'a',
    OAUTH_GITHUB_CLIENT_SECRET: 'b',
    OAUTH_REDIRECT_URIS: 'https://a.example/back',
  };
  const tls = { TLS_CERT_FILE: place('one.cert'), TLS_KEY_FILE: place('one.key') };
  expect(faultsOf({ ...oauth, ...tls, SECRET_KEY: newSecretKey('a') })).toBe('');
});

test.each<[Record<string, string>, string]>([
  [{ SECRET_KEY: 'a:c2hvcnQ=' }, 'key a of SECRET_KEY is not base64 of 32 bytes'],
  [{ TLS_CERT_FILE: place('one.cert') }, 'TLS_CERT_FILE is set and TLS_KEY_FILE is not'],
  [{ TLS_CERT_FILE: place('none'), TLS_KEY_FILE: place('one.key') }, 'TLS_CERT_FILE cannot be read'],
  [{ TLS_CERT_FILE: place('one.cert'), TLS_KEY_FILE: place('junk') }, 'TLS_KEY_FILE is not a private key'],
  [{ TLS_CERT_FILE: place('one.cert'), TLS_KEY_FILE: place('other.key') }, 'not the private key of the certificate'],
  [{ TLS_CERT_FILE: `${place('one.cert')},${place('other.cert')}`, TLS_KEY_FILE: place('one.key') }, 'names 2 files'],
  [
    {
      TLS_CERT_FILE: `${place('one.cert')},${place('other.cert')}`,
      TLS_KEY_FILE: `${place('one.key')},${place('other.key')}`,
    },
    'has no DNS name',
  ],
  [{ GEOIP_DB: place('none') }, 'GEOIP_DB cannot be read'],
  [{ GEOIP_DB: place('junk') }, 'GEOIP_DB is not a database'],
  [{ OAUTH_GOOGLE_CLIENT_ID: 'a', OAUTH_REDIRECT_URIS: 'https://a.example/' }, 'OAUTH_GOOGLE_CLIENT_SECRET is not'],
  [{ OAUTH_GITHUB_CLIENT_ID: 'a', OAUTH_GITHUB_CLIENT_SECRET: 'b' }, 'OAUTH_REDIRECT_URIS is not'],
  [{ OAUTH_REDIRECT_URIS: 'nowhere' }, 'OAUTH_REDIRECT_URIS contains "nowhere"'],
])('%o is reported', (env, sentence) => {
  expect(faultsOf(env)).toContain(sentence);
});
