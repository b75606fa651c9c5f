/** Exchange rates from a CSV file. */
import { isPlainDate } from '#common/storable-time.ts';
import type { AdminParts } from './accounts.ts';
import { type Refused, refused } from './refusal.ts';

const linesMax = 500_000;
/** Maximum rows of one statement. */
const lotSize = 10_000;
const keptYears = 10;

export interface StoredRates {
  readonly kind: 'stored';
  readonly rates: number;
  readonly days: number;
}

interface Rate {
  readonly day: string;
  readonly currency: string;
  readonly rate: string;
}

/** Stores all rates of the text, or none if a line is wrong. */
export async function setExchangeRates({ db }: Pick<AdminParts, 'db'>, text: string): Promise<StoredRates | Refused> {
  const lines = text.replace(/^\uFEFF/, '').split(/\r?\n/);
  if (lines.length > linesMax) return refused(`the file has more than ${linesMax} lines: split it`);
  const rates = new Map<string, Rate>();
  for (const [at, line] of lines.entries()) {
    if (line.trim() === '' || (at === 0 && line.trim().toLowerCase() === 'day,currency,rate')) continue;
    const rate = rateOf(line);
    if (!rate)
      return refused(`line ${at + 1} must be day,currency,rate, such as 2026-01-31,USD,0.92: ${line.slice(0, 80)}`);
    rates.set(`${rate.day} ${rate.currency}`, rate);
  }
  if (rates.size === 0) return refused('the file has no rates');
  const all = [...rates.values()];
  await db.transaction(async (queries) => {
    for (let from = 0; from < all.length; from += lotSize) {
      const lot = all.slice(from, from + lotSize);
      await queries.execute(
        `INSERT INTO exchange_rates (day, currency, rate) SELECT * FROM unnest($1::date[], $2::text[], $3::numeric[])
         ON CONFLICT (day, currency) DO UPDATE SET rate = excluded.rate`,
        [lot.map(({ day }) => day), lot.map(({ currency }) => currency), lot.map(({ rate }) => rate)],
      );
    }
    await queries.execute(
      'DELETE FROM exchange_rates WHERE day < signpost_deletion_time() - make_interval(years => $1)',
      [keptYears],
    );
  });
  return { kind: 'stored', rates: all.length, days: new Set(all.map(({ day }) => day)).size };
}

const shape = /^ *(\d{4}-\d{2}-\d{2}) *, *([A-Z]{3}) *, *(\d{1,20}(?:\.\d{1,15})?) *$/;

function rateOf(line: string): Rate | null {
  const [, day = '', currency = '', rate = ''] = shape.exec(line) ?? [];
  return isPlainDate(day) && /[1-9]/.test(rate) ? { day, currency, rate } : null;
}
