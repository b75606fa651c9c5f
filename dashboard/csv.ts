/** Exports lists as CSV for spreadsheets. */

export type Column<Row> = readonly [title: string, of: (row: Row) => string | number];

/** Line ends follow RFC 4180, and the byte order mark tells spreadsheets that the file is UTF-8. */
export function csvOf<Row>(columns: readonly Column<Row>[], rows: readonly Row[]): string {
  const lines = [columns.map(([title]) => title), ...rows.map((row) => columns.map(([, of]) => of(row)))];
  return `\ufeff${lines.map((cells) => cells.map(cellOf).join(',')).join('\r\n')}\r\n`;
}

/**
 * Text that a spreadsheet treats as a formula (OWASP, CSV injection), also after characters that some treat as the end
 * of a cell.
 */
const beforeFormula = /(^|[;,|"\t\r\n])(?=[^\S\t\r\n]*[=+\-@＝＋－＠])/g;

/** Text that a spreadsheet would treat as a formula is marked as text. */
function cellOf(value: string | number): string {
  if (typeof value === 'number') return String(value);
  const inert = value.replaceAll(beforeFormula, "$1'");
  const safe = /^[;\t\r\n]/.test(inert) ? `'${inert}` : inert;
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

export function download(content: Blob, name: string): void {
  const url = URL.createObjectURL(content);
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
