/** Sends exactly the given bytes over its own persistent connections. */
import { Agent, request } from 'node:https';

const ANSWER_BYTES_MAX = 64 << 20;
const ANSWER_TIMEOUT_MS = 30_000;

export interface Sent {
  readonly method: string;
  /** From /v1 on, the query included. */
  readonly target: string;
  readonly headers: Readonly<Record<string, string | string[]>>;
  readonly body: Uint8Array | null;
}

export interface Received {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: Buffer;
}

export class Wire {
  readonly #port: number;
  readonly #agent: Agent;

  constructor(port: number, connections = 16) {
    this.#port = port;
    this.#agent = new Agent({ keepAlive: true, rejectUnauthorized: false, maxSockets: connections });
  }

  /** @returns the answer, or a description of what went wrong on the connection. */
  async send(sent: Sent): Promise<Received | string> {
    // A persistent connection that the server just closed answers nothing: that is not a finding, so try once more.
    const first = await this.#once(sent);
    return first === 'ECONNRESET' || first === 'EPIPE' ? this.#once(sent) : first;
  }

  close(): void {
    this.#agent.destroy();
  }

  #once({ method, target, headers, body }: Sent): Promise<Received | string> {
    return new Promise((settle) => {
      const options = { host: '127.0.0.1', port: this.#port, agent: this.#agent, method, path: target };
      const length = body === null ? {} : { 'content-length': String(body.byteLength) };
      const outgoing = request({ ...options, headers: { ...length, ...headers }, timeout: ANSWER_TIMEOUT_MS });
      const failed = (error: NodeJS.ErrnoException) => settle(error.code ?? error.message);
      outgoing.on('timeout', () => outgoing.destroy(new Error('no answer in time')));
      outgoing.on('error', failed);
      outgoing.on('response', (response) => {
        const chunks: Buffer[] = [];
        let size = 0;
        response.on('data', (chunk: Buffer) => {
          size += chunk.byteLength;
          if (size > ANSWER_BYTES_MAX) outgoing.destroy(new Error('an answer without end'));
          else chunks.push(chunk);
        });
        response.on('error', failed);
        response.on('end', () =>
          settle({ status: response.statusCode ?? 0, headers: response.headers, body: Buffer.concat(chunks) }),
        );
      });
      if (body === null) outgoing.end();
      else outgoing.end(body);
    });
  }
}
