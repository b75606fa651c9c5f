/**
 * `npm run admin -- update-geo`: a database of countries from the files that Debian's package tor-geoipdb has, which come
 * from the IPFire Location Database (CC BY-SA 4.0) and are renewed with each release of Tor.
 */
import { readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Command } from 'commander';
import ipaddr from 'ipaddr.js';
import { AdminError } from '#api/admin/questions.ts';
import { openCountryDatabase } from '#common/country-database.ts';
import type { ToolConfig } from '#common/process/config-roles.ts';
import { type CountryRange, countryFile } from './country-file.ts';

const source = '/usr/share/tor';
const description = 'Countries of networks. IPFire Location Database (https://location.ipfire.org), CC BY-SA 4.0';
/** Fewer mean that a file is empty or cut. */
const RANGES_MIN = 1_000;

export function addGeoCommand(program: Command, config: ToolConfig<'admin'>): void {
  program
    .command('update-geo')
    .description(
      "Write a database of countries for GEOIP_DB, from the files geoip and geoip6 of Debian's package tor-geoipdb (IPFire Location Database, CC BY-SA 4.0).",
    )
    .option('--from <folder>', 'the folder of geoip and geoip6', source)
    .option('--to <file>', 'the file to write', join(config.DATA_DIR, 'countries.mmdb'))
    .action(({ from, to }: { from: string; to: string }) => {
      const { ranges, builtAt } = updateGeo(from, to);
      console.log(`${to} has ${ranges} ranges of ${builtAt.toISOString().slice(0, 10)}.`);
      if (config.GEOIP_DB !== to) console.log(`Set GEOIP_DB=${to} for ingest, redirectors and the API.`);
      console.log('Processes read it when they start: restart them.');
    });
}

/** @throws AdminError if the files cannot be used; the database that is there is then unchanged. */
export function updateGeo(from: string, to: string): { readonly ranges: number; readonly builtAt: Date } {
  const ranges = [...rangesIn(join(from, 'geoip'), ipv4), ...rangesIn(join(from, 'geoip6'), ipv6)];
  if (ranges.length < RANGES_MIN)
    throw new AdminError(`${from} has only ${ranges.length} ranges of addresses: the files are not complete.`);
  const builtAt = statSync(join(from, 'geoip')).mtime;
  const draft = `${to}.new`;
  // What an interrupted run left, or another user: it is not followed if it is a link.
  rmSync(draft, { force: true });
  writeFileSync(draft, countryFile(ranges, description, builtAt), { flag: 'wx', mode: 0o600 });
  const [first] = ranges;
  const written = openCountryDatabase(draft);
  if (first && written.countryOf(addressOf(first.from)) !== first.country)
    throw new AdminError(`${draft} does not say what ${from} says. This is a fault of Signpost: please report it.`);
  renameSync(draft, to);
  return { ranges: ranges.length, builtAt };
}

/** Lines `from,to,country`; `??` is unknown, and A1 and others are no countries. */
function rangesIn(file: string, parse: (text: string) => bigint | null): CountryRange[] {
  let content: string;
  try {
    content = readFileSync(file, 'utf8');
  } catch {
    throw new AdminError(
      `${file} cannot be read: install it with 'apt install tor-geoipdb', or name its folder with --from.`,
    );
  }
  const ranges: CountryRange[] = [];
  for (const line of content.split('\n')) {
    if (line === '' || line.startsWith('#')) continue;
    const [low = '', high = '', country = ''] = line.split(',');
    const [from, to] = [parse(low), parse(high)];
    if (from === null || to === null || from > to)
      throw new AdminError(`${file}: ${line.slice(0, 80)} is no range of addresses.`);
    if (/^[A-Z]{2}$/.test(country)) ranges.push({ from, to, country });
  }
  return ranges;
}

function ipv4(text: string): bigint | null {
  return /^\d{1,10}$/.test(text) && Number(text) < 2 ** 32 ? BigInt(text) : null;
}

function ipv6(text: string): bigint | null {
  if (!ipaddr.IPv6.isValid(text)) return null;
  return BigInt(`0x${Buffer.from(ipaddr.IPv6.parse(text).toByteArray()).toString('hex')}`);
}

/** An IPv4 address as one, since the database has it at ::/96. */
function addressOf(value: bigint): string {
  const bytes = [...Buffer.from(value.toString(16).padStart(32, '0'), 'hex')];
  return ipaddr.fromByteArray(value < 2n ** 32n ? bytes.slice(12) : bytes).toString();
}
