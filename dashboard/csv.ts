/** Exports lists as CSV for spreadsheets. */

export type Column<Row> = readonly [title: string, of: (row: Row) => string | number];

/** Line ends follow RFC 4180, and the byte order mark tells spreadsheets that the file is UTF-8. */
export function csvOf<Row>(columns: readonly Column<Row>[], rows: readonly Row[]): string {
  return `\ufeff${lineOf(columns.map(([title]) => title))}${linesOf(columns, rows)}`;
}

/** More rows of the same file. */
export function linesOf<Row>(columns: readonly Column<Row>[], rows: readonly Row[]): string {
  return rows.map((row) => lineOf(columns.map(([, of]) => of(row)))).join('');
}

const lineOf = (cells: readonly (string | number)[]) => `${cells.map(cellOf).join(',')}\r\n`;

/**
 * The place before text that a spreadsheet treats as a formula (OWASP, CSV injection), also after characters that some treat
 * as the end of a cell. Text that has the mark already gets another one, so that an import can take one away
 * (api/imports/own-links.ts).
 */
const beforeFormula = /(?<=^|[;,|"\t\r\n])(?='*[^\S\t\r\n]*[=+\-@＝＋－＠])|^(?='*[;\t\r\n])/g;

/** Text that a spreadsheet would treat as a formula is marked as text. */
function cellOf(value: string | number): string {
  if (typeof value === 'number') return String(value);
  const safe = value.replaceAll(beforeFormula, "'");
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

/** The column names, read from the start of a file separated by commas, semicolons or tabs. */
export function headerOf(text: string): string[] {
  const line = /^\ufeff?((?:"(?:[^"]|"")*"|[^"\r\n])*)/.exec(text)?.[1] ?? '';
  const bare = line.replaceAll(/"(?:[^"]|"")*"/g, '');
  const count = (mark: string) => bare.split(mark).length;
  const mark = [',', ';', '\t'].reduce((best, one) => (count(one) > count(best) ? one : best));
  const cells = line.match(new RegExp(`(?:^|${mark})(?:"(?:[^"]|"")*"|[^${mark}]*)`, 'g')) ?? [];
  return cells.map((cell, at) => {
    const value = at === 0 ? cell : cell.slice(1);
    return (value.startsWith('"') ? value.slice(1, -1).replaceAll('""', '"') : value).trim();
  });
}
