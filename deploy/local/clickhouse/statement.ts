/** Extracts from the text of a ClickHouse query what a server has to know before running it. */

export interface Statement {
  readonly kind: 'select' | 'insert' | 'other';
  /** The name after the last FORMAT, as written; empty without one. */
  readonly format: string;
  /** An INSERT's data is not examined. */
  readonly isSingle: boolean;
  /** Where SETTINGS or FORMAT begins, and where the name after FORMAT ends; -1 without them. */
  readonly clauseAt: number;
  readonly formatEndsAt: number;
}

/** Quoted texts, comments, words, and every other character as a token. Source: ClickHouse's lexer. */
export const token =
  /'(?:[^'\\]|\\[\s\S]|'')*'|"(?:[^"\\]|\\[\s\S]|"")*"|`(?:[^`\\]|\\[\s\S]|``)*`|--[^\n]*|#[! ][^\n]*|\/\*[\s\S]*?\*\/|[A-Za-z_][A-Za-z0-9_]*|\s+|[\s\S]/g;

const selects = new Set(['select', 'with']);

/** An INSERT's text ends at FORMAT <name>: what follows is data and is not examined. */
export function readStatement(sql: string): Statement {
  let first = '';
  let previous = '';
  let format = '';
  let ended = false;
  let isSingle = true;
  let previousAt = -1;
  let clauseAt = -1;
  let formatEndsAt = -1;
  for (const match of sql.matchAll(token)) {
    const text = match[0];
    if (/^\s|^--|^#[! ]|^\/\*/.test(text)) continue;
    if (text === ';') {
      ended = true;
      continue;
    }
    if (ended) isSingle = false;
    const word = text.toLowerCase();
    // A SELECT may be in brackets: `(SELECT 1) UNION ALL …`.
    if (first === '' && text !== '(') first = word;
    if (previous === 'format' && /^[a-z]/.test(word)) {
      format = text;
      formatEndsAt = match.index + text.length;
      if (clauseAt < 0) clauseAt = previousAt;
      if (first === 'insert') break;
    }
    if (word === 'settings' && clauseAt < 0) clauseAt = match.index;
    previous = word;
    previousAt = match.index;
  }
  const kind = first === 'insert' ? 'insert' : selects.has(first) ? 'select' : 'other';
  return { kind, format, isSingle, clauseAt, formatEndsAt };
}

/** Formats whose parts form the whole when concatenated: such a result can be sent while it is computed. */
const streamable = new Set([
  'CSV',
  'JSONCompactEachRow',
  'JSONCompactStringsEachRow',
  'JSONEachRow',
  'JSONStringsEachRow',
  'LineAsString',
  'RowBinary',
  'TSV',
  'TSVRaw',
  'TabSeparated',
  'TabSeparatedRaw',
]);

export function isStreamable(format: string): boolean {
  return streamable.has(format);
}

/** A string literal of ClickHouse's SQL. */
export function quote(value: string): string {
  const escaped = value.replaceAll('\\', '\\\\').replaceAll("'", "\\'").replaceAll('\0', '\\0');
  return `'${escaped}'`;
}
