/**
 * localStorage. It is synchronous, so that an event is stored before the page can go, and it fits the size budget;
 * IndexedDB is neither. Without it (a sandboxed frame, blocked cookies) texts are kept in memory.
 */
import type { Store } from './types.ts';

export function browserStore(prefix: string): Store {
  const storage = usable();
  return {
    get: (key) => storage.getItem(prefix + key),
    set: (key, text) => storage.setItem(prefix + key, text),
    remove(keys) {
      for (const key of keys) storage.removeItem(prefix + key);
    },
    keys: () => storage.keys().flatMap((key) => (key.startsWith(prefix) ? [key.slice(prefix.length)] : [])),
  };
}

interface Usable extends Pick<Storage, 'getItem' | 'setItem' | 'removeItem'> {
  keys(): string[];
}

function usable(): Usable {
  try {
    const storage = localStorage;
    storage.setItem('sp', '');
    storage.removeItem('sp');
    return {
      getItem: (key) => storage.getItem(key),
      setItem: (key, text) => storage.setItem(key, text),
      removeItem: (key) => storage.removeItem(key),
      keys: () => Object.keys(storage),
    };
  } catch {
    const texts = new Map<string, string>();
    return {
      getItem: (key) => texts.get(key) ?? null,
      setItem: (key, text) => void texts.set(key, text),
      removeItem: (key) => void texts.delete(key),
      keys: () => [...texts.keys()],
    };
  }
}
