/** A statement in a few words of low cardinality, such as `SELECT links`: never its text, which could contain a value. */

const verb = /^\s*(?:\/\*.*?\*\/\s*)?([A-Za-z]+)/;
const target = /\b(?:FROM|INTO|UPDATE|TABLE)\s+(?:ONLY\s+)?[`"]?([A-Za-z_][\w.]{0,62})/i;

export function summaryOf(statement: string): string {
  const word = (verb.exec(statement)?.[1] ?? 'statement').toUpperCase();
  const table = target.exec(statement)?.[1];
  return table === undefined ? word : `${word} ${table}`;
}
