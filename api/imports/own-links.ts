/** Reads one row of the file of links that the dashboard saves (dashboard/link-csv.ts), character by character. */
import { parseExact } from '#common/exact-json.ts';
import { linkFieldNames } from '#common/links/link-fields.ts';
import { clicksLeft } from './click-limit.ts';
import { type CellOf, fault, type ImportedLink, isFault, type ReadOptions, type RowFault } from './import-row.ts';
import { countOf, isYes } from './import-values.ts';
import { checkedLink, codesOf, datesOf, endOf, present, unreadable } from './link-reader.ts';

/** What the dashboard puts before text that a spreadsheet would treat as a formula. */
const mark = /(?<=^|[;,|"\t\r\n])'(?='*[^\S\t\r\n]*[=+\-@＝＋－＠])|^'(?='*[;\t\r\n])/g;
/** Read by the functions that read these columns of every file. */
const readBelow: ReadonlySet<string> = new Set(['short_code', 'expires_at', 'max_clicks']);

export function readOwnRow(cells: readonly string[], options: ReadOptions): ImportedLink | RowFault {
  const refused = unreadable(cells, options);
  if (refused) return refused;
  const { own = {} } = options.layout;
  const text = (name: string) => (cells[own[name] ?? -1] ?? '').replaceAll(mark, '');
  const others = jsonOf(text('other_codes'), 'other_codes');
  if (isFault(others)) return others;
  const cell = cellOf(text, Array.isArray(others.value) ? others.value : []);
  const codes = codesOf(cell, options);
  if (isFault(codes)) return codes;
  if (isYes(text('has_password')) !== false)
    return fault('has_password', 'password', 'the file has no passwords: create the link, and set its password again');
  const dated = datesOf(cell, options.nowMs);
  if (isFault(dated)) return dated;
  const left = clicksLeft(cell);
  if (left !== null && typeof left === 'object') return left;
  const fields: Record<string, unknown> = present(endOf(dated, left));
  for (const name of linkFieldNames.filter((one) => !readBelow.has(one) && text(one) !== '')) {
    const given = fieldOf(name, text(name));
    if (isFault(given)) return given;
    fields[name] = given.value;
  }
  const clicks_before = text('clicks_before') === '' ? null : countOf(text('clicks_before'));
  return checkedLink(fields, { ...codes, created_at: dated.created_at, clicks_before });
}

interface Value {
  readonly value: unknown;
}

function fieldOf(name: string, text: string): Value | RowFault {
  if (name === 'tags' || name === 'rules' || name === 'data') return jsonOf(text, name);
  return { value: name === 'archived' ? (isYes(text) ?? text) : text };
}

function jsonOf(text: string, field: string): Value | RowFault {
  try {
    return { value: text === '' ? null : parseExact(text) };
  } catch {
    return fault(field, 'invalid', 'is not JSON');
  }
}

/** The columns that are read in the same way in every file. */
function cellOf(text: (name: string) => string, others: readonly unknown[]): CellOf {
  const [, host = ''] = /^(?:https?:)?(?:\/\/)?([^/?#]*)/i.exec(text('url')) ?? [];
  const other_codes = others.map((code) => `${host}/${String(code).split('/').map(encodeURIComponent).join('/')}`);
  const cells: Readonly<Record<string, string>> = {
    short_url: text('url').trim(),
    other_codes: JSON.stringify(other_codes),
    created_at: text('created_at').trim(),
    expires_at: text('expires_at').trim(),
    max_clicks: text('max_clicks').trim(),
    clicks: text('clicks_used').trim() || '0',
  };
  return (field) => cells[field] ?? '';
}
