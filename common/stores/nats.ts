/**
 * The connection to NATS, and the only file that uses its client. It uses JetStream through its JSON API (docs.nats.io,
 * "JetStream wire API"), because Signpost only needs a raw publish with a reply inbox, a pull with one, and a stream
 * whose configuration is read back.
 */
import {
  type ConnectionOptions,
  connect,
  createInbox,
  Empty,
  Events,
  headers,
  type Msg,
  type NatsConnection,
  NatsError,
} from 'nats';
import { LogNames } from '#common/log/log-names.ts';
import { urlsIn } from '#common/process/url-list.ts';

/** One message. */
export interface NatsMessage {
  readonly subject: string;
  /** Reply subject; for a stream delivery, it encodes the position in the stream. Empty if there is none. */
  readonly reply: string;
  readonly bytes: Buffer;
  /** Status of an answer without content (404 no messages, 408 timeout, 503 no responders), or 0. */
  readonly status: number;
  header(name: string): string;
}

export interface SubscribeOptions {
  /** Of all subscribers of a group one gets each message. */
  readonly group?: string;
}

export interface PublishOptions {
  readonly reply?: string;
  readonly messageId?: string;
  /** A header of its own, for a message with an id. */
  readonly header?: readonly [name: string, value: string];
}

/** The operations of NATS that the record path uses. */
export interface NatsClient {
  /** The installation's names of its stream and subjects. */
  readonly names: LogNames;
  readonly isConnected: boolean;
  readonly isClosed: boolean;
  /** Calls back after each reconnection: whatever was in flight may be lost. @returns a function that ends it. */
  onReconnect(callback: () => void): () => void;
  publish(subject: string, bytes: Uint8Array, options?: PublishOptions): void;
  /** @returns a function that ends the subscription. */
  subscribe(subject: string, callback: (message: NatsMessage) => void, options?: SubscribeOptions): () => void;
  /** A unique subject. */
  inbox(): string;
  /** Sends a request. Resolves with the answer, or `undefined` if none arrives in time. */
  request(subject: string, bytes?: Uint8Array, timeoutMs?: number): Promise<NatsMessage | undefined>;
  /** Waits until the server has processed everything that was published. */
  flush(): Promise<void>;
}

export interface NatsOptions {
  readonly installation: string;
  /**
   * Or several servers of a cluster, separated by commas. With tls:// and ?ca=FILE, only a server with a certificate of this
   * file is trusted, and gets the password.
   */
  readonly url: string;
  readonly name: string;
  /** Called with one line when the server refuses an operation, such as a subject that this user may not use. */
  readonly onRefusal?: (line: string) => void;
  /** Called for each attempt of the first connection that fails, with its reason. */
  readonly onError?: (error: unknown) => void;
  /** false: the first connection is tried once, and its failure thrown. */
  readonly waitsForServer?: boolean;
}

const pingIntervalMs = 2_000;
const reconnectMs = 250;
/** User names that are valid in a subject. */
const subjectToken = /^[A-Za-z0-9_-]+$/;

/** Prefix of a user's inboxes, so that a server can allow each user only its own. */
export function inboxPrefixOf(user: string): string {
  return subjectToken.test(user) ? `_INBOX.${user}` : '_INBOX';
}

export class Nats implements NatsClient {
  readonly names: LogNames;
  readonly #connection: NatsConnection;
  readonly #inboxPrefix: string;
  readonly #onRefusal: NatsOptions['onRefusal'];
  #isConnected = true;
  readonly #reconnected = new Set<() => void>();

  private constructor(
    connection: NatsConnection,
    names: LogNames,
    inboxPrefix: string,
    onRefusal: NatsOptions['onRefusal'],
  ) {
    this.names = names;
    this.#connection = connection;
    this.#inboxPrefix = inboxPrefix;
    this.#onRefusal = onRefusal;
    void this.#watch();
  }

