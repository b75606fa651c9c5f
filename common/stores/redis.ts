/** The only access to Redis (or Valkey). While it is unavailable, commands fail immediately and never queue. */
import { createHash } from 'node:crypto';
import type { Socket } from 'node:net';
import { Redis as Client } from 'ioredis';

export type RedisCommands = Client;

export interface RedisOptions {
  readonly url: string;
  /** Shown in CLIENT LIST. */
  readonly name: string;
  /** Maximum duration of a command before it counts as failed. */
  readonly commandTimeoutMs?: number;
  /** Called when the connection is lost or fails; reconnecting is retried until close. */
  readonly onError?: (error: unknown) => void;
}

const connectTimeoutMs = 2_000;
const reconnectPauseMaxMs = 1_000;
/** A connection that leaves this many consecutive pings unanswered is dead, whatever TCP reports, and is replaced. */
const silentPingsMax = 3;
const pingIntervalMs = 1_000;

/** Steps in which a command's waiting time is counted. */
const patienceTicks = 4;

type SentCommand = Parameters<Client['sendCommand']>[0] & { sentAtTick?: number };

/**
 * Commands of one event loop turn are sent in one write. The client's auto-pipelining allocates a pipeline, two sets and
 * a map entry per turn, which V8 frees only at the next full collection (see TransientMap).
 */
class GatheringClient extends Client {
  #ticks = 0;

  /**
   * Fails commands that stay unanswered for this long. Time counts only in steps between which this process reads its
   * sockets: with a timer for each command, a process that was paused for a second would fail commands whose replies
   * have already arrived.
   */
  failOverdue(patienceMs: number): void {
    const timer = setInterval(() => {
      this.#ticks++;
      for (let at = 0; at < this.commandQueue.length; at++) {
        // The type of the queue is less specific than what `sendCommand` adds to it.
        const command = this.commandQueue.peekAt(at)?.command as SentCommand | undefined;
        if (command?.sentAtTick === undefined || this.#ticks - command.sentAtTick <= patienceTicks) break;
        command.reject(new Error('Command timed out'));
      }
    }, patienceMs / patienceTicks).unref();
    this.once('end', () => clearInterval(timer));
  }

  /** Sends the commands of `work` in one write at its end, not at the end of the turn. */
  sendTogether(work: () => void): void {
    const socket: Socket | undefined = this.stream;
    socket?.cork();
    try {
      work();
    } finally {
      socket?.uncork();
    }
  }

  override sendCommand(...args: Parameters<Client['sendCommand']>): unknown {
    const command: SentCommand = args[0];
    command.sentAtTick = this.#ticks;
    const socket: Socket | undefined = this.stream;
    if (socket !== undefined && socket.writableCorked === 0) {
      socket.cork();
      setImmediate(() => socket.uncork());
    }
    return super.sendCommand(...args);
  }
}

/** Codes of error replies. MISCONF: it can't persist its data (for example, the disk is full) and rejects writes until it can. */
const conditions: ReadonlySet<string> = new Set([
  ...['LOADING', 'OOM', 'MISCONF', 'READONLY', 'MASTERDOWN', 'NOREPLICAS', 'BUSY', 'CLUSTERDOWN', 'TRYAGAIN'],
]);

/** A Lua script: its keys, its arguments, its reply. Sent by hash, and in full if the server doesn't know it. */
export type Script = (keys: readonly string[], args: readonly (string | number | Buffer)[]) => Promise<unknown>;

export interface Subscription {
  close(): Promise<void>;
}

function pauseBeforeAttempt(attempt: number): number {
  return Math.min(25 * 2 ** Math.min(attempt, 10), reconnectPauseMaxMs);
}

/**
 * Whether the failure is about the server's state (unavailable, loading, out of memory or disk, a read-only replica) and not
 * about the command. The first word of an error reply is its code (Redis serialization protocol specification).
 */
export function isRedisUnavailable(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  if (!isReplyError(error)) return !(error instanceof TypeError) && !(error instanceof RangeError);
  return conditions.has(error.message.split(' ', 1)[0] ?? '');
}

/** Whether Redis is out of memory and evicts nothing to make room. */
export function isRedisFull(error: unknown): boolean {
  return isReplyError(error) && error instanceof Error && /\bOOM\b/.test(error.message);
}

/** Whether Redis was reached and answered with an error. */
export function isReplyError(error: unknown): boolean {
  return error instanceof Error && error.name === 'ReplyError';
}

/**
 * Without it, an unplugged cable is noticed only after a quarter of an hour. Turns are counted instead of time, so that
 * a paused process does not consider its connections dead.
 */
function replaceWhenSilent(client: Client): void {
  let silentPings = 0;
  const timer = setInterval(() => {
    if (client.status !== 'ready' && client.status !== 'connect') {
      silentPings = 0;
      return;
    }
    if (++silentPings > silentPingsMax) {
      silentPings = 0;
      client.disconnect(true);
    } else if (client.status === 'ready') {
      client.ping().then(
        () => {
          silentPings = 0;
        },
        () => undefined,
      );
    }
  }, pingIntervalMs).unref();
  client.once('end', () => clearInterval(timer));
}

export class Redis {
  /** Every command of Redis; those of one turn of the event loop are sent together. */
  readonly commands: RedisCommands;
  readonly #client: GatheringClient;
  readonly #options: RedisOptions;
  #closing = false;

