import fc from 'fast-check';
import { expect, test } from 'vitest';
import { csvLine } from './export-lines.ts';

const place = { organization_id: 'o', app_id: 'a', link_id: 'l', time_ms: 1 };
const cellOf = (value: unknown) => {
  const line = csvLine('events', ['value'], { ...place, value });
  return line.slice(0, line.lastIndexOf(','));
};

test.each<[string, unknown, string]>([
  ['plain text', 'summer', '"summer"'],
  ['text with a quote', 'a"b', '"a""b"'],
  ['text with a comma', 'a,b', '"a,b"'],
  ['a formula', '=1+1', `"'=1+1"`],
  ['a plus', '+1+1', `"'+1+1"`],
  ['a minus', '-1-1', `"'-1-1"`],
  ['an amount, which is exact text', '-12.50', '"-12.50"'],
  ['an at sign', '@SUM(A1)', `"'@SUM(A1)"`],
  ['a tab', '\t=1', `"'\t'=1"`],
  ['a carriage return', '\r=1', `"'\r'=1"`],
  ['a line feed', '\n=1', `"'\n'=1"`],
  ['a semicolon at the start', ';=1', `"';'=1"`],
  ['a formula after a semicolon', 'a;=1', `"a;'=1"`],
  ['a formula after a comma', 'a,=1', `"a,'=1"`],
  ['a formula after a tab', 'a\t@x', `"a\t'@x"`],
  ['a formula after a pipe', 'a|=x', `"a|'=x"`],
  ['a formula after a quote', '"=1', `"""'=1"`],
  ['a formula after spaces', '  =1', `"'  =1"`],
  ['a formula after a semicolon and spaces', 'a; =1', `"a;' =1"`],
  ['a formula in full-width letters', '＝1＋1', `"'＝1＋1"`],
  ['an address with a query', 'https://a.example/?x=1&y=-2', '"https://a.example/?x=1&y=-2"'],
  ['a number', -3, '-3'],
  ['a flag', true, 'true'],
  ['nothing', null, ''],
  ['empty text', '', '""'],
])('a CSV cell with %s does not start a formula or end the cell', (_, value, cell) => {
  expect(cellOf(value)).toBe(cell);
});

test('however a spreadsheet splits a text, no part of it begins with a formula', () => {
  const texts = fc.string({
    unit: fc.constantFrom('=', '+', '-', '@', '\t', '\r', '\n', ';', ',', '|', '"', "'", ' ', 'a', '1', '＝'),
    maxLength: 12,
  });
  fc.assert(
    fc.property(texts, (text) => {
      if (/^-?\d+$/.test(text)) return;
      const inner = cellOf(text).slice(1, -1).replaceAll('""', '"');
      for (const separator of [/[;,|\t\r\n"]/, /[;,]/, /;/, /,/, /\t/, /[\r\n]/]) {
        for (const piece of inner.split(separator)) expect(piece).not.toMatch(/^\s*[=+\-@＝＋－＠]/);
      }
    }),
  );
});

test('writing a long text of separators takes linear time', () => {
  const before = process.cpuUsage();
  for (const unit of ['\t', ' ', '; ', '\t=']) cellOf(unit.repeat(100_000));
  expect(process.cpuUsage(before).user).toBeLessThan(2_000_000);
});
