/** JSON whose numbers keep all their digits, such as 12345678901234567890, also in browsers that would round them. */

/** Half of a surrogate pair, which no text of the API contains. */
const mark = String.raw`\ud800#`;
const marked = /"\\ud800#(-?\d[\d.eE+-]*)"/g;
/** Strings are matched too, so that a number in one is not taken for one. */
const token = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\d[\d.eE+-]*/g;

/** As JSON.parse; a number that would be written in another way becomes a text that only `jsonText` takes for a number. */
export function parseExact(text: string): unknown {
  const isKept = (one: string) => one.startsWith('"') || String(Number(one)) === one;
  return JSON.parse(text.replace(token, (one) => (isKept(one) ? one : `"${mark}${one}"`)));
}

/** As JSON.stringify, with the digits that `parseExact` kept. */
export function jsonText(value: unknown): string {
  return JSON.stringify(value).replace(marked, '$1');
}
