/** Extracts the click ids that a device sends as evidence. */
import { isId } from '#common/ids.ts';
import type { EvidenceType } from '#common/match/rules.ts';
import type { MatchFields } from './match-schema.ts';

export interface NamedClick {
  readonly type: EvidenceType;
  readonly click_id: string;
}

/** In order of precedence. Ids that are not well-formed click ids are omitted. */
export function namedClicks(fields: MatchFields): NamedClick[] {
  const named: NamedClick[] = [];
  const add = (type: EvidenceType, click_id: string) => {
    if (isId('clk', click_id) && !named.some((one) => one.click_id === click_id)) named.push({ type, click_id });
  };
  add('click_id', fields.click_id ?? '');
  add('install_referrer', fromReferrer(fields.install_referrer ?? ''));
  add('clipboard', fromUrl(fields.clipboard_url ?? ''));
  return named;
}

const encodingsMax = 2;

/**
 * The Play Store passes the referrer decoded, or as in the store's URL; SDKs that encode it again send it encoded
 * twice.
 */
function fromReferrer(text: string): string {
  let query = text;
  for (let decoded = 0; ; decoded++) {
    const found = new URLSearchParams(query).get('click_id');
    if (found !== null) return found;
    if (decoded === encodingsMax) return '';
    try {
      query = decodeURIComponent(query);
    } catch {
      return '';
    }
  }
}

function fromUrl(text: string): string {
  return URL.canParse(text) ? (new URL(text).searchParams.get('click_id') ?? '') : '';
}

/** The parameters of a query string; of repeated ones, the first. */
export function queryParams(query: string): Record<string, string> {
  const params: Record<string, string> = {};
  for (const [name, value] of new URLSearchParams(query)) {
    if (!Object.hasOwn(params, name)) Object.defineProperty(params, name, { value, enumerable: true });
  }
  return params;
}
