/** Records as lines of text, and the cursor each carries. */
import type { ExportPosition } from '#clickhouse/queries/export.ts';

export interface ExportRow extends Readonly<Record<string, unknown>> {
  readonly organization_id: string;
  readonly app_id: string;
  readonly link_id: string;
  readonly time_ms: number;
}

export function cursorOf(row: ExportRow, id: string): string {
  const position = [row.organization_id, row.app_id, row.link_id, row.time_ms, id];
  return Buffer.from(JSON.stringify(position)).toString('base64url');
}

/** Null for what is no cursor. A made-up one only moves the beginning within what the caller may see. */
export function readCursor(text: string): ExportPosition | null {
  let position: unknown;
  try {
    position = JSON.parse(Buffer.from(text, 'base64url').toString());
  } catch {
    return null;
  }
  if (!Array.isArray(position) || position.length !== 5) return null;
  const [organization_id, app_id, link_id, time_ms, id]: unknown[] = position;
  const isText = (value: unknown): value is string => typeof value === 'string' && !value.includes('\0');
  if (!isText(organization_id) || !isText(app_id) || !isText(link_id) || !isText(id)) return null;
  if (typeof time_ms !== 'number' || !Number.isInteger(time_ms) || Math.abs(time_ms) > 8_000_000_000_000) return null;
  return { organization_id, app_id, link_id, time_ms, id };
}

export function ndjsonLine(columns: readonly string[], row: ExportRow): string {
  const record: Record<string, unknown> = {};
  for (const column of columns) record[column] = column === 'properties' ? parsed(row[column]) : row[column];
  record['cursor'] = cursorOf(row, String(row[columns[0] ?? '']));
  return `${JSON.stringify(record)}\n`;
}

function parsed(text: unknown): unknown {
  if (typeof text !== 'string' || text === '') return {};
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** RFC 4180. */
export function csvLine(columns: readonly string[], row: ExportRow): string {
  const cells = columns.map((column) => csvCell(row[column]));
  return `${[...cells, cursorOf(row, String(row[columns[0] ?? '']))].join(',')}\r\n`;
}

function csvCell(value: unknown): string {
  if (value === null || value === undefined) return '';
  let text = String(value);
  // Source: OWASP, CSV injection. Numbers may begin with a minus.
  if (/^[=+\-@\t\r]/.test(text) && !/^-?\d+(\.\d+)?$/.test(text)) text = `'${text}`;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
