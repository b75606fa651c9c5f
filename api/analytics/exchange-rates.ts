/**
 * Converts revenue into one currency, at rates that the operator uploaded: for each currency, the newest rate on or
 * before the end of the range, at most a month old. An amount without such a rate stays in its own currency.
 */
import { Type } from 'typebox';
import { DECIMAL_PLACES, decimalText, quotient, scaled } from '#common/decimal.ts';
import { invalid, type Rejection } from '#common/http/rejection.ts';
import type { Queries } from '#common/stores/postgres.ts';
import { byCurrency, type ShowAmounts } from './metrics.ts';

const ageDaysMax = 31;
const ratePlaces = 15;

export interface ExchangeRate {
  readonly currency: string;
  readonly day: string;
  /** The value of one unit, in the same reference unit for all currencies. */
  readonly rate: string;
}

/** The newest usable rate of each currency on a day (2026-01-31). */
export type ExchangeRates = (day: string) => Promise<readonly ExchangeRate[]>;

export function exchangeRatesFrom(db: Queries): ExchangeRates {
  const sql = `SELECT DISTINCT ON (currency) currency, day::text, rate::text FROM exchange_rates
    WHERE day <= $1::date AND day > $1::date - ${ageDaysMax} ORDER BY currency, day DESC`;
  return (day) => db.query<ExchangeRate>(sql, [day]);
}

export const conversionSchema = Type.Object(
  {
    currency: Type.String(),
    rates: Type.Array(
      Type.Object({
        currency: Type.String(),
        day: Type.String(),
        rate: Type.String({
          description: 'Units of the requested currency for one unit of this currency, rounded to nine decimal places.',
        }),
      }),
      { description: 'The rates that were used.' },
    ),
    missing: Type.Array(Type.String(), {
      description:
        'Currencies without a rate in the month up to the end of the range. Their amounts are not converted.',
    }),
  },
  { title: 'Conversion', description: 'Only with `currency`.' },
);

export const currencyQuery = Type.Optional(
  Type.String({
    pattern: '^[A-Z]{3}$',
    maxLength: 3,
    examples: ['EUR'],
    description:
      'Converts revenue into this currency (ISO 4217) at the rates that the operator uploaded. Default: amounts are shown in their own currencies.',
  }),
);

interface UsedRate extends ExchangeRate {
  readonly scaledRate: bigint;
}

/** Converts amounts, and records the rates that it used. */
export class Conversion {
  readonly #target: UsedRate;
  readonly #rates: ReadonlyMap<string, UsedRate>;
  readonly #used = new Map<string, UsedRate>();
  readonly #missing = new Set<string>();

  private constructor(target: UsedRate, rates: ReadonlyMap<string, UsedRate>) {
    this.#target = target;
    this.#rates = rates;
  }

  /** @param endMs the end of the range, epoch milliseconds. */
  static async to(currency: string, endMs: number, rates: ExchangeRates): Promise<Conversion | Rejection> {
    const day = new Date(Math.max(0, endMs - 1)).toISOString().slice(0, 10);
    const known = (await rates(day)).map((one) => ({ ...one, scaledRate: scaled(one.rate, ratePlaces) }));
    const byCode = new Map(known.map((one) => [one.currency, one]));
    const target = byCode.get(currency);
    if (target) return new Conversion(target, byCode);
    return invalid(
      'currency',
      `there is no exchange rate for ${currency} on ${day} or in the month before: an operator can upload rates with npm run admin -- set-exchange-rates`,
    );
  }

  readonly convert: ShowAmounts = (amounts) => {
    const sums = new Map<string, bigint>();
    for (const { currency, amount } of amounts) {
      const { name, value } = this.#converted(currency, scaled(amount));
      sums.set(name, (sums.get(name) ?? 0n) + value);
    }
    return [...sums].map(([currency, value]) => ({ currency, amount: decimalText(value) })).sort(byCurrency);
  };

  get answer(): object {
    const target = this.#target;
    return {
      currency: target.currency,
      rates: [...this.#used.values()].sort(byCode).map(({ currency, day, scaledRate }) => ({
        currency,
        day,
        rate: decimalText(quotient(scaledRate * 10n ** BigInt(DECIMAL_PLACES), target.scaledRate)),
      })),
      missing: [...this.#missing].sort(),
    };
  }

  #converted(currency: string, value: bigint): { name: string; value: bigint } {
    const target = this.#target;
    if (currency === target.currency) return { name: currency, value };
    const rate = this.#rates.get(currency);
    if (!rate) {
      this.#missing.add(currency);
      return { name: currency, value };
    }
    this.#used.set(currency, rate);
    return { name: target.currency, value: quotient(value * rate.scaledRate, target.scaledRate) };
  }
}

const byCode = (a: { currency: string }, b: { currency: string }) => (a.currency < b.currency ? -1 : 1);

/** The field of an answer that lists the rates of its conversion. */
export function conversionField(conversion: Conversion | undefined): object {
  return conversion === undefined ? {} : { conversion: conversion.answer };
}
