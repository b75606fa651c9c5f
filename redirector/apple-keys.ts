/**
 * The public keys with which Apple signs postbacks, from its documentation: "Verifying an install-validation postback"
 * (StoreKit) and "Verifying a postback" (AdAttributionKit). An operator can add keys and replace these.
 */
import { createPublicKey, type KeyObject } from 'node:crypto';

const p256 = (point: string) => `MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE${point}`;
const production = p256('Wdp8GPcGqmhgzEFj9Z2nSpQVddayaPe4FMzqM9wib1+aHaaIzoHoLN9zW4K8y4SPykE3YVK3sVqW6Af0lfx3gg==');

/** Our name for the key of SKAdNetwork postbacks, which do not name their key. */
export const SKADNETWORK_KEY = 'skadnetwork';
/** The key for version 2.0. */
export const SKADNETWORK_2_0_KEY = 'skadnetwork/2.0';

const published: Readonly<Record<string, string>> = {
  [SKADNETWORK_KEY]: production,
  [SKADNETWORK_2_0_KEY]:
    'MEkwEwYHKoZIzj0CAQYIKoZIzj0DAQEDMgAEMyHD625uvsmGq4C43cQ9BnfN2xslVT5V1nOmAMP6qaRRUll3PB1JYmgSm+62sosG',
  'apple-cas-identifier/0': production,
  'apple-development-identifier/0': p256(
    'LeEDzpJEP+/qRSE5hJVC1p1J0ssUnQGMzBBbvnACBok8OVGGLgxL0myrKiy6lvRtSlLRsWit87i+vftD8AEqeQ==',
  ),
  'apple-development-identifier/1': p256(
    '8YzdO7eM97s/IJ25kdW5CZ3A14USE5IJ5Ha/vhWaxI6UBI1ZxCEvjrKxVluVGe6qWwF1BDFq+QHqKfH5u+wxHQ==',
  ),
};

export type AppleKeys = ReadonlyMap<string, KeyObject>;

/** @param more entries of the form `name=key`, as in APPLE_ATTRIBUTION_KEYS. */
export function appleKeys(more: readonly string[] = []): AppleKeys {
  const own = more.map((entry): [string, string] => {
    const mark = entry.indexOf('=');
    return [entry.slice(0, mark), entry.slice(mark + 1)];
  });
  return new Map([...Object.entries(published), ...own].map(([name, text]) => [name, keyOf(text)]));
}

function keyOf(text: string): KeyObject {
  return createPublicKey({ key: Buffer.from(text, 'base64'), format: 'der', type: 'spki' });
}

/** Anyone with a phone in developer mode can get postbacks signed with such a key. */
export function isDevelopmentKey(name: string): boolean {
  return name.startsWith('apple-development-identifier/');
}