  /** Connects, waiting as long as necessary, and reconnects automatically. */
  static async connect(options: NatsOptions): Promise<Nats> {
    const urls = urlsIn(options.url).map((url) => new URL(url));
    const [url, ...others] = urls;
    if (url === undefined) throw new Error('NATS_URL names no server');
    if (others.some((other) => other.username !== url.username || other.password !== url.password)) {
      throw new Error(
        'The URLs in NATS_URL must have the same user and password: a connection may fail over from one server to another.',
      );
    }
    const user = decodeURIComponent(url.username);
    const inboxPrefix = inboxPrefixOf(user);
    const caFile = url.searchParams.get('ca');
    const first: ConnectionOptions = {
      servers: urls.map(({ host }) => host),
      name: options.name,
      inboxPrefix,
      ...(user === '' ? {} : { user, pass: decodeURIComponent(url.password) }),
      ...(urls.some(({ protocol }) => protocol === 'tls:') ? { tls: caFile === null ? {} : { caFile } } : {}),
      maxReconnectAttempts: -1,
      reconnectTimeWait: reconnectMs,
      reconnectJitter: 100,
      pingInterval: pingIntervalMs,
      maxPingOut: 2,
    };
    const connection = await firstConnection(first, options);
    return new Nats(connection, new LogNames(options.installation), inboxPrefix, options.onRefusal);
  }

  get isConnected(): boolean {
    return this.#isConnected;
  }

  get isClosed(): boolean {
    return this.#connection.isClosed();
  }

  onReconnect(callback: () => void): () => void {
    this.#reconnected.add(callback);
    return () => this.#reconnected.delete(callback);
  }

  publish(subject: string, bytes: Uint8Array, options: PublishOptions = {}): void {
    if (options.messageId === undefined) {
      this.#connection.publish(subject, bytes, options.reply === undefined ? {} : { reply: options.reply });
      return;
    }
    const head = headers();
    head.set('Nats-Msg-Id', options.messageId);
    if (options.header !== undefined) head.set(...options.header);
    this.#connection.publish(
      subject,
      bytes,
      options.reply === undefined ? { headers: head } : { reply: options.reply, headers: head },
    );
  }

  subscribe(subject: string, callback: (message: NatsMessage) => void, { group }: SubscribeOptions = {}): () => void {
    const subscription = this.#connection.subscribe(subject, {
      ...(group === undefined ? {} : { queue: group }),
      callback: (error, message) => {
        if (error === null) callback(messageOf(message));
      },
    });
    return () => subscription.unsubscribe();
  }

  inbox(): string {
    return createInbox(this.#inboxPrefix);
  }

  async request(subject: string, bytes: Uint8Array = Empty, timeoutMs = 5_000): Promise<NatsMessage | undefined> {
    try {
      return messageOf(await this.#connection.request(subject, bytes, { timeout: timeoutMs }));
    } catch {
      return undefined;
    }
  }

  async flush(): Promise<void> {
    await this.#connection.flush();
  }

  async close(): Promise<void> {
    this.#reconnected.clear();
    await this.#connection.close();
  }

  async #watch(): Promise<void> {
    for await (const status of this.#connection.status()) {
      if (status.type === Events.Error) {
        const { operation = '', subject = '' } = status.permissionContext ?? {};
        this.#onRefusal?.(`NATS refuses ${`${operation} ${subject}`.trim() || 'this connection'}: ${status.data}`);
      }
      if (status.type === Events.Disconnect) this.#isConnected = false;
      if (status.type === Events.Reconnect) {
        this.#isConnected = true;
        for (const callback of this.#reconnected) callback();
      }
    }
  }
}

/** The library would wait itself, but says nothing about why it does: an unknown CA, a wrong password. */
async function firstConnection(first: ConnectionOptions, options: NatsOptions): Promise<NatsConnection> {
  for (;;) {
    try {
      return await connect(first);
    } catch (error) {
      if (options.waitsForServer === false) throw reasonOf(error);
      options.onError?.(reasonOf(error));
      await new Promise((done) => setTimeout(done, reconnectMs));
    }
  }
}

/** The reason is in the error that the library has wrapped, such as that of TLS. */
function reasonOf(error: unknown): Error {
  if (error instanceof NatsError && error.chainedError !== undefined) return error.chainedError;
  return error instanceof Error ? error : new Error(String(error));
}

function messageOf(message: Msg): NatsMessage {
  const { data } = message;
  return {
    subject: message.subject,
    reply: message.reply ?? '',
    bytes: Buffer.from(data.buffer, data.byteOffset, data.byteLength),
    status: message.headers?.code ?? 0,
    header: (name) => message.headers?.get(name) ?? '',
  };
}
