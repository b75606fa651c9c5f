import { expect, test } from 'vitest';
import { csvOf } from './csv.ts';

const columns = [['Text', (text: string) => text]] as const;

test.each([
  ['=1+1', "'=1+1"],
  ['  @SUM(A1)', "'  @SUM(A1)"],
  ['a;=cmd|x', "a;'=cmd|x"],
  ['\t=1', "'\t'=1"],
  ['＝1', "'＝1"],
])('the text %j cannot begin a formula in a spreadsheet', (text, cell) => {
  expect(csvOf(columns, [text])).toBe(`\ufeffText\r\n${cell}\r\n`);
});

test('other texts are unchanged, and quoted if necessary', () => {
  expect(csvOf(columns, ['a-b', 'x, y', 'say "no"'])).toBe('\ufeffText\r\na-b\r\n"x, y"\r\n"say ""no"""\r\n');
});
