/** Signpost for web pages. */
import { browserStore } from './browser-store.ts';
import { Client } from './client.ts';
import type { Platform } from './platform.ts';
import type { Options, Signpost } from './types.ts';

export type * from './types.ts';

/** One per page. */
export function createSignpost(options: Options): Signpost {
  const name = `signpost:${options.apiKey.slice(-6)}:`;
  const links = () => import('./link-work.ts');
  const client = new Client(options, {
    kind: 'page',
    store: browserStore(name),
    send,
    now: Date.now,
    random: Math.random,
    newId,
    timer: (fire, delayMs) => setTimeout(fire, delayMs),
    exclusively: async (work) => {
      let running: Promise<boolean> | false = false;
      // Once only: asked again, it says how the first run ended.
      const run = (lock: unknown) => {
        if (lock) running ||= work().then(() => true);
        return running;
      };
      try {
        return await navigator.locks.request(name, { ifAvailable: true }, run);
      } catch {
        // The work failed, or there are no locks: an old browser, or a sandboxed frame, whose texts no other tab has.
        return run(true);
      }
    },
    device: () => ({ platform: 'web' }),
    links,
  });
  // The last moment at which a page on a phone is sure to run.
  document.addEventListener('visibilitychange', () => {
    if (document.hidden) void client.flush(true);
  });
  // The consent was withdrawn in another tab.
  addEventListener('storage', ({ key, newValue }) => {
    const { consent } = key === `${name}state` && newValue ? JSON.parse(newValue) : {};
    if (consent && consent !== 'all') void client.setConsent(consent);
  });
  // A long link is needed when nothing can be loaded any more.
  if (options.fallbackLink) void links();
  if (location.search.includes('click_id=')) void client.open(location.href);
  return client;
}

const send: Platform['send'] = async (url, headers, body, timeoutMs) => {
  if (!navigator.onLine) return 'unsent';
  try {
    const reply = await fetch(url, {
      method: 'POST',
      headers,
      body,
      // The request outlives its page.
      keepalive: true,
      credentials: 'omit',
      // A redirected POST would become a GET.
      redirect: 'manual',
      signal: AbortSignal.timeout(timeoutMs),
    });
    return {
      status: reply.status || 302,
      header: (name) => reply.headers.get(name),
      body: await reply.json().catch(() => null),
    };
  } catch {
    return 'lost';
  }
};

/** Pages without HTTPS have no randomUUID. */
function newId(kind: string): string {
  const random = () => Math.random().toString(36).slice(2);
  return `${kind}-${crypto.randomUUID?.() ?? random() + random()}`;
}
