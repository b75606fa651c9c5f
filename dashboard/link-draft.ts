/** A link that is being edited: every field is text until it is sent. */
import type { Answer, Body } from './api.ts';
import { listOf, listText } from './list-text.ts';
import { localTime } from './local-time.ts';

export type Link = Answer<'GET /links/{id}'>;

const textFields = [
  'short_code',
  'campaign',
  'title',
  'utm_source',
  'utm_medium',
  'utm_campaign',
  'utm_term',
  'utm_content',
  'ios_url',
  'android_url',
  'og_title',
  'og_description',
  'og_image_url',
  'expired_url',
] as const;
export type TextField = (typeof textFields)[number];

export interface LinkDraft extends Record<TextField, string> {
  /** Where the link leads; stored as fallback_url. */
  destination: string;
  path: string;
  tags: string;
  /** As a local time, for the browser's native input. */
  expires: string;
  max_clicks: string;
}

export function draftOf(link: Link | null): LinkDraft {
  const texts = Object.fromEntries(textFields.map((name) => [name, link?.[name] ?? ''])) as Record<TextField, string>;
  return {
    ...texts,
    destination: link?.fallback_url ?? '',
    path: link?.path ?? '',
    tags: listText(link?.tags ?? []),
    expires: link?.expires_at ? localTime(Date.parse(link.expires_at)) : '',
    max_clicks: link?.max_clicks ? String(link.max_clicks) : '',
  };
}

/** What to send: all fields that differ from `before`. A cleared field is null, which removes the value. */
export function changesOf(draft: LinkDraft, before: LinkDraft): Body<'PATCH /links/{id}'> {
  const changes: Record<string, unknown> = {};
  for (const name of textFields) {
    if (differs(draft[name], before[name])) changes[name] = draft[name].trim() || null;
  }
  if (differs(draft.destination, before.destination)) {
    changes['fallback_url'] = withScheme(draft.destination) || null;
  }
  if (differs(draft.path, before.path)) changes['path'] = draft.path.trim();
  if (draft.tags !== before.tags) changes['tags'] = listOf(draft.tags);
  if (draft.expires !== before.expires) {
    changes['expires_at'] = draft.expires === '' ? null : new Date(draft.expires).toISOString();
  }
  if (differs(draft.max_clicks, before.max_clicks)) changes['max_clicks'] = countOf(draft.max_clicks.trim());
  return changes;
}

/** Outer spaces alone are no change, whether the stored text has them or the user added some. */
const differs = (now: string, before: string) => now !== before && now.trim() !== before;

/** Text that is not a number is sent unchanged so that the API rejects it: null would remove the limit. */
const countOf = (text: string) => (text === '' ? null : /^\d+$/.test(text) ? Number(text) : text);

/** Without an in-app path, the path of the destination is used. */
export function newLinkOf(draft: LinkDraft, appId: string): Body<'POST /links'> {
  const changes = changesOf(draft, draftOf(null)) as Record<string, unknown>;
  return {
    ...changes,
    app_id: appId,
    path: draft.path.trim() || pathOf(withScheme(draft.destination)),
  };
}

/** The in-app path follows the destination as long as it is the path of the destination. */
export function changed(draft: LinkDraft, change: Partial<LinkDraft>): LinkDraft {
  const { destination, path } = change;
  const follows = draft.path !== '' && draft.path === pathOf(withScheme(draft.destination));
  return destination === undefined || path !== undefined || !follows
    ? { ...draft, ...change }
    : { ...draft, ...change, path: pathOf(withScheme(destination)) };
}

export function withScheme(text: string): string {
  const trimmed = text.trim();
  return trimmed === '' || /^[a-z][a-z0-9+.-]*:/i.test(trimmed) ? trimmed : `https://${trimmed}`;
}

function pathOf(url: string): string {
  if (!URL.canParse(url)) return '/';
  const { pathname, search } = new URL(url);
  return pathname + search;
}