  constructor(options: RedisOptions) {
    this.#options = options;
    this.#client = this.#open(options.name, options.commandTimeoutMs ?? 1_000);
    this.commands = this.#client;
  }

  /**
   * Waits for the first connection, at most two seconds. An unavailable server does not prevent a start: false is
   * returned, and the client connects once the server is back.
   */
  async connect(): Promise<boolean> {
    if (this.commands.status === 'wait') this.commands.connect().catch(() => undefined);
    return this.#whenReady(connectTimeoutMs);
  }

  isConnected(): boolean {
    return this.commands.status === 'ready';
  }

  async isReady(): Promise<boolean> {
    try {
      return (await this.commands.ping()) === 'PONG';
    } catch {
      return false;
    }
  }

  /**
   * Sends the commands of `work` in one write when it returns. Used at the end of a turn, where it saves a turn of the
   * event loop.
   */
  together(work: () => void): void {
    this.#client.sendTogether(work);
  }

  script(lua: string): Script {
    const hash = createHash('sha1').update(lua).digest('hex');
    return async (keys, args) => {
      try {
        return await this.commands.evalsha(hash, keys.length, ...keys, ...args);
      } catch (error) {
        if (!(error instanceof Error && error.message.startsWith('NOSCRIPT'))) throw error;
        return await this.commands.eval(lua, keys.length, ...keys, ...args);
      }
    };
  }

  /**
   * Subscribes on a separate connection, also after every reconnection. `onGap` is called at each (re)connection: messages
   * published in between are lost, so caches must revalidate their entries.
   */
  async subscribe(
    channels: readonly string[],
    onMessage: (channel: string, message: string) => void,
    onGap: () => void,
  ): Promise<Subscription> {
    const connection = this.#open(`${this.#options.name}-subscriber`, 0);
    connection.on('message', onMessage);
    connection.on('ready', () => {
      connection.subscribe(...channels).then(onGap, (error: Error) => {
        this.#options.onError?.(error);
        connection.disconnect(true);
      });
    });
    connection.connect().catch(() => undefined);
    return {
      close: async () => {
        connection.removeAllListeners('ready');
        connection.disconnect();
      },
    };
  }

  /** Waits for running commands, then closes. */
  async close(): Promise<void> {
    this.#closing = true;
    if (this.isConnected()) await this.commands.quit().catch(() => undefined);
    this.commands.disconnect();
  }

  #open(name: string, commandTimeoutMs: number): GatheringClient {
    const client = new GatheringClient(this.#options.url, {
      lazyConnect: true,
      connectionName: name,
      connectTimeout: connectTimeoutMs,
      // A command fails if it can't be sent now, or if its connection breaks before the answer.
      enableOfflineQueue: false,
      maxRetriesPerRequest: 0,
      autoResubscribe: false,
      retryStrategy: (attempt) => (this.#closing ? null : pauseBeforeAttempt(attempt)),
    });
    if (commandTimeoutMs > 0) {
      client.failOverdue(commandTimeoutMs);
      client.on('ready', () => void this.#checkMode(client));
    }
    client.on('error', (error: Error) => this.#options.onError?.(error));
    replaceWhenSilent(client);
    return client;
  }

  /** A node of a Redis Cluster refuses keys of other nodes, and a Sentinel knows no keys. */
  async #checkMode(client: GatheringClient): Promise<void> {
    const text = await client.info('server').catch(() => '');
    const [, mode = 'standalone'] = /^redis_mode:(\w+)/m.exec(text) ?? [];
    if (mode === 'standalone') return;
    this.#options.onError?.(new Error(`this server is in ${mode} mode, which is not supported: use one primary`));
  }

  #whenReady(timeoutMs: number): Promise<boolean> {
    if (this.isConnected()) return Promise.resolve(true);
    return new Promise((resolve) => {
      const onReady = () => finish(true);
      const timer = setTimeout(() => finish(false), timeoutMs);
      const finish = (isReady: boolean) => {
        clearTimeout(timer);
        this.commands.off('ready', onReady);
        resolve(isReady);
      };
      this.commands.on('ready', onReady);
    });
  }
}
