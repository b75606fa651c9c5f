/**
 * Maps a link from Branch's API (GET /v1/url) to the fields of an import: campaign, channel, feature, stage, tags,
 * alias and type at the top level, and everything else in `data`.
 */
import { isObject } from '#common/json-object.ts';
import type { ImportField } from './import-columns.ts';

export interface BranchLink {
  readonly fields: Readonly<Partial<Record<ImportField, string>>>;
  /** Fields that Branch passes to the app. */
  readonly data: Readonly<Record<string, unknown>>;
}

/** Keys of `data` that concern the link itself or become fields. */
const consumed: ReadonlySet<string> = new Set([
  ...['$desktop_url', '$fallback_url', '$ios_url', '$android_url', '$deeplink_path', '$marketing_title'],
  ...['$og_title', '$og_description', '$og_image_url', '~campaign', '~channel', '~feature', '~tags', '~creation_date'],
  ...['url', '~id', '~creation_source', '~marketing', '~referring_link', '$one_time_use'],
]);
/** A separate destination for one country. */
const byCountry = /^\$(?:fallback|desktop|ios|android|ipad)_url_[a-z]{2}$/i;
/** A single-use link. */
const ONE_TIME_TYPE = 1;

/** @param url the link's URL. Null if the response contains no link. */
export function branchLink(answer: unknown, url: URL): BranchLink | null {
  if (!isObject(answer) || !isObject(answer['data'])) return null;
  const { data } = answer;
  const text = (...values: unknown[]) => values.map(textOf).find((one) => one !== '') ?? '';
  const fallback = text(data['$fallback_url']);
  const tags = Array.isArray(answer['tags']) ? answer['tags'] : data['~tags'];
  const alias = text(answer['alias']);
  const stage = text(answer['stage'], data['~stage']);
  const isForOneUse = answer['type'] === ONE_TIME_TYPE || text(data['$one_time_use']) === 'true';
  return {
    fields: {
      // As JSON, because an alias may contain a list separator.
      other_codes: alias === '' ? '' : JSON.stringify([new URL(`${url.origin}/${alias.replace(/^\//, '')}`).href]),
      destination: text(data['$desktop_url'], fallback),
      ios_url: text(data['$ios_url'], fallback),
      android_url: text(data['$android_url'], fallback),
      path: text(data['$deeplink_path']),
      title: text(data['$marketing_title']),
      og_title: text(data['$og_title']),
      og_description: text(data['$og_description']),
      og_image_url: text(data['$og_image_url']),
      campaign: text(answer['campaign'], data['~campaign']),
      utm_source: text(answer['channel'], data['~channel']),
      utm_medium: text(answer['feature'], data['~feature']),
      tags: Array.isArray(tags) ? JSON.stringify(tags.map(textOf)) : text(tags),
      created_at: text(data['~creation_date']),
      max_clicks: isForOneUse ? '1' : '',
      targeting: Object.keys(data).find((name) => byCountry.test(name)) ?? '',
    },
    data: {
      ...Object.fromEntries(
        Object.entries(data).filter(([name, value]) => !consumed.has(name) && !name.startsWith('+') && value !== ''),
      ),
      ...(stage === '' ? {} : { '~stage': stage }),
    },
  };
}

function textOf(value: unknown): string {
  return typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean'
    ? String(value).trim()
    : '';
}
