import type { Store } from './platform.ts';

/** Keeps texts as long as the process lives. */
export function memoryStore(texts: Map<string, string> = new Map()): Store {
  return {
    get: (key) => texts.get(key),
    set: (key, text) => void texts.set(key, text),
    remove(keys) {
      for (const key of keys) texts.delete(key);
    },
    keys: () => [...texts.keys()],
  };
}
