/** Links: which URLs name one, what the server's answer says. */
import type { Link } from './types.ts';

export interface Evidence {
  readonly url?: string;
  readonly click_id?: string;
  readonly clipboard_url?: string;
}

type Fields = Record<string, unknown>;

/** Null for a URL that is neither a short link nor names a click. */
export function evidenceOf(url: string, hosts: readonly string[] | undefined): Evidence | null {
  const { host, path, query } = partsOf(url);
  const click_id = query.get('click_id');
  if (click_id) return { click_id };
  // Imported links may have any path; those that Signpost makes have one segment. Firebase long links have a query instead.
  const isLink = hosts
    ? (path.length > 1 || query.has('link')) && hosts.includes(host)
    : /^\/[\w-]{3,64}\/?$/.test(path);
  return isLink && /^https?:/i.test(url) ? { url } : null;
}

/** Pasted text is evidence if it is a URL that names a click. */
export function pastedEvidence(text: string): Evidence | null {
  const url = text.trim();
  return partsOf(url).query.get('click_id') ? { clipboard_url: url } : null;
}

/** Works for the schemes of apps too, which URL parsers of some platforms don't split. */
function partsOf(url: string): { host: string; path: string; query: URLSearchParams } {
  const [, host = '', path = '', query = ''] = /^[a-z][\w+.-]*:\/\/([^/?#]*)([^?#]*)(?:\?([^#]*))?/i.exec(url) ?? [];
  return { host: host.toLowerCase().replace(/:\d+$/, ''), path, query: new URLSearchParams(query) };
}

/** The link of an answer; null if it has none, or none that belongs to the evidence. */
export function linkOf(body: Fields, evidence: Evidence, isFirstOpen: boolean, isFirst: boolean): Link | null {
  const link = body['link'] as Fields | null;
  if (!link) return null;
  const isByUrl = body['match_type'] === 'url';
  const named = evidence.click_id ?? partsOf(evidence.clipboard_url ?? '').query.get('click_id');
  // A device that was answered before gets that answer again; it is no answer to this URL.
  if (!isFirstOpen && (evidence.url ? !isByUrl : named !== body['click_id'])) return null;
  const query = (body['query_params'] ?? {}) as Record<string, string>;
  return {
    url: isByUrl && evidence.url ? evidence.url : String(link['url']),
    path: query['sp_path'] ?? String(link['path']),
    data: dataOf(query['sp_data']) ?? (body['data'] as Fields | null) ?? {},
    campaign: query['sp_campaign'] ?? (link['campaign'] as string | null),
    matchType: body['match_type'] as Link['matchType'],
    guaranteed: body['match_guaranteed'] === true,
    confidence: Number(body['confidence']),
    isDeferred: !isByUrl && evidence.click_id === undefined,
    isFirst,
  };
}

function dataOf(text: string | undefined): Fields | null {
  try {
    const data: unknown = JSON.parse(text ?? '');
    return typeof data === 'object' ? (data as Fields) : null;
  } catch {
    return null;
  }
}
