/** A stream of the simulated JetStream: its messages, limits, and detection of duplicates. */
export type Headers = ReadonlyMap<string, string>;
export const messageIdHeader = 'Nats-Msg-Id';
export const noHeaders: Headers = new Map();

export interface StoredMessage {
  readonly seq: number;
  readonly subject: string;
  readonly bytes: Buffer;
  readonly headers: Headers;
  readonly id: string;
  /** Epoch milliseconds by the server's clock. */
  readonly storedAt: number;
  readonly size: number;
}

/** The options that this project sets. Durations in nanoseconds, as in JetStream. */
export interface StreamConfig {
  readonly name: string;
  readonly subjects: readonly string[];
  readonly max_bytes: number;
  readonly max_age: number;
  readonly duplicate_window: number;
}

export type PublishOutcome =
  | { readonly kind: 'stored'; readonly seq: number }
  | { readonly kind: 'duplicate'; readonly seq: number }
  | { readonly kind: 'full' };

const nanosPerMs = 1_000_000;
/**
 * The size of a message in a file besides its subject, headers and payload (nats-server, filestore.go,
 * fileStoreMsgSize).
 */
const entryBytes = 30;
/** Of the headers of a message: their first line and last line break, and what each has besides its name and value. */
const [headBytes, headerBytes] = [16, 4];

const everythingBelow = '>'.charCodeAt(0);

/** Whether a subject matches a pattern with `*` and `>`. */
export function isMatch(pattern: string, subject: string): boolean {
  if (pattern === subject) return true;
  const last = pattern.charCodeAt(pattern.length - 1);
  if (last === everythingBelow && pattern.indexOf('*') === -1)
    return pattern.length === 1 || (subject.length >= pattern.length && subject.startsWith(pattern.slice(0, -1)));
  if (!pattern.includes('*')) return false;
  const [wanted, given] = [pattern.split('.'), subject.split('.')];
  for (const [at, token] of wanted.entries()) {
    if (token === '>') return given.length > at;
    if (given[at] === undefined || (token !== '*' && token !== given[at])) return false;
  }
  return wanted.length === given.length;
}

export class SimulatedStream {
  config: StreamConfig;
  messages: StoredMessage[] = [];
  lastSeq = 0;
  bytes = 0;
  /** Messages that were removed for their age. */
  expired = 0;
  #ids = new Map<string, { seq: number; at: number }>();

  /** When it was created, which distinguishes it from an earlier stream of the same name. */
  readonly created: string;

  constructor(config: StreamConfig, created: string) {
    this.config = config;
    this.created = created;
  }

  takes(subject: string): boolean {
    for (const pattern of this.config.subjects) if (isMatch(pattern, subject)) return true;
    return false;
  }

  publish(subject: string, bytes: Buffer, headers: Headers, now: number): PublishOutcome {
    const id = headers.get(messageIdHeader) ?? '';
    const known = id === '' ? undefined : this.#ids.get(id);
    if (known !== undefined && now - known.at < this.config.duplicate_window / nanosPerMs) {
      return { kind: 'duplicate', seq: known.seq };
    }
    const size = entryBytes + subject.length + bytes.length + sizeOf(headers);
    if (this.config.max_bytes > 0 && this.bytes + size > this.config.max_bytes) return { kind: 'full' };
    const seq = ++this.lastSeq;
    this.messages.push({ seq, subject, bytes, headers, id, storedAt: now, size });
    this.bytes += size;
    if (id !== '') this.#ids.set(id, { seq, at: now });
    return { kind: 'stored', seq };
  }

  /** The index of the message with this sequence, or of the next one. */
  indexOf(seq: number): number {
    let [from, to] = [0, this.messages.length];
    while (from < to) {
      const middle = (from + to) >> 1;
      if ((this.messages[middle]?.seq ?? 0) < seq) from = middle + 1;
      else to = middle;
    }
    return from;
  }

  get firstSeq(): number {
    return this.messages[0]?.seq ?? this.lastSeq + 1;
  }

  /** Removes messages that exceed the maximum age. */
  expire(now: number): void {
    const before = now - this.config.max_age / nanosPerMs;
    if ((this.messages[0]?.storedAt ?? now) < before)
      this.expired += this.#remove((message) => message.storedAt < before);
    for (const [id, { at }] of this.#ids) {
      if (now - at < this.config.duplicate_window / nanosPerMs) break;
      this.#ids.delete(id);
    }
  }

  /** @param seq messages below it are removed; 0 for all. @returns how many were removed. */
  purge(filter: string, seq: number): number {
    return this.#remove((message) => (seq === 0 || message.seq < seq) && isMatch(filter, message.subject));
  }

  /** Loses the end of the file, which was not synced; its sequences are used a second time. */
  loseTail(count: number): void {
    const lost = this.messages.splice(Math.max(0, this.messages.length - count));
    for (const { size, id } of lost) {
      this.bytes -= size;
      this.#ids.delete(id);
    }
    this.lastSeq = this.messages.at(-1)?.seq ?? (lost[0]?.seq ?? this.lastSeq + 1) - 1;
  }

  #remove(isGone: (message: StoredMessage) => boolean): number {
    const before = this.messages.length;
    this.messages = this.messages.filter((message) => {
      if (!isGone(message)) return true;
      this.bytes -= message.size;
      return false;
    });
    return before - this.messages.length;
  }
}

function sizeOf(headers: Headers): number {
  let size = headers.size === 0 ? 0 : headBytes;
  for (const [name, value] of headers) size += headerBytes + name.length + value.length;
  return size;
}
