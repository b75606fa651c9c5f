/**
 * Money as an exact decimal: sums use exactly the amounts that were sent. Parsed without a library, because the gateway
 * does it for every event, and the rules concern digits (which numbers JSON represents exactly, how many fit the
 * column), not arithmetic.
 */
import { DECIMAL_PLACES } from './decimal.ts';

/** Digits before the decimal point that fit the column. */
const INTEGER_DIGITS_MAX = 29;
/** For an amount that is sent; a billion of the largest still fit the column. */
const SENT_DIGITS_MAX = 20;
const decimal = /^([+-]?)(\d+)(?:\.(\d+))?$/;

export interface Revenue {
  /** A normalized decimal: `-12.5`, `0`, `1999`. */
  readonly amount: string;
  /** ISO 4217, in upper case. */
  readonly currency: string;
}

export interface RevenueFault {
  readonly field: 'revenue' | 'revenue.amount' | 'revenue.currency';
  readonly message: string;
}

/** Whether an event is a conversion: it has revenue, or the app counts events of its name. A refund is not. */
export function isConversion(amount: string, name: unknown, conversionEvents: readonly unknown[]): boolean {
  if (amount.startsWith('-')) return false;
  return amount !== '' || conversionEvents.includes(name);
}

/**
 * Codes of ISO 4217 that ICU lacks: metals, funds, units of account, and the newest ones, except the codes for testing
 * and for no currency.
 */
const rareCurrencies =
  'XAG XAU XBA XBB XBC XBD XDR XPD XPT XSU XUA BOV CHE CHW CLF COU MXV USN UYI UYW SLE VED XAD XCG ZWG';
const currencies: ReadonlySet<string> = new Set([...Intl.supportedValuesOf('currency'), ...rareCurrencies.split(' ')]);

/** Reads `{amount, currency}` as an app sends it. */
export function readRevenue(value: object): Revenue | RevenueFault {
  const revenue = keptRevenue(value);
  if ('field' in revenue) return revenue;
  // An exact number with more places than are stored is rejected like the same text, not rounded.
  if ('amount' in value && typeof value.amount === 'number' && isExact(value.amount)) {
    if (Number(revenue.amount) !== value.amount) return { field: 'revenue.amount', message: notDecimal };
  }
  const digits = revenue.amount.replace('-', '').split('.', 1)[0]?.length ?? 0;
  if (digits > SENT_DIGITS_MAX) return { field: 'revenue.amount', message: notDecimal };
  return currencies.has(revenue.currency) ? revenue : { field: 'revenue.currency', message: notIso };
}

const notIso = 'must be an ISO 4217 code';
const notDecimal = 'must be a decimal with at most 20 digits before and 9 after the point; send long ones as text';

/**
 * Reads `{amount, currency}` from the log. Any three letters are accepted: lists of currencies change, stored ones stay
 * valid.
 */
export function keptRevenue(value: object): Revenue | RevenueFault {
  if (!('amount' in value)) return { field: 'revenue.amount', message: 'is required' };
  if (!('currency' in value)) return { field: 'revenue.currency', message: 'is required' };
  const amount = decimalOf(value.amount);
  if (amount === null) {
    return { field: 'revenue.amount', message: notDecimal };
  }
  const { currency } = value;
  if (typeof currency !== 'string' || !/^[A-Za-z]{3}$/.test(currency)) {
    return { field: 'revenue.currency', message: notIso };
  }
  return { amount, currency: currency.toUpperCase() };
}

/**
 * The intended decimal. A JSON number of up to 15 significant digits is parsed exactly (IEEE 754 double); rounding
 * errors of calculations with such numbers (0.1 + 0.2) are beyond the ninth decimal place and are rounded off. A number
 * that may have lost a significant digit is rejected and must be sent as text.
 */
export function decimalOf(value: unknown): string | null {
  if (typeof value === 'string') return normalised(value);
  if (typeof value !== 'number' || !Number.isFinite(value)) return null;
  if (Math.abs(value) >= 1e15) return null;
  const text = String(value);
  const mayBeRounded = !isExact(value);
  if (mayBeRounded && Math.abs(value) >= 1e6) return null;
  if (mayBeRounded || text.includes('e')) return normalised(value.toFixed(DECIMAL_PLACES));
  return normalised(text);
}

/** Whether a number has at most 15 significant digits, so that it is the decimal that was sent. */
function isExact(value: number): boolean {
  const digits = String(value)
    .replace(/^-?0*\.?0*/, '')
    .replace('.', '')
    .replace(/e.*$/, '');
  return digits.length <= 15;
}

function normalised(text: string): string | null {
  const match = decimal.exec(text);
  if (!match) return null;
  const integer = (match[2] ?? '').replace(/^0+(?=\d)/, '');
  const fraction = (match[3] ?? '').replace(/0+$/, '');
  if (integer.length > INTEGER_DIGITS_MAX || fraction.length > DECIMAL_PLACES) return null;
  const amount = fraction === '' ? integer : `${integer}.${fraction}`;
  return match[1] === '-' && amount !== '0' ? `-${amount}` : amount;
}
