/** `fetch` of Node and React Native as the client uses it. */
import type { Platform } from './platform.ts';

/** @param isUnsent whether a failed request certainly did not reach the server. */
export function fetchSend(isUnsent: (error: unknown) => boolean): Platform['send'] {
  return async (url, headers, body, timeoutMs) => {
    // React Native has no AbortSignal.timeout.
    const abort = new AbortController();
    const timer = setTimeout(() => abort.abort(), timeoutMs);
    try {
      // A redirected POST would become a GET.
      const reply = await fetch(url, { method: 'POST', headers, body, redirect: 'manual', signal: abort.signal });
      const json: unknown = await reply.json().catch(() => null);
      return { status: reply.status || 302, header: (name) => reply.headers.get(name), body: json };
    } catch (error) {
      return isUnsent(error) ? 'unsent' : 'lost';
    } finally {
      clearTimeout(timer);
    }
  };
}
