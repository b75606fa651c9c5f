/**
 * One request and its answer, on a socket that may close at any moment. States: open → answering (a stream) → closed.
 * `closed` is entered by the last byte or by the client's abort, whichever is first; after it the uWebSockets.js
 * response must not be touched, and nothing here does.
 */
import { toJson } from '#common/exact-json.ts';
import type { FollowedRequest } from '#common/tracing/request-traces.ts';
import type { ErrorCode, Rejection } from './rejection.ts';
import type { Answer } from './route.ts';
import { endHead, type HttpResponse } from './uws.ts';

const reasons: Readonly<Record<number, string>> = {
  200: '200 OK',
  201: '201 Created',
  202: '202 Accepted',
  204: '204 No Content',
  304: '304 Not Modified',
  400: '400 Bad Request',
  401: '401 Unauthorized',
  403: '403 Forbidden',
  404: '404 Not Found',
  408: '408 Request Timeout',
  429: '429 Too Many Requests',
  500: '500 Internal Server Error',
};

/** uWebSockets.js writes values unchecked: a line break in one would allow header injection. */
const unsafeInHeader = /[^\t\x20-\x7e\x80-\xff]/;
const STREAM_STALL_MS = 60_000;

export interface Quota {
  readonly limit: number;
  readonly remaining: number;
  /** Unix time in seconds at which the window ends. */
  readonly resetEpochSeconds: number;
}

export class Exchange {
  readonly id: string;
  readonly receivedMs: number;
  /** By a clock that can't jump; for its age. */
  readonly startedMs = performance.now();
  /** When an endless stream began; 0 for every other answer. */
  streamingMs = 0;
  /** Headers of this answer regardless of its content, each after a line break: request id, limits, CORS. */
  #lines: string;
  closesConnection = false;
  /** A HEAD gets only headers: a body would be read as the beginning of the next answer. */
  isHead = false;
  isBodyComplete = false;
  /** Bytes of the body that have arrived. */
  bodyBytes = 0;
  /** Its trace, if it is sampled. */
  followed: FollowedRequest | undefined;
  /** One of the dashboard's files. */
  isPage = false;
  /** Its failure was logged as a programming error. */
  isReported = false;
  isClosed = false;
  isAnswering = false;
  /** Of the answer; 0 until there is one. */
  status = 0;
  readonly #res: HttpResponse;
  readonly #onClosed: (exchange: Exchange) => void;
  readonly #onStreamFailure: (error: unknown) => void;
  #onAbort: (() => void) | null = null;
  #stalledSinceMs = 0;

