/** A statement in a few words of low cardinality, such as `SELECT links`: never its text, which could contain a value. */

const verb = /^\s*(?:\/\*.*?\*\/\s*)?([A-Za-z]+)/;
/** A function, such as `unnest(`, is not a table. */
const target = /\b(?:FROM|JOIN|INTO|UPDATE|TABLE)\s+(?:ONLY\s+)?[`"]?([A-Za-z_][\w.]{0,62})(?![\w.(])/i;

export function summaryOf(statement: string): string {
  const word = (verb.exec(statement)?.[1] ?? 'statement').toUpperCase();
  const table = target.exec(statement)?.[1];
  return table === undefined ? word : `${word} ${table}`;
}
