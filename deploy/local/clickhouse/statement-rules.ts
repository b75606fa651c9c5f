/**
 * Which statements may reach the engine. The engine runs with this process's file permissions and has no access
 * control, so only what Signpost sends is allowed: kinds of statements, formats, settings, table engines and table
 * functions by name.
 *
 * The text is read as the tokens of statement.ts. Whatever the engine's lexer might read differently (heredocs, nested
 * comments, typographic quotes) is rejected, so that nothing can hide in what looks like a string or a comment here.
 */
import { failure } from './failure.ts';
import { token } from './statement.ts';

const statements: readonly RegExp[] = [
  /^(select|with|\() /,
  /^insert into /,
  /^create (or replace )?(database|table|view|materialized view|temporary table) /,
  /^(drop|truncate) /,
  /^(alter|optimize|describe) table /,
  /^(desc|describe|exists|show|delete from) /,
  /^system (drop|flush|start|stop) /,
  /^system sync file cache $/,
  /^exchange tables /,
  /^kill query where current_database = /,
];
const readingStatements: readonly RegExp[] = [/^(select|with|\() /];

/** Formats that do not read or write an additional file, such as a schema or a template. */
const formats = new Set([
  ...['JSON', 'JSONCompact', 'JSONEachRow', 'JSONCompactEachRow', 'JSONStringsEachRow', 'JSONCompactStringsEachRow'],
  ...[
    'TSV',
    'TSVRaw',
    'TSVWithNames',
    'TabSeparated',
    'TabSeparatedRaw',
    'TabSeparatedWithNames',
    'CSV',
    'CSVWithNames',
  ],
  ...['RowBinary', 'RowBinaryWithNamesAndTypes', 'Native', 'Null', 'Values', 'LineAsString', 'Pretty', 'Vertical'],
]);

const engine =
  /^((Replicated)?(Replacing|Summing|Aggregating|Collapsing|VersionedCollapsing)?MergeTree|Join|Memory|Null|Atomic)$/;

/** Table functions that read only their arguments. All others of the engine are rejected. */
const tableFunctions = new Set([
  ...['numbers', 'numbers_mt', 'zeros', 'zeros_mt', 'values', 'generateseries', 'generate_series', 'generaterandom'],
  ...['null', 'view', 'input'],
]);
/** Other functions that read files, connect to other machines, or write in a format of their choice. */
const functions = /^(file|catboostevaluate|formatrow|formatrownonewline|ai[a-z_]*|disk)$/;

/**
 * Settings with a text value. A number cannot name a file, disk, schema or machine, so settings with numbers are not
 * listed.
 */
const textSettings = new Set([
  ...['insert_deduplication_token', 'log_comment', 'session_timezone', 'join_algorithm'],
  ...['result_overflow_mode', 'read_overflow_mode', 'timeout_overflow_mode', 'group_by_overflow_mode'],
  ...['date_time_input_format', 'date_time_output_format', 'lightweight_deletes_sync', 'distributed_ddl_output_mode'],
]);

export interface StatementRules {
  /** Names of the engine's own table functions. */
  readonly tableFunctionsOfEngine: ReadonlySet<string>;
}

export interface StatementRequest {
  readonly sql: string;
  /** Only statements that read. */
  readonly isReader: boolean;
  /** The format named outside the text; empty without one. */
  readonly defaultFormat: string;
  /** The settings of the URL, with their values. */
  readonly settings: Iterable<readonly [string, string]>;
}

function refuse(what: string): never {
  throw failure(497, 'ACCESS_DENIED', `This server does not run ${what}`);
}

const isBlank = (text: string) => /^(\s|--|#[! ]|\/\*)/.test(text);
const isString = (text: string) => text.startsWith("'");
const isQuotedName = (text: string) => /^["`]./s.test(text);

/** @throws Failure if the text contains anything that the engine might read differently. */
function wordsOf(sql: string): string[] {
  const words: string[] = [];
  for (const [text] of sql.matchAll(token)) {
    if (text.startsWith('/*') && text.indexOf('/*', 2) >= 0) refuse('nested comments');
    if (isBlank(text)) continue;
    if (isQuotedName(text)) {
      if (!/^["`][A-Za-z0-9_ -]+["`]$/.test(text))
        refuse('names with characters other than letters, digits, space, - and _');
      words.push(text.slice(1, -1));
    } else {
      if (!isString(text) && !/^[\x20-\x7e]+$/.test(text)) refuse('non-ASCII text outside of strings');
      if (text === '$' || text === "'" || text === '"' || text === '`' || text === '\\') refuse(`a lone ${text}`);
      words.push(text);
    }
  }
  return words;
}

/** Words that end a list of tables. None of them can be a table's alias without AS. */
const tablesEnd = new Set([
  ...['where', 'prewhere', 'group', 'having', 'order', 'limit', 'offset', 'union', 'except', 'intersect', 'settings'],
  ...['format', 'window', 'qualify'],
]);
/** A quoted text directly after one of these is a name. */
const namesFollow = new Set([
  ...[
    '.',
    'as',
    'into',
    'table',
    'view',
    'database',
    'to',
    'describe',
    'desc',
    'exists',
    'create',
    'drop',
    'truncate',
    'format',
  ],
]);

/** The engine treats quoted text in place of a table as a file name. */
class TablePlaces {
  /**
   * For each open bracket: whether it contains a list of tables (`joined`: the condition of a JOIN, which a comma
   * ends).
   */
  readonly #depths: ('tables' | 'joined' | 'other')[] = ['other'];

  /** @returns whether the word is quoted text that names a table. */
  isTable(word: string, previous: string): boolean {
    const at = this.#depths.length - 1;
    const now = this.#depths[at];
    if (isString(word)) return now === 'tables' || namesFollow.has(previous);
    if (word === '(' || word === '[') this.#depths.push('other');
    else if ((word === ')' || word === ']') && at > 0) this.#depths.pop();
    else if (previous === 'as') return false;
    else if (word === 'from' || word === 'join') this.#depths[at] = 'tables';
    else if (tablesEnd.has(word)) this.#depths[at] = 'other';
    else if ((word === 'on' || word === 'using') && now === 'tables') this.#depths[at] = 'joined';
    else if (word === ',' && now === 'joined') this.#depths[at] = 'tables';
    return false;
  }
}

/** @throws Failure (ACCESS_DENIED) that says what is rejected. */
export function checkStatement(rules: StatementRules, asked: StatementRequest): void {
  const words = wordsOf(asked.sql);
  const lower = words.map((word) => (isString(word) ? word : word.toLowerCase()));
  const beginning = `${lower.slice(0, 5).join(' ')} `;
  const isOf = (kinds: readonly RegExp[]) => kinds.some((kind) => kind.test(beginning));
  if (asked.isReader && !isOf(readingStatements)) throw failure(164, 'READONLY', 'The reader may only SELECT');
  if (!isOf(statements)) refuse(`statements that begin with ${beginning.slice(0, 40).trim()}`);
  for (const [name, value] of asked.settings) checkSetting(name, value);
  if (asked.defaultFormat !== '' && !formats.has(asked.defaultFormat)) refuse(`the format ${asked.defaultFormat}`);
  const isDefinition = /^(create|alter) /.test(beginning);
  const places = new TablePlaces();
  for (const [at, word] of lower.entries()) {
    const [previous = '', next = ''] = [lower[at - 1], lower[at + 1]];
    if (places.isTable(word, previous)) refuse('quoted text in place of a table');
    if (word === 'outfile' || word === 'infile') refuse(word.toUpperCase());
    if (previous === 'into' && word === 'function') refuse('INSERT INTO FUNCTION');
    if (next === '(') checkFunction(rules, word);
    if (previous === 'format' && /^[a-z]/.test(word) && !formats.has(words[at] ?? ''))
      refuse(`the format ${words[at]}`);
    if (isDefinition && previous === 'engine') checkEngine(words, word === '=' ? at + 1 : at);
    if (next === '=' && (previous === 'settings' || previous === 'setting')) checkAssignments(lower, at);
  }
}

function checkFunction({ tableFunctionsOfEngine }: StatementRules, name: string): void {
  const isForeign = tableFunctionsOfEngine.has(name) && !tableFunctions.has(name);
  if (isForeign || functions.test(name)) refuse(`the function ${name}`);
}

function checkEngine(words: readonly string[], at: number): void {
  if (!engine.test(words[at] ?? '')) refuse(`the table engine ${words[at]}`);
}

function checkSetting(name: string, value: string): void {
  const isPlain = /^(-?\d+(\.\d+)?|true|false|)$/i.test(value);
  if (!isPlain && !textSettings.has(name.toLowerCase())) refuse(`queries with text for the setting ${name}`);
}

/** `a = 1, b = 'x'`, the text after SETTINGS. */
function checkAssignments(words: readonly string[], from: number): void {
  for (let at = from; words[at + 1] === '='; at++) {
    const name = words[at] ?? '';
    at += 2;
    let value = '';
    // A number arrives digit by digit; anything else is one word.
    while (/^[-.\d]$/.test(words[at] ?? '')) value += words[at++] ?? '';
    if (value === '') value = words[at++] ?? '';
    checkSetting(name, value.replace(/^'(.*)'$/s, '$1'));
    if (words[at] === '(') refuse(`the setting ${name} with a function for a value`);
    if (words[at] !== ',') return;
  }
}