  /** @param onStreamFailure called with the reason when an answer is cut off after its status was sent. */
  constructor(
    res: HttpResponse,
    id: string,
    receivedMs: number,
    onClosed: (exchange: Exchange) => void,
    onStreamFailure: (error: unknown) => void,
  ) {
    this.#res = res;
    this.#onStreamFailure = onStreamFailure;
    this.id = id;
    this.receivedMs = receivedMs;
    this.#lines = `\r\nX-Request-Id: ${id}\r\nX-Content-Type-Options: nosniff`;
    this.#onClosed = onClosed;
    res.onAborted(() => this.#close());
  }

  /** uWebSockets.js closes a connection whose body arrives slower than 16 kB/s for ten seconds; this resets that timeout. */
  keepReading(): void {
    if (this.isClosed) return;
    this.#res.pause();
    this.#res.resume();
  }

  whenAborted(callback: () => void): void {
    this.#onAbort = callback;
  }

  setQuota({ limit, remaining, resetEpochSeconds }: Quota): void {
    this.addLines(
      `\r\nX-RateLimit-Limit: ${limit}\r\nX-RateLimit-Remaining: ${remaining}\r\nX-RateLimit-Reset: ${resetEpochSeconds}`,
    );
  }

  /** @param lines headers of ours, each after a line break; never text from a request. */
  addLines(lines: string): void {
    this.#lines += lines;
  }

  reject(rejection: Rejection): void {
    const code: ErrorCode = rejection.code;
    const headers: Record<string, string> = {};
    if (rejection.retryAfterSeconds !== null) headers['Retry-After'] = String(rejection.retryAfterSeconds);
    if (code === 'UNAUTHORIZED') headers['WWW-Authenticate'] = 'Bearer';
    this.answer({ status: rejection.status, body: rejection.body, headers });
  }

  answer(answer: Answer): void {
    if (this.isClosed || this.isAnswering) {
      if ('stream' in answer) void leave(answer.stream);
      return;
    }
    const head = this.#head(answer);
    this.status = answer.status;
    if ('stream' in answer && this.isHead) {
      void leave(answer.stream);
      this.#res.cork(() => {
        this.#res.writeStatus(head);
        endHead(this.#res, null, this.closesConnection);
      });
      answer.onClosed?.();
      this.#close();
      return;
    }
    if ('stream' in answer) {
      this.isAnswering = true;
      void this.#stream(answer, head);
      return;
    }
    const bytes = 'bytes' in answer ? answer.bytes : toJson(answer.body);
    this.#res.cork(() => {
      this.#res.writeStatus(head);
      if (this.isHead) endHead(this.#res, Buffer.byteLength(bytes), this.closesConnection);
      else this.#res.end(bytes, this.closesConnection);
    });
    this.#close();
  }

  /** Closes a connection whose answer cannot be completed (half a stream has already been sent). */
  cut(): void {
    if (!this.isClosed) this.#res.close();
  }

  /** @param nowMs of the clock of `startedMs`. */
  isStalled(nowMs: number): boolean {
    return this.#stalledSinceMs !== 0 && nowMs - this.#stalledSinceMs > STREAM_STALL_MS;
  }

  /**
   * The status with all headers, for one call: uWebSockets.js writes it unchanged, and each call from JavaScript costs 0.3 µs.
   * @throws if a header would end early.
   */
  #head(answer: Answer): string {
    const { status, headers } = answer;
    const contentType = 'contentType' in answer ? answer.contentType : 'application/json; charset=utf-8';
    let head = `${reasons[status] ?? `${status} Status`}\r\nContent-Type: ${contentType}`;
    if (!headers?.['Cache-Control']) head += '\r\nCache-Control: no-store';
    head += this.#lines;
    if (headers === undefined) return head;
    for (const [name, value] of Object.entries(headers)) {
      if (unsafeInHeader.test(value)) throw new Error(`the header ${name} contains a control character`);
      head += `\r\n${name}: ${value}`;
    }
    return head;
  }

  async #stream(answer: Extract<Answer, { stream: unknown }>, head: string): Promise<void> {
    let resume: (() => void) | null = null;
    this.#res.onWritable(() => {
      resume?.();
      return true;
    });
    this.#onAbort = () => {
      answer.onClosed?.();
      resume?.();
    };
    if (answer.onClosed) this.streamingMs = Date.now();
    try {
      this.#res.cork(() => this.#res.writeStatus(head));
      for await (const chunk of answer.stream) {
        if (this.isClosed) return;
        if (chunk.byteLength === 0) continue;
        let flows = true;
        this.#res.cork(() => {
          flows = this.#res.write(chunk);
        });
        if (flows) continue;
        this.#stalledSinceMs = performance.now();
        await new Promise<void>((drained) => {
          resume = drained;
        });
        resume = null;
        this.#stalledSinceMs = 0;
        if (this.isClosed) return;
      }
      if (this.isClosed) return;
      this.#res.cork(() => this.#res.end());
      this.#close();
    } catch (error) {
      if (!this.isClosed) this.#onStreamFailure(error);
      // The status was already sent: cutting the connection is the only remaining way to signal that the rest is
      // missing.
      this.cut();
    }
  }

  #close(): void {
    if (this.isClosed) return;
    this.isClosed = true;
    this.#onAbort?.();
    this.#onClosed(this);
  }
}

/** Ends an unread stream so that it releases its resources. */
async function leave(stream: AsyncIterable<Uint8Array>): Promise<void> {
  try {
    for await (const _ of stream) return;
  } catch {
    // The client is gone, so there is no one to report to.
  }
}
