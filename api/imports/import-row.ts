/** What a row of a file becomes: a link to import, or a fault. */
import type { LinkToCreate } from '#common/links/link-fields.ts';
import type { ImportField, ImportSource, Layout } from './import-columns.ts';

/** The app that gets the links. */
export interface ImportApp {
  readonly id: string;
  readonly organization_id: string;
  readonly host: string;
  readonly ignores_case: boolean;
  readonly bundle_id: string | null;
  readonly app_store_id: string | null;
  readonly package_name: string | null;
}

export interface ReadOptions {
  readonly source: ImportSource;
  readonly layout: Layout;
  readonly app: ImportApp;
  /** Hosts whose codes are taken over, besides the app's own host. */
  readonly hosts: readonly string[];
  /** Whether http destinations are changed to https; otherwise they are unsupported. */
  readonly upgradesHttp: boolean;
  readonly nowMs: number;
}

/** A link to import, as stored with its row. */
export interface ImportedLink {
  /** The main code first. */
  readonly codes: readonly string[];
  readonly fields: Omit<LinkToCreate, 'short_code'>;
  /** ISO 8601; null for a file without the date. */
  readonly created_at: string | null;
  readonly clicks_before: number | null;
}

export const rowReasons = [
  ...[
    'not_text',
    'extra_cells',
    'bad_code',
    'other_host',
    'too_many',
    'password',
    'max_clicks',
    'not_yet',
    'bad_time',
    'other_app',
    'targeting',
  ],
  ...['not_read', 'no_destination', 'invalid', 'loop', 'repeated', 'taken', 'differs', 'deleted'],
] as const;
export type RowReason = (typeof rowReasons)[number];

/** Why a row cannot be imported, or which link has its code or external id. */
export interface RowFault {
  readonly field: string;
  readonly reason: RowReason;
  readonly message: string;
}

/** The trimmed text of a column; empty if the file has no such column. */
export type CellOf = (field: ImportField) => string;

export function fault(field: string, reason: RowReason, message: string): RowFault {
  return { field, reason, message };
}

export function isFault(value: object): value is RowFault {
  return 'reason' in value;
}
