/**
 * localStorage. It is synchronous, so that an event is stored before the page can go, and it fits the size budget;
 * IndexedDB is neither. Without it (a sandboxed frame, blocked cookies, a web view that has none) texts are kept in
 * memory, and so are those for which it has no room.
 */
import type { Store } from './platform.ts';

export function browserStore(prefix: string): Store {
  let texts: Record<string, string> = {};
  /** What could not be written; it is newer than what is stored. */
  const memory: Record<string, string> = {};
  try {
    // Null in some web views.
    texts = localStorage ?? texts;
  } catch {}
  return {
    get: (key) => memory[prefix + key] ?? texts[prefix + key],
    set(key, text) {
      try {
        texts[prefix + key] = text;
        delete memory[prefix + key];
      } catch (error) {
        // As long as events are stored, the oldest can give way to the new one.
        if (key.startsWith('e') && Object.keys(texts).some((one) => one.startsWith(`${prefix}e`))) throw error;
        memory[prefix + key] = text;
      }
    },
    remove(keys) {
      for (const key of keys) {
        delete texts[prefix + key];
        delete memory[prefix + key];
      }
    },
    keys: () =>
      [texts, memory].flatMap(Object.keys).flatMap((key) => (key.startsWith(prefix) ? [key.slice(prefix.length)] : [])),
  };
}
