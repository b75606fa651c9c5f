/**
 * Decimals with at most nine places, as whole numbers of their smallest unit. No library: amounts are only added and compared, which
 * BigInt does exactly in a few lines, and ingest scales the amount of every event with revenue.
 */
export const DECIMAL_PLACES = 9;

/** @param decimal digits, optionally with a minus sign and a fraction: `-12.5`. */
export function scaled(decimal: string, places = DECIMAL_PLACES): bigint {
  const [integer = '0', fraction = ''] = decimal.split('.');
  return BigInt(integer + fraction.slice(0, places).padEnd(places, '0'));
}

/** Without superfluous zeros. */
export function decimalText(value: bigint): string {
  const digits = (value < 0n ? -value : value).toString().padStart(DECIMAL_PLACES + 1, '0');
  const fraction = digits.slice(-DECIMAL_PLACES).replace(/0+$/, '');
  return `${value < 0n ? '-' : ''}${digits.slice(0, -DECIMAL_PLACES)}${fraction === '' ? '' : `.${fraction}`}`;
}

export function addDecimals(a: string, b: string): string {
  return decimalText(scaled(a) + scaled(b));
}

/** The quotient rounded to nine decimal places, halves away from zero. @param by a positive whole number. */
export function divided(decimal: string, by: number): string {
  return decimalText(quotient(scaled(decimal), BigInt(by)));
}

/** Rounded to the nearest whole number, halves away from zero. @param by positive. */
export function quotient(value: bigint, by: bigint): bigint {
  const half = value < 0n ? -by : by;
  return (2n * value + half) / (2n * by);
}
