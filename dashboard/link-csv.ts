/**
 * The columns of the file of links: every field of a link under its name in the API, so that an import reads the file without
 * losing anything (docs/migrating.md). Lists and objects are JSON.
 */
import type { Operations } from './api-types.d.ts';
import type { Column } from './csv.ts';
import { jsonText } from './exact-numbers.ts';

type Link = Operations['GET /links']['answer']['data'][number];

const texts = [
  ...['url', 'title', 'short_code', 'path', 'ios_url', 'android_url', 'fallback_url', 'campaign', 'external_id'],
  ...['utm_source', 'utm_medium', 'utm_campaign', 'utm_term', 'utm_content'],
  ...['og_title', 'og_description', 'og_image_url', 'expires_at', 'expired_url', 'tap_page'],
] as const satisfies readonly (keyof Link)[];
const flags = ['archived', 'has_password'] as const satisfies readonly (keyof Link)[];
const values = ['tags', 'other_codes', 'rules', 'data'] as const satisfies readonly (keyof Link)[];
const counts = ['max_clicks', 'clicks_before'] as const satisfies readonly (keyof Link)[];
const dates = ['created_at', 'updated_at', 'source', 'id'] as const satisfies readonly (keyof Link)[];

export const linkColumns: readonly Column<Link>[] = [
  ...texts.map((name): Column<Link> => [name, (link) => link[name] ?? '']),
  ...flags.map((name): Column<Link> => [name, (link) => String(link[name])]),
  ...values.map((name): Column<Link> => [name, (link) => jsonOf(link[name])]),
  ...counts.map((name): Column<Link> => [name, (link) => link[name] ?? '']),
  ['clicks_used', (link) => link.click_limit?.used ?? ''],
  ...dates.map((name): Column<Link> => [name, (link) => link[name]]),
];

/** Empty for an empty list or object. */
function jsonOf(value: object | null | undefined): string {
  return Object.keys(value ?? {}).length === 0 ? '' : jsonText(value);
}
