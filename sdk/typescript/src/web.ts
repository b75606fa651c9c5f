/** Signpost for web pages. */
import { browserStore } from './browser-store.ts';
import { Client } from './client.ts';
import { fetchSend, newId, timer } from './fetch-send.ts';
import type { Options, Signpost } from './types.ts';

export type * from './types.ts';

/** One per page. */
export function createSignpost(options: Options): Signpost {
  const name = `signpost:${options.apiKey.slice(-6)}:`;
  const client = new Client(options, {
    kind: 'page',
    store: browserStore(name),
    send: fetchSend({ keepalive: true, isUnsent: () => !navigator.onLine }),
    now: Date.now,
    random: Math.random,
    newId,
    timer,
    exclusively: (work) =>
      navigator.locks
        ? navigator.locks.request(name, { ifAvailable: true }, async (lock) => {
            if (lock) await work();
            return lock !== null;
          })
        : work().then(() => true),
    device: () => ({
      platform: 'web',
      language: navigator.language,
      timezone: Intl.DateTimeFormat().resolvedOptions().timeZone,
      screen_width: screen.width,
      screen_height: screen.height,
      sdk_name: 'web',
      sdk_version: '0.1.0',
    }),
  });
  // The last moment at which a page on a phone is sure to run.
  document.addEventListener('visibilitychange', () => {
    if (document.visibilityState === 'hidden') void client.flush(true);
  });
  if (location.search.includes('click_id=')) void client.open(location.href);
  return client;
}
