/** Formats records as lines of an export, each with its cursor. */
import { type ExportKind, type ExportPosition, exportKinds } from '#clickhouse/queries/export.ts';

export interface ExportRow extends Readonly<Record<string, unknown>> {
  readonly organization_id: string;
  readonly app_id: string;
  readonly link_id: string;
  readonly time_ms: number;
}

export function cursorOf(kind: ExportKind, row: ExportRow, id: string): string {
  const position = [kind, row.organization_id, row.app_id, row.link_id, row.time_ms, id];
  return Buffer.from(JSON.stringify(position)).toString('base64url');
}

/**
 * Null for an invalid cursor; for a cursor of another kind of records, that kind. A forged cursor only moves the
 * starting position within the records that the caller may see.
 */
export function readCursor(text: string, kind: ExportKind): ExportPosition | ExportKind | null {
  let position: unknown;
  try {
    position = JSON.parse(Buffer.from(text, 'base64url').toString());
  } catch {
    return null;
  }
  if (!Array.isArray(position) || position.length !== 6) return null;
  const [own, organization_id, app_id, link_id, time_ms, id]: unknown[] = position;
  const isText = (value: unknown): value is string => typeof value === 'string' && !value.includes('\0');
  if (!isText(organization_id) || !isText(app_id) || !isText(link_id) || !isText(id)) return null;
  if (typeof time_ms !== 'number' || !Number.isInteger(time_ms) || Math.abs(time_ms) > 8_000_000_000_000) return null;
  const itsKind = exportKinds.find((one) => one === own) ?? null;
  return itsKind === kind ? { organization_id, app_id, link_id, time_ms, id } : itsKind;
}

export function ndjsonLine(kind: ExportKind, columns: readonly string[], row: ExportRow): string {
  let record = '{';
  for (const column of columns) {
    const json = column === 'properties' || column === 'detail' ? jsonOf(row[column]) : JSON.stringify(row[column]);
    if (json !== undefined) record += `"${column}":${json},`;
  }
  return `${record}"cursor":"${cursorOf(kind, row, String(row[columns[0] ?? '']))}"}\n`;
}

/** The text as it was sent, because reserializing it would change numbers with more digits than a double has. */
function jsonOf(text: unknown): string {
  if (typeof text !== 'string' || text === '') return '{}';
  try {
    JSON.parse(text);
  } catch {
    return JSON.stringify(text);
  }
  return text.replaceAll(/[\r\n]/g, ' ');
}

/** A CSV line (RFC 4180), with every text in quotes. */
export function csvLine(kind: ExportKind, columns: readonly string[], row: ExportRow): string {
  const cells = columns.map((column) => csvCell(row[column]));
  return `${[...cells, csvCell(cursorOf(kind, row, String(row[columns[0] ?? ''])))].join(',')}\r\n`;
}

/** Characters with which a spreadsheet formula begins (source: OWASP, CSV injection), including full-width forms. */
const formulaStart = '=+\\-@＝＋－＠';
/**
 * A formula at the start of the text, or after a character that some spreadsheets treat as the end of a cell; spaces
 * may precede the formula.
 */
const beforeFormula = new RegExp(`(^|[;,|"\\t\\r\\n])(?=[^\\S\\t\\r\\n]*[${formulaStart}])`, 'g');
const plainNumber = /^-?\d+(\.\d+)?$/;

function csvCell(value: unknown): string {
  if (value === null || value === undefined) return '';
  if (typeof value !== 'string') return String(value);
  if (plainNumber.test(value)) return `"${value}"`;
  const inert = value.replace(beforeFormula, "$1'");
  return `"${(/^[;\t\r\n]/.test(inert) ? `'${inert}` : inert).replaceAll('"', '""')}"`;
}
