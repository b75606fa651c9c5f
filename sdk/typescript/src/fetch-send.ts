/** The platform's `fetch` as the core uses it. */
import type { Platform } from './types.ts';

export interface FetchOptions {
  /** The request outlives its page. */
  readonly keepalive?: boolean;
  /** Whether a failed request certainly did not reach the server. */
  readonly isUnsent?: (error: unknown) => boolean;
}

export function fetchSend({ keepalive = false, isUnsent = () => false }: FetchOptions = {}): Platform['send'] {
  return async (url, headers, body, timeoutMs) => {
    const abort = new AbortController();
    const timer = setTimeout(() => abort.abort(), timeoutMs);
    try {
      const reply = await fetch(url, {
        method: 'POST',
        headers,
        body,
        keepalive,
        credentials: 'omit',
        // A redirected POST would become a GET.
        redirect: 'manual',
        signal: abort.signal,
      });
      const text = await reply.text();
      return { status: reply.status || 302, header: (name) => reply.headers.get(name), body: parsed(text) };
    } catch (error) {
      return isUnsent(error) ? 'unsent' : 'lost';
    } finally {
      clearTimeout(timer);
    }
  };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

export function newId(kind: string): string {
  const { crypto } = globalThis;
  // React Native and pages without HTTPS have no randomUUID.
  const random = crypto?.randomUUID
    ? crypto.randomUUID()
    : Array.from({ length: 4 }, () => Math.random().toString(36).slice(2, 10)).join('');
  return `${kind}-${random}`;
}

export function timer(delayMs: number, fire: () => void): () => void {
  const id = setTimeout(fire, delayMs);
  return () => clearTimeout(id);
}
