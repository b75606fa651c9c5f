/** A copy of a postback from Apple, as it is stored, and the parser of its fields. */

export const adFrameworks = ['skadnetwork', 'adattributionkit'] as const;
export type AdFramework = (typeof adFrameworks)[number];

/**
 * `development`: Apple signed it, but for a test. `bad_signature`: not signed by the key that it names, or changed
 * afterwards. `unknown_key`, `unknown_version`: the signature could not be checked.
 */
export type UnverifiedReason = 'development' | 'bad_signature' | 'unknown_key' | 'unknown_version';

export interface AdPostback {
  readonly framework: AdFramework;
  /** The advertised app in the App Store. */
  readonly app_store_id: string;
  readonly transaction_id: string;
  readonly sequence_index: number;
  readonly unverified_reason: UnverifiedReason | null;
  readonly version: string | null;
  readonly ad_network_id: string | null;
  readonly campaign_id: number | null;
  readonly source_identifier: string | null;
  readonly source_app_id: string | null;
  readonly source_domain: string | null;
  readonly marketplace_id: string | null;
  readonly conversion_type: string | null;
  readonly did_win: boolean | null;
  readonly fidelity_type: number | null;
  readonly ad_interaction_type: string | null;
  /** Apple does not sign the conversion values and the country. */
  readonly conversion_value: number | null;
  readonly coarse_conversion_value: string | null;
  readonly country_code: string | null;
}

/** Reads the fields of a message. A field with an invalid value makes the message invalid. */
export class PostbackFields {
  isValid = true;
  readonly #fields: Readonly<Record<string, unknown>>;

  constructor(fields: Readonly<Record<string, unknown>>) {
    this.#fields = fields;
  }

  text(name: string, form: RegExp): string | null {
    const value = this.#fields[name];
    return typeof value === 'string' && form.test(value) ? value : this.#none(value);
  }

  flag(name: string): boolean | null {
    const value = this.#fields[name];
    return typeof value === 'boolean' ? value : this.#none(value);
  }

  whole(name: string, max: number): number | null {
    const value = this.#fields[name];
    return typeof value === 'number' && Number.isInteger(value) && value >= 0 && value <= max
      ? value
      : this.#none(value);
  }

  /** An id in the App Store: a number, or its digits as text. */
  storeId(name: string): string | null {
    const value = this.#fields[name];
    const digits = typeof value === 'number' && Number.isSafeInteger(value) ? String(value) : value;
    return typeof digits === 'string' && /^\d{1,20}$/.test(digits) ? digits : this.#none(value);
  }

  #none(value: unknown): null {
    if (value !== undefined && value !== null) this.isValid = false;
    return null;
  }
}

export const name = /^[\w.:-]{1,100}$/;
export const transactionId = /^[\w-]{1,64}$/;
export const sourceIdentifier = /^\d{1,4}$/;
export const coarseValue = /^(?:low|medium|high)$/;
export const countryCode = /^[A-Z]{2}$/;
export const CONVERSION_VALUE_MAX = 63;
export const SEQUENCE_INDEX_MAX = 2;
