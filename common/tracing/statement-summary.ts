/** A short summary of a statement, such as `SELECT apps links`; never its text, which could contain a value. */

const verb = /^\s*([A-Za-z]+)/;
/** A function, such as `unnest(`, is not a table. */
const targets = /\b(?:FROM|JOIN|INTO|UPDATE|TABLE)\s+(?:ONLY\s+)?[`"]?([A-Za-z_][\w.]{0,62})(?![\w.(])/gi;
const tablesMax = 4;

export function summaryOf(statement: string): string {
  const word = (verb.exec(statement)?.[1] ?? 'statement').toUpperCase();
  const tables = new Set<string>();
  for (const [, table = ''] of statement.matchAll(targets)) {
    if (tables.size === tablesMax) break;
    tables.add(table);
  }
  return [word, ...tables].join(' ');
}
