import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { cityData, mmdbFile } from '#testing/mmdb-file.ts';
import { type CountryDatabase, openCountryDatabase } from './country-database.ts';

let folder = '';
let places: CountryDatabase;

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'places-'));
  const file = join(folder, 'city.mmdb');
  writeFileSync(
    file,
    mmdbFile({
      '203.0.113.0/24': cityData('DE', { iso_code: 'BY', name: 'Bavaria' }, 'Munich'),
      '2001:db8:1::/48': cityData('FR', { iso_code: 'IDF', name: 'Île-de-France' }, 'Saint-Denis'),
      '198.51.100.0/25': cityData('DE', { name: 'Bavaria' }, 'Munich'),
      '198.51.100.128/25': { country: { iso_code: 'DE' } },
      '192.0.2.0/26': { city: 'Berlin', region: 'Berlin', country: 'DE' },
      '192.0.2.64/26': { city: { names: { de: 'München' } }, subdivisions: [], country: { iso_code: 'DE' } },
      '192.0.2.128/26': cityData('DE', { iso_code: 'B\0', name: 'x'.repeat(101) }, 'y'.repeat(101)),
      '192.0.2.192/26': { city: 7, subdivisions: 'BY', country: { iso_code: 'de' } },
    }),
  );
  places = openCountryDatabase(file);
});
afterAll(() => rmSync(folder, { recursive: true }));

test.each([
  ['203.0.113.9', 'DE', 'DE-BY', 'Munich'],
  ['2001:db8:1:2::3', 'FR', 'FR-IDF', 'Saint-Denis'],
  ['198.51.100.7', 'DE', 'Bavaria', 'Munich'],
  ['198.51.100.200', 'DE', '', ''],
  ['192.0.2.1', 'DE', 'Berlin', 'Berlin'],
  ['192.0.2.65', 'DE', '', ''],
  ['192.0.2.129', 'DE', '', ''],
  ['192.0.2.193', '', '', ''],
  ['8.8.8.8', '', '', ''],
])('a database with cities says where %s is: country %j, region %j, city %j', (ip, country, region, city) => {
  expect(places.placeOf(ip)).toEqual({ country, region, city });
  expect(places.countryOf(ip)).toBe(country);
});

test('the shipped database has countries, and neither regions nor cities', () => {
  expect(openCountryDatabase('').placeOf('8.8.8.8')).toEqual({ country: 'US', region: '', city: '' });
});
