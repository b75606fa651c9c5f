/** Who asks for a link, as far as the answer and its record depend on it. */
import { acceptedLanguages } from '#common/accepted-languages.ts';

export interface Visitor {
  readonly ip: string;
  readonly user_agent: string;
  readonly language: string;
  /** Scheme and host. */
  readonly referrer: string;
  /** Without its question mark. */
  readonly query: string;
  readonly is_prefetch: boolean;
}

/** Whether JSON is preferred to a page: of equal weights (RFC 9110 section 12.5.1) the one that is named first. */
export function wantsJson(accept: string): boolean {
  if (!/json/i.test(accept)) return false;
  let json = 0;
  let page = 0;
  let isJsonFirst = false;
  for (const range of accept.toLowerCase().split(',')) {
    const [type = '', ...parameters] = range.split(';').map((part) => part.trim());
    const weight = Number(parameters.find((one) => one.startsWith('q='))?.slice(2) ?? 1);
    if (type === 'application/json') {
      if (page === 0) isJsonFirst = true;
      json = Math.max(json, weight || 0);
    } else if (type === 'text/html' || type === 'application/xhtml+xml') {
      page = Math.max(page, weight || 0);
    }
  }
  return json > page || (json > 0 && json === page && isJsonFirst);
}

/** More than any browser sends. */
const rangesMax = 20;

/** The language that an Accept-Language header prefers most; of equal ones the first. Empty if there is none. */
export function preferredLanguage(accepted: string): string {
  const comma = accepted.indexOf(',');
  const first = comma === -1 ? accepted : accepted.slice(0, comma);
  // Browsers send the preferred one first and without a weight.
  if (!/[;*]/.test(first)) return first.trim();
  return acceptedLanguages(accepted, rangesMax)[0] ?? '';
}
