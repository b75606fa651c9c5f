/**
 * The secret of a link that was sent to a person: `/invitation#secret`. Requests never contain the fragment of a URL,
 * and this page removes it from the address bar immediately, so that it is not bookmarked or visible on a shared
 * screen. The tab keeps it across a reload.
 */
import { useEffect, useState } from 'react';

/** 256 bits as base64url; anything else means that the link was not copied completely. */
const shape = /^[\w-]{43}$/;

export function useLinkToken(): { readonly token: string; readonly isWhole: boolean } {
  const [token, setToken] = useState(given);
  useEffect(() => {
    const take = () => {
      const found = given();
      if (location.hash !== '') history.replaceState({ linkToken: found }, '', location.pathname);
      setToken(found);
    };
    take();
    addEventListener('hashchange', take);
    return () => removeEventListener('hashchange', take);
  }, []);
  return { token, isWhole: shape.test(token) };
}

function given(): string {
  if (location.hash.length > 1) return location.hash.slice(1);
  const kept: unknown = history.state;
  return typeof kept === 'object' && kept !== null && 'linkToken' in kept ? String(kept.linkToken) : '';
}
