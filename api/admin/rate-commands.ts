/** `npm run admin`: exchange rates. */
import { readFileSync } from 'node:fs';
import type { Command } from 'commander';
import type { AdminContext } from './admin-context.ts';
import { setExchangeRates } from './exchange-rates.ts';
import { AdminError, done } from './questions.ts';

export function addRateCommands(program: Command, context: AdminContext): void {
  program
    .command('set-exchange-rates')
    .description(
      'Store the rates at which statistics convert revenue. Each line of the CSV file is day,currency,rate (2026-01-31,USD,0.92): the value of one unit, in the same unit for all currencies of a day, which has the rate 1. Rates of the same day and currency are replaced.',
    )
    .argument('<file>', 'a CSV file; - for standard input')
    .action(async (file: string) => {
      const stored = done(await setExchangeRates(context.parts(), textOf(file)));
      context.print(`${stored.rates} rates are stored, of ${stored.days} days.`);
    });
}

function textOf(file: string): string {
  try {
    return readFileSync(file === '-' ? 0 : file, 'utf8');
  } catch (error) {
    throw new AdminError(`${file} cannot be read: ${error instanceof Error ? error.message : String(error)}`);
  }
}
