/** Cross-origin rules: SDK endpoints from any web page, dashboard endpoints from listed origins, never with cookies. */
const exposed = 'X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, Retry-After, X-Request-Id';
const vary = '\r\nVary: Origin';
const allowing = (origin: string) =>
  `\r\nAccess-Control-Allow-Origin: ${origin}\r\nAccess-Control-Expose-Headers: ${exposed}`;
const PREFLIGHT_SECONDS = '86400';

export class Cors {
  readonly #origins: ReadonlySet<string>;

  constructor(origins: readonly string[]) {
    this.#origins = new Set(origins);
  }

  /** The headers that let a page of `origin` read an answer of `path` (below /v1), each after a line break. */
  lines(path: string, origin: string): string {
    if (isSdk(path)) return allowing('*');
    if (this.#origins.size === 0) return '';
    return this.#origins.has(origin) ? `${allowing(origin)}${vary}` : vary;
  }

  /** Additional headers of a preflight (OPTIONS) answer. */
  preflight(): Record<string, string> {
    return {
      'Access-Control-Allow-Methods': 'GET, POST, PUT, PATCH, DELETE',
      'Access-Control-Allow-Headers':
        'Authorization, Content-Type, Content-Encoding, Idempotency-Key, X-API-Key, X-Retry-Count',
      'Access-Control-Max-Age': PREFLIGHT_SECONDS,
    };
  }
}

export function isSdk(path: string): boolean {
  return path.startsWith('/sdk/');
}
