/** Checks the contents behind settings before anything is started: keys, certificates, files, providers. */
import { closeSync, fstatSync, openSync, readSync } from 'node:fs';
import { parseSecretKeys } from '#common/encryption.ts';
import { readCertificates } from './certificate-files.ts';
import type { Config } from './settings.ts';

/** One sentence for each error; empty if there is none. Empty settings have no errors. */
export function contentFaults(config: Config): string[] {
  return [
    ...secretFaults(config),
    ...lostKeyFaults(config),
    ...readCertificates(config).faults,
    ...countryFaults(config),
    ...providerFaults(config),
  ];
}

const reasonOf = (error: unknown) => (error instanceof Error ? error.message : String(error));

function secretFaults({ SECRET_KEY }: Config): string[] {
  if (SECRET_KEY === '') return [];
  try {
    parseSecretKeys(SECRET_KEY);
    return [];
  } catch (error) {
    return [reasonOf(error)];
  }
}

function lostKeyFaults({ LOST_API_KEYS }: Config): string[] {
  if (/^(refuse|replace:\d+)$/.test(LOST_API_KEYS)) return [];
  return ['LOST_API_KEYS must be refuse, or replace: with the number of apps that get new keys, as npm start names it'];
}

/** Precedes the metadata, within the last 128 KiB (MaxMind DB file format specification 2.0). */
const metadataMark = Buffer.from('\xab\xcd\xefMaxMind.com', 'latin1');
const metadataBytesMax = 131_072;

function countryFaults({ GEOIP_DB }: Config): string[] {
  if (GEOIP_DB === '') return [];
  try {
    const file = openSync(GEOIP_DB, 'r');
    try {
      const tail = Buffer.alloc(Math.min(metadataBytesMax, fstatSync(file).size));
      readSync(file, tail, 0, tail.length, fstatSync(file).size - tail.length);
      return tail.includes(metadataMark) ? [] : [`GEOIP_DB is not a database in MaxMind's format: ${GEOIP_DB}`];
    } finally {
      closeSync(file);
    }
  } catch (error) {
    return [`GEOIP_DB cannot be read: ${reasonOf(error)}`];
  }
}

const isWebAddress = (text: string) => URL.canParse(text) && /^https?:$/.test(new URL(text).protocol);

function providerFaults(config: Config): string[] {
  const faults: string[] = [];
  const providers = { GOOGLE: ['OAUTH_GOOGLE_ISSUER'], GITHUB: ['OAUTH_GITHUB_URL', 'OAUTH_GITHUB_API_URL'] } as const;
  for (const name of ['GOOGLE', 'GITHUB'] as const) {
    if (config[`OAUTH_${name}_CLIENT_ID`] === '') continue;
    if (config[`OAUTH_${name}_CLIENT_SECRET`] === '') {
      faults.push(`OAUTH_${name}_CLIENT_ID is set and OAUTH_${name}_CLIENT_SECRET is not: set both or neither`);
    }
    if (config.OAUTH_REDIRECT_URIS.length === 0) {
      faults.push(
        `OAUTH_${name}_CLIENT_ID is set and OAUTH_REDIRECT_URIS is not: logins could not return. Set OAUTH_REDIRECT_URIS`,
      );
    }
    for (const url of providers[name]) {
      if (!isWebAddress(config[url])) faults.push(`${url} must be a URL, not ${JSON.stringify(config[url])}`);
    }
  }
  for (const uri of config.OAUTH_REDIRECT_URIS) {
    if (!URL.canParse(uri)) faults.push(`OAUTH_REDIRECT_URIS contains ${JSON.stringify(uri)}, which is not a URL`);
  }
  return faults;
}
