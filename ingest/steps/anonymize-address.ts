/**
 * Columns of the IP address: as much of it as the app's privacy mode allows, and its location. Not cached: nearly all
 * clicks get these columns from `plain-clicks.ts`, which caches them by the bytes of the line.
 */
import { stringBytes } from '#clickhouse/row-binary.ts';
import { type CountryDatabase, nowhere } from '#common/country-database.ts';
import { normalizedIp, storedIp } from '#ingest/stored-address.ts';
import type { Step } from './step.ts';

export function anonymizeAddress(countries: CountryDatabase): Step<'anonymize_address'> {
  return {
    name: 'anonymize_address',
    columns: ['ip', 'country', 'region', 'city'],
    reads: ['ip', 'privacy_mode'],
    columnsOf: ({ ip: recorded, privacy_mode }) => {
      const ip = normalizedIp(recorded);
      const { country, region, city } = ip === '' ? nowhere : countries.placeOf(ip);
      return stringBytes(storedIp(ip, privacy_mode)) + stringBytes(country) + stringBytes(region) + stringBytes(city);
    },
  };
}
