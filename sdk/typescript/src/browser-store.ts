/**
 * localStorage. It is synchronous, so that an event is stored before the page can go, and it fits the size budget;
 * IndexedDB is neither. Without it (a sandboxed frame, blocked cookies) texts are kept in memory.
 */
import type { Store } from './platform.ts';

export function browserStore(prefix: string): Store {
  let texts: Record<string, string> = {};
  try {
    texts = localStorage;
  } catch {}
  return {
    get: (key) => texts[prefix + key],
    set(key, text) {
      texts[prefix + key] = text;
    },
    remove(keys) {
      for (const key of keys) delete texts[prefix + key];
    },
    keys: () => Object.keys(texts).flatMap((key) => (key.startsWith(prefix) ? [key.slice(prefix.length)] : [])),
  };
}
