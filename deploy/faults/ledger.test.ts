/** Checks how the ledger compares answers with stored records. */
import { expect, test } from 'vitest';
import { Ledger } from './ledger.ts';

function ledgerOf(...answers: readonly ('kept' | 'refused' | 'none')[]): Ledger {
  const ledger = new Ledger();
  for (const answer of answers) {
    const number = ledger.open();
    if (answer !== 'none') ledger.settle(number, answer);
  }
  return ledger;
}
const once = (...numbers: number[]) => new Map(numbers.map((number) => [number, 1]));

test.each([
  ['accepted records that are stored once are right', ledgerOf('kept', 'kept'), once(1, 2), [0, 0, 0]],
  ['an accepted record that is missing is lost', ledgerOf('kept', 'kept', 'kept'), once(2), [2, 0, 0]],
  ['a record without an answer may be stored', ledgerOf('none'), once(1), [0, 0, 0]],
  ['a record without an answer may be missing', ledgerOf('none'), once(), [0, 0, 0]],
  ['a record without an answer may not be stored twice', ledgerOf('none'), new Map([[1, 2]]), [0, 1, 0]],
  ['a record that is stored three times has two duplicates', ledgerOf('kept'), new Map([[1, 3]]), [0, 2, 0]],
  ['a refused record that is stored is a phantom', ledgerOf('refused'), once(1), [0, 0, 1]],
  ['a record that is stored but was never sent is a phantom', ledgerOf('kept'), once(1, 7), [0, 0, 1]],
])('%s', (_, ledger, stored, expected) => {
  const { lost, duplicated, phantom } = ledger.judge(stored);
  expect([lost, duplicated, phantom]).toEqual(expected);
});

test('the ledger grows, and counts its entries', () => {
  const ledger = new Ledger();
  for (let n = 0; n < 100_000; n++) ledger.settle(ledger.open(), 'kept');
  ledger.open();
  expect(ledger.counts).toEqual({ sent: 100_001, kept: 100_000, unknown: 1, refused: 0 });
});
