/** What a ClickHouse query text says about itself, as far as a server has to know before it runs it. */

export interface Statement {
  readonly kind: 'select' | 'insert' | 'other';
  /** The name after the last FORMAT, as written; empty without one. */
  readonly format: string;
  /** Where an INSERT's inline data begins is the engine's to find; this says only whether the text before it is one statement. */
  readonly isSingle: boolean;
}

/** Quoted text, comments, words, and every other character by itself. Source: ClickHouse's lexer. */
const token =
  /'(?:[^'\\]|\\[\s\S]|'')*'|"(?:[^"\\]|\\[\s\S]|"")*"|`(?:[^`\\]|\\[\s\S]|``)*`|--[^\n]*|#[! ][^\n]*|\/\*[\s\S]*?\*\/|[A-Za-z_][A-Za-z0-9_]*|\s+|[\s\S]/g;

const selects = new Set(['select', 'with']);

/** An INSERT's text ends, for us, at FORMAT <name>: what follows is data and is not looked at. */
export function readStatement(sql: string): Statement {
  let first = '';
  let previous = '';
  let format = '';
  let ended = false;
  let isSingle = true;
  for (const match of sql.matchAll(token)) {
    const text = match[0];
    if (/^\s|^--|^#[! ]|^\/\*/.test(text)) continue;
    if (text === ';') {
      ended = true;
      continue;
    }
    if (ended) isSingle = false;
    const word = text.toLowerCase();
    // A SELECT may stand in brackets: `(SELECT 1) UNION ALL …`.
    if (first === '' && text !== '(') first = word;
    if (previous === 'format' && /^[a-z]/.test(word)) {
      format = text;
      if (first === 'insert') break;
    }
    previous = word;
  }
  return { kind: first === 'insert' ? 'insert' : selects.has(first) ? 'select' : 'other', format, isSingle };
}

/** Formats whose parts, one after the other, are the whole: a result in them can be sent while it is computed. */
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
