/** Columns of the IP address: as much of it as the app's privacy mode allows, and where it is. */
import { type ByteText, stringBytes } from '#clickhouse/row-binary.ts';
import { BoundedMap } from '#common/bounded-map.ts';
import { type CountryDatabase, nowhere } from '#common/country-database.ts';
import type { PrivacyMode } from '#common/log/record.ts';
import { normalizedIp, storedIp } from '#ingest/stored-address.ts';
import type { Step } from './step.ts';

interface AddressColumns {
  readonly byMode: Record<PrivacyMode, ByteText>;
  readonly bytes: number;
  isUsed: boolean;
}

const addressesMax = 100_000;
const bytesMax = 64_000_000;
/** Bytes of an entry beside its texts. */
const entryBytes = 300;

export function anonymizeAddress(countries: CountryDatabase): Step<'anonymize_address'> {
  const known = new BoundedMap<AddressColumns>(addressesMax, bytesMax);
  return {
    name: 'anonymize_address',
    columns: ['ip', 'country', 'region', 'city'],
    reads: ['ip', 'privacy_mode'],
    columnsOf: ({ ip, privacy_mode }) => {
      let address = known.get(ip);
      if (address === undefined) {
        address = encode(ip, countries);
        known.set(ip, address);
      }
      return address.byMode[privacy_mode];
    },
  };
}

function encode(text: string, countries: CountryDatabase): AddressColumns {
  const ip = normalizedIp(text);
  const { country, region, city } = ip === '' ? nowhere : countries.placeOf(ip);
  const place = stringBytes(country) + stringBytes(region) + stringBytes(city);
  const encoded = (mode: PrivacyMode) => stringBytes(storedIp(ip, mode)) + place;
  const byMode = {
    anonymize_ip: encoded('anonymize_ip'),
    full_ip: encoded('full_ip'),
    no_ip: encoded('no_ip'),
  };
  return { byMode, bytes: entryBytes + 5 * text.length + 3 * place.length, isUsed: false };
}
