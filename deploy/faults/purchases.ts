/** Events with sums that are known in advance, to the last digit: everything in an event is derived from its number. */

/** Amounts are counted in billionths, the precision in which they are stored. */
const billionths = 1_000_000_000n;
const names = ['purchase', 'refund', 'level_up', 'search', 'share'] as const;
const currencies = ['EUR', 'USD', 'JPY', 'KWD'] as const;
const secondsBack = 36 * 3_600;

export interface Sums {
  readonly events: number;
  readonly conversions: number;
  readonly byName: Readonly<Record<string, number>>;
  readonly byLink: Readonly<Record<string, number>>;
  /** By currency, as the API writes decimals. */
  readonly revenue: Readonly<Record<string, string>>;
}

export class Purchases {
  readonly #tag: string;
  readonly #linkIds: readonly string[];
  readonly #newestMs: number;

  /** @param tag prefix of every event_id. */
  constructor(tag: string, linkIds: readonly string[], newestMs: number) {
    this.#tag = tag;
    this.#linkIds = linkIds;
    this.#newestMs = newestMs;
  }

  event(number: number): object {
    const revenue = amountOf(number);
    return {
      event_id: `${this.#tag}-${number}`,
      name: nameOf(number),
      device_id: `device-${number % 5_000}`,
      link_id: this.#linkOf(number),
      timestamp: this.#newestMs - (mixed(number, 3) % secondsBack) * 1_000,
      ...(revenue === null ? {} : { revenue: { amount: decimal(revenue), currency: currencyOf(number) } }),
    };
  }

  /** What events 1 to `count` add up to if each is counted once. */
  sums(count: number): Sums {
    const byName: Record<string, number> = {};
    const byLink: Record<string, number> = {};
    const revenue = new Map<string, bigint>();
    let conversions = 0;
    for (let number = 1; number <= count; number++) {
      const [name, link, amount] = [nameOf(number), this.#linkOf(number), amountOf(number)];
      byName[name] = (byName[name] ?? 0) + 1;
      byLink[link] = (byLink[link] ?? 0) + 1;
      if (amount === null) continue;
      // A refund is revenue but not a conversion.
      if (amount >= 0n) conversions++;
      revenue.set(currencyOf(number), (revenue.get(currencyOf(number)) ?? 0n) + amount);
    }
    const amounts = [...revenue].map(([currency, amount]) => [currency, decimal(amount)] as const);
    return { events: count, conversions, byName, byLink, revenue: Object.fromEntries(amounts) };
  }

  #linkOf(number: number): string {
    return this.#linkIds[mixed(number, 1) % this.#linkIds.length] ?? '';
  }
}

function nameOf(number: number): string {
  return names[mixed(number, 2) % names.length] ?? '';
}

function currencyOf(number: number): string {
  return currencies[mixed(number, 4) % currencies.length] ?? '';
}

/** Cents, yen, nine decimal places, sums that no double can hold, refunds; null for two names without revenue. */
function amountOf(number: number): bigint | null {
  const size = BigInt(mixed(number, 5));
  switch (nameOf(number)) {
    case 'purchase':
      return number % 1_000 === 0 ? size * billionths * 10_000_000_000n + 1n : size * 10_000_000n;
    case 'refund':
      return -(size * 10_000_000n);
    case 'level_up':
      return currencyOf(number) === 'JPY' ? (size % 100_000n) * billionths : size;
    default:
      return null;
  }
}

/** Decimals of at most nine places, added exactly. */
export function sumOf(a: string, b: string): string {
  const scaled = (text: string) => {
    const [whole = '0', fraction = ''] = text.replace('-', '').split('.');
    const value = BigInt(whole + fraction.padEnd(9, '0'));
    return text.startsWith('-') ? -value : value;
  };
  return decimal(scaled(a) + scaled(b));
}

/** Without superfluous zeros: `-12.5`. */
function decimal(amount: bigint): string {
  const digits = (amount < 0n ? -amount : amount).toString().padStart(10, '0');
  const fraction = digits.slice(-9).replace(/0+$/, '');
  return `${amount < 0n ? '-' : ''}${digits.slice(0, -9)}${fraction === '' ? '' : `.${fraction}`}`;
}

/** Maps a number to another one below 2^24, without a pattern that batches would share (murmur's finalizer). */
function mixed(number: number, salt: number): number {
  let value = Math.imul(number ^ (salt * 0x9e3779b1), 0x85ebca6b);
  value = Math.imul(value ^ (value >>> 13), 0xc2b2ae35);
  return (value ^ (value >>> 16)) >>> 8;
}
