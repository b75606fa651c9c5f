import {
  existsSync,
  lstatSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { dateOfCountries, openCountryDatabase } from '#common/country-database.ts';
import { updateGeo } from './update-geo.ts';

let folder = '';
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'signpost-geo-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

const FIRST = 20 * 2 ** 24;
const COUNTRIES = ['DE', 'FR', '??', 'US', 'A1'];
const RANGES = 2_000;
const addressOf = (value: number) => [24, 16, 8, 0].map((shift) => (value >>> shift) & 255).join('.');
const target = () => join(folder, 'countries.mmdb');

/** Ranges of 900 addresses, with gaps of 100, so that none is a network. */
function write(v4: readonly string[] = [], v6: readonly string[] = []): void {
  const ranges = Array.from({ length: RANGES }, (_, at) => {
    const from = FIRST + at * 1_000;
    return `${from},${from + 899},${COUNTRIES[at % COUNTRIES.length]}`;
  });
  writeFileSync(join(folder, 'geoip'), `# comment\n${[...ranges, ...v4].join('\n')}\n`);
  writeFileSync(
    join(folder, 'geoip6'),
    `${['2001:200::,2001:200:ffff:ffff:ffff:ffff:ffff:ffff,JP', '2001:db8::5,2001:db8::9,SE', ...v6].join('\n')}\n`,
  );
  utimesSync(join(folder, 'geoip'), new Date('2026-10-01'), new Date('2026-10-01'));
}

test('every address at an edge of a range has the country of the range, and addresses between ranges have none', () => {
  write();
  updateGeo(folder, target());
  const { countryOf } = openCountryDatabase(target());
  for (let at = 0; at < RANGES; at++) {
    const name = COUNTRIES[at % COUNTRIES.length] ?? '';
    const country = /^[A-Z]{2}$/.test(name) ? name : '';
    for (const offset of [0, 1, 450, 899]) expect(countryOf(addressOf(FIRST + at * 1_000 + offset))).toBe(country);
    for (const offset of [900, 999]) expect(countryOf(addressOf(FIRST + at * 1_000 + offset))).toBe('');
  }
  const v6 = [
    '2001:200::',
    '2001:200:ffff::1',
    '2001:201::',
    '2001:db8::4',
    '2001:db8::5',
    '2001:db8::9',
    '2001:db8::a',
  ];
  expect(v6.map(countryOf)).toEqual(['JP', 'JP', '', '', 'SE', 'SE', '']);
});

test('a link that another user has put beside the database is not followed', () => {
  write();
  writeFileSync(join(folder, 'mine'), 'mine');
  symlinkSync(join(folder, 'mine'), `${target()}.new`);
  updateGeo(folder, target());
  expect(readFileSync(join(folder, 'mine'), 'utf8')).toBe('mine');
  expect(lstatSync(target()).isFile()).toBe(true);
});

test('the database names its source and license, has the date of the data, and only its owner reads it', () => {
  write();
  updateGeo(folder, target());
  expect(readFileSync(target(), 'latin1')).toContain('CC BY-SA 4.0');
  expect(dateOfCountries(target())).toBe('2026-10-01T00:00:00.000Z');
  expect(statSync(target()).mode & 0o777).toBe(0o600);
  expect(existsSync(`${target()}.new`)).toBe(false);
});

test.each([
  ['a line that is no range', () => write(['5,4,DE']), 'is no range of addresses'],
  ['an address that is none', () => write([], ['2001:xyz::,2001:db9::,DE']), 'is no range of addresses'],
  ['few ranges', () => writeFileSync(join(folder, 'geoip'), '1,2,DE\n'), 'the files are not complete'],
  ['a missing file', () => rmSync(join(folder, 'geoip6')), 'apt install tor-geoipdb'],
])('%s leaves the database that is there', (_, spoil, text) => {
  write();
  writeFileSync(target(), 'before');
  spoil();
  expect(() => updateGeo(folder, target())).toThrow(text);
  expect(readFileSync(target(), 'utf8')).toBe('before');
});

test('the date of a database that cannot be read is null', () => {
  expect(dateOfCountries(join(folder, 'none'))).toBeNull();
});
