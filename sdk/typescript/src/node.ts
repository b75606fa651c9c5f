/** Signpost for Node servers: events of users and devices, links, webhooks. */
import { randomUUID } from 'node:crypto';
import { Client } from './client.ts';
import { fetchSend } from './fetch-send.ts';
import { FileStore } from './file-store.ts';
import * as links from './link-work.ts';
import { memoryStore } from './memory-store.ts';
import type { Details, Options, Signpost } from './types.ts';

export type * from './types.ts';
export { verifyWebhook, type Webhook, type WebhookCheck } from './webhook.ts';

export interface NodeOptions extends Pick<Options, 'host' | 'apiKey' | 'linkHosts' | 'fallbackLink'> {
  /** Keeps events over restarts and crashes; one file per process. Without it they are kept in memory. */
  readonly queueFile?: string | undefined;
}

/** At least one of the first three; an event belongs to the link of its install or device. */
export interface Whose {
  readonly installId?: string | undefined;
  readonly deviceId?: string | undefined;
  readonly userId?: string | undefined;
  readonly linkId?: string | undefined;
  readonly clickId?: string | undefined;
  readonly sessionId?: string | undefined;
  /** Epoch milliseconds, sent as they are; default: now, by the server's clock if yours is wrong. */
  readonly timestamp?: number | undefined;
  /** Yours, so that the same event counts once within 24 hours however often you track it. */
  readonly eventId?: string | undefined;
}

export interface NodeSignpost extends Pick<Signpost, 'createLink' | 'flush' | 'check'> {
  track(name: string, details: Details & Whose): Promise<void>;
  /** Sends what is queued, once, and closes the file. */
  close(): Promise<void>;
}

/** One per process. @throws if another process has the queue file open. */
export function createSignpost({ queueFile, ...options }: NodeOptions): NodeSignpost {
  const file = queueFile === undefined ? null : new FileStore(queueFile);
  const client = newClient(options, file);
  return {
    track(name, { installId, deviceId, userId, linkId, clickId, sessionId, timestamp, eventId, ...details }) {
      const ids = { install_id: installId, device_id: deviceId, user_id: userId };
      if (!installId && !deviceId && !userId)
        throw new TypeError(`track('${name}') needs one of installId, deviceId and userId`);
      const named = { link_id: linkId, click_id: clickId, session_id: sessionId };
      const time = new Date(timestamp ?? Date.now());
      if (Number.isNaN(time.getTime()))
        throw new TypeError(`track('${name}') needs its timestamp in epoch milliseconds`);
      // As text, which no clock corrects.
      const timed = (timestamp ?? null) === null ? {} : { timestamp: time.toISOString() };
      const own = { ...timed, ...(eventId ? { event_id: eventId } : {}) };
      return client.track(name, details, { ...ids, ...named, ...own });
    },
    createLink: (link) => client.createLink(link),
    flush: () => client.flush(),
    check: () => client.check(),
    async close() {
      try {
        await client.flush();
      } finally {
        await file?.close();
      }
    },
  };
}

function newClient(options: Omit<NodeOptions, 'queueFile'>, file: FileStore | null): Client {
  try {
    return new Client(
      { ...options, consent: 'all' },
      {
        kind: 'server',
        store: file ?? memoryStore(),
        send: fetchSend(isUnsent),
        now: Date.now,
        random: Math.random,
        newId: (kind) => `${kind}-${randomUUID()}`,
        // Waiting keeps no process alive.
        timer: (fire, delayMs) => setTimeout(fire, delayMs).unref(),
        exclusively: async (work) => {
          await work();
          return true;
        },
        device: () => ({}),
        links: () => links,
      },
    );
  } catch (error) {
    void file?.close();
    throw error;
  }
}

const codes = new Set([
  'ENOTFOUND',
  'EAI_AGAIN',
  'ECONNREFUSED',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'UND_ERR_CONNECT_TIMEOUT',
]);

function isUnsent(error: unknown): boolean {
  const { cause } = error as { cause?: { code?: string } };
  return codes.has(cause?.code ?? '');
}
