/** The file of links that the dashboard saves: its columns have the names that the fields of a link have in the API. */
import { linkFieldNames } from '#common/links/link-fields.ts';

/** Positions by name. */
export type OwnColumns = Readonly<Record<string, number>>;

const names = [
  ...['url', 'other_codes', 'has_password', 'clicks_used', 'clicks_before', 'created_at'],
  ...linkFieldNames.filter((name) => name !== 'short_code'),
];
/** No other service has all of these. A column that someone deleted is like one without values. */
const signs = ['url', 'short_code', 'other_codes', 'path', 'fallback_url', 'tap_page', 'has_password'];

/** Null for a file of another service. */
export function ownColumnsOf(header: readonly string[]): OwnColumns | null {
  if (!signs.every((name) => header.includes(name))) return null;
  return Object.fromEntries(names.flatMap((name) => (header.includes(name) ? [[name, header.indexOf(name)]] : [])));
}
