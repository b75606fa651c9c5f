/**
 * Changes of links and apps, announced to every process over Redis.
 *
 * Pub/sub drops messages without subscribers. So every subscriber also publishes a heartbeat to itself over the same two
 * connections: while heartbeats arrive, so do announcements; when they are back after a silence, some may have been missed.
 */
import { randomBytes } from 'node:crypto';
import type { Redis, Subscription } from '#common/stores/redis.ts';
import { systemTime } from '#common/time.ts';
import { linkKey } from './link-snapshot.ts';
import { changeMarker, snapshotLimits } from './snapshot-source.ts';

/**
 * A link or app that was created, changed or deleted (for a new host: once for the old host and once for the new one).
 */
export type LinkChange =
  | { readonly kind: 'link'; readonly host: string; readonly short_code: string }
  | { readonly kind: 'app'; readonly host: string };

/** Prefix of the Redis keys of snapshots; changes with the format of the snapshot. */
export const snapshotPrefixes = { link: 'link:2:', app: 'host:1:' } as const;

const channel = 'links:changes';
const heartbeatIntervalMs = 300;
/** Silence after which announcements count as lost. */
const silenceMaxMs = 900;

export function changeKey(change: LinkChange): string {
  return change.kind === 'link' ? linkKey(change.host, change.short_code) : change.host;
}

/**
 * Publishes committed changes to every process. The marker is written first, so that receivers of the change find
 * no outdated snapshot in Redis. Changes to existing links are repeated until they are delivered (api/outbox.ts); a new link is
 * announced once, because a code that a redirector remembers as unknown is looked up again after seconds anyway.
 * @returns false when Redis did not accept it.
 */
export async function announceChanges(
  { commands }: Pick<Redis, 'commands'>,
  changes: readonly LinkChange[],
): Promise<boolean> {
  try {
    const keys = changes.map((change) => snapshotPrefixes[change.kind] + changeKey(change));
    await Promise.all(keys.map((key) => commands.set(key, changeMarker, 'PX', snapshotLimits.markerMs)));
    await Promise.all(changes.map((change) => commands.publish(channel, `${change.kind} ${changeKey(change)}`)));
    return true;
  } catch {
    return false;
  }
}

/** Tells the redirectors that the old service was asked about a code. If there is a link, it is announced first. */
export async function announceAsked({ commands }: Pick<Redis, 'commands'>, key: string): Promise<void> {
  await commands.publish(channel, `asked ${key}`);
}

export interface ChangeListener {
  /** @param key `linkKey` of a link, or the host of an app. */
  changed(kind: LinkChange['kind'], key: string): void;
  /** The old service was asked about this code. */
  asked(key: string): void;
  /** Called when announcements stop arriving, and with true when they resume, after changes may have been missed. */
  setSubscribed(isSubscribed: boolean): void;
}

export class ChangeSubscription {
  readonly #redis: Redis;
  readonly #listener: ChangeListener;
  readonly #heartbeatChannel = `links:heartbeat:${randomBytes(9).toString('base64url')}`;
  #subscription: Subscription | undefined;
  #heartbeat: NodeJS.Timeout | undefined;
  /** From `systemTime.elapsed()`. */
  #heardMs = 0;
  #isSubscribed = false;

  constructor(redis: Redis, listener: ChangeListener) {
    this.#redis = redis;
    this.#listener = listener;
  }

  /** Whether changes currently arrive within a second. */
  get isSubscribed(): boolean {
    return this.#isSubscribed;
  }

  /** Redis does not have to be reachable. */
  async start(): Promise<void> {
    this.#subscription = await this.#redis.subscribe(
      [channel, this.#heartbeatChannel],
      (from, message) => (from === channel ? this.#onMessage(message) : this.#onHeartbeat()),
      () => this.#onReconnect(),
    );
    this.#heartbeat = setInterval(() => this.#sendHeartbeat(), heartbeatIntervalMs).unref();
  }

  async stop(): Promise<void> {
    clearInterval(this.#heartbeat);
    await this.#subscription?.close();
  }

  #onMessage(message: string): void {
    const space = message.indexOf(' ');
    const kind = message.slice(0, space);
    if (kind === 'link' || kind === 'app') this.#listener.changed(kind, message.slice(space + 1));
    else if (kind === 'asked') this.#listener.asked(message.slice(space + 1));
  }

  #sendHeartbeat(): void {
    if (this.#isSubscribed && systemTime.elapsed() - this.#heardMs > silenceMaxMs) this.#setSubscribed(false);
    this.#redis.commands.publish(this.#heartbeatChannel, '').catch(() => this.#setSubscribed(false));
  }

  #onHeartbeat(): void {
    this.#heardMs = systemTime.elapsed();
    if (!this.#isSubscribed) this.#setSubscribed(true);
  }

  #onReconnect(): void {
    this.#heardMs = systemTime.elapsed();
    this.#setSubscribed(true);
  }

  #setSubscribed(isSubscribed: boolean): void {
    if (!isSubscribed && !this.#isSubscribed) return;
    this.#isSubscribed = isSubscribed;
    this.#listener.setSubscribed(isSubscribed);
  }
}
