import { expect, test } from 'vitest';
import { delimiterOf, firstLineOf } from './csv-records.ts';

async function* piecesOf(texts: readonly string[]): AsyncGenerator<Uint8Array> {
  for (const text of texts) yield Buffer.from(text, 'latin1');
}

const bom = '\xef\xbb\xbf';

test.each([
  ['in one piece', ['code;url\na,b\n'], 'code;url'],
  ['that a piece ends within', ['co', 'de;', 'url\r', '\na,b'], 'code;url'],
  ['after blank lines', ['\r\n', '\n\ncode;', 'url\n'], 'code;url'],
  ['after a byte order mark that is cut', [bom.slice(0, 1), `${bom.slice(1)}\ncode;url\n`], 'code;url'],
  ['without an end', ['code', ';url'], 'code;url'],
  ['of no file', [], ''],
  ['of blank lines', ['\n', '\n'], ''],
])('the first line %s is read whole', async (_, texts, line) => {
  expect(await firstLineOf(piecesOf(texts))).toBe(line);
});

test.each([
  ['sep=;', ';'],
  ['SEP=,', ','],
  ['"sep=|"', '|'],
  ['sep=\t', '\t'],
  ['code;url', ';'],
  ['separator,url', ','],
])('the first line %j names the separator %j', (line, delimiter) => {
  expect(delimiterOf(line)).toBe(delimiter);
});

test('at most 256 KiB are read to find the first line', async () => {
  let given = 0;
  async function* endless(): AsyncGenerator<Uint8Array> {
    for (; ; given++) yield Buffer.from('x'.repeat(1000));
  }
  expect(await firstLineOf(endless())).toBe('x'.repeat(262_144));
  expect(given).toBe(262);
});
