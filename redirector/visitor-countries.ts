/** Countries of visitors' addresses, for links with rules by country. */
import { type CountryDatabase, openCountryDatabase } from '#common/country-database.ts';
import type { Countries } from '#common/redirect/compiled-rules.ts';

/** When the limit is reached, the map is cleared; addresses in use are cached again at their next visit. */
const addressesMax = 20_000;

export class VisitorCountries implements Countries {
  readonly #file: string;
  readonly #onFailure: (error: unknown) => void;
  readonly #known = new Map<string, string>();
  /** Null if the database can't be read. */
  #database: CountryDatabase | null | undefined;

  /** @param file GEOIP_DB; opened by the first visit that needs it, because most redirectors never do. */
  constructor(file: string, onFailure: (error: unknown) => void) {
    this.#file = file;
    this.#onFailure = onFailure;
  }

  countryOf(ip: string): string {
    let country = this.#known.get(ip);
    if (country === undefined) {
      country = ip === '' ? '' : (this.#open()?.countryOf(ip) ?? '');
      if (this.#known.size >= addressesMax) this.#known.clear();
      this.#known.set(ip, country);
    }
    return country;
  }

  #open(): CountryDatabase | null {
    if (this.#database === undefined) {
      try {
        this.#database = openCountryDatabase(this.#file);
      } catch (error) {
        this.#database = null;
        this.#onFailure(error);
      }
    }
    return this.#database;
  }
}
