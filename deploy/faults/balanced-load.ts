/**
 * A load balancer with its clients: requests over persistent connections, to several addresses in turn. If a connection
 * is refused, the request goes to the next address, as with any balancer. A connection that ends during a request is a
 * failed request.
 */
import { Agent, request } from 'node:http';
import { sleep, systemTime } from '#common/time.ts';

export interface BalancedLoadOptions {
  readonly ports: readonly number[];
  readonly path: string;
  readonly method: 'GET' | 'POST';
  readonly headers: Readonly<Record<string, string>>;
  readonly body: () => string;
  readonly senders: number;
  readonly pauseMs: number;
}

const patienceMs = 15_000;

export class BalancedLoad {
  readonly #options: BalancedLoadOptions;
  readonly #agent: Agent;
  /** Answers by status; 0 is a connection that ended during a request. */
  readonly answers = new Map<number, number>();
  readonly failures: string[] = [];
  #senders: Promise<void>[] = [];
  #isStopping = false;
  #turn = 0;

  constructor(options: BalancedLoadOptions) {
    this.#options = options;
    this.#agent = new Agent({ keepAlive: true, maxSockets: options.senders });
  }

  start(): void {
    this.#senders = Array.from({ length: this.#options.senders }, () => this.#send());
  }

  async stop(): Promise<void> {
    this.#isStopping = true;
    await Promise.all(this.#senders);
    this.#agent.destroy();
  }

  count(status: number): number {
    return this.answers.get(status) ?? 0;
  }

  async #send(): Promise<void> {
    const { ports, pauseMs, body } = this.#options;
    while (!this.#isStopping) {
      const payload = body();
      const first = this.#turn++;
      let status: number | null = null;
      for (let tries = 0; status === null && tries < ports.length; tries++) {
        status = await this.#exchange(ports[(first + tries) % ports.length] ?? 0, payload);
      }
      if (status === null) this.failures.push('every address refuses connections');
      this.answers.set(status ?? 0, this.count(status ?? 0) + 1);
      await sleep(systemTime, pauseMs);
    }
  }

  /** @returns null if the connection was refused. */
  #exchange(port: number, payload: string): Promise<number | null> {
    const { method, path, headers } = this.#options;
    const all = { ...headers, 'content-length': String(Buffer.byteLength(payload)) };
    return new Promise((settle) => {
      const sent = request({ host: '127.0.0.1', port, path, method, agent: this.#agent, headers: all }, (answer) => {
        answer.resume();
        answer.once('error', () => settle(0));
        answer.once('end', () => settle(answer.statusCode ?? 0));
      });
      sent.setTimeout(patienceMs, () => sent.destroy());
      sent.once('error', (error: NodeJS.ErrnoException) => {
        if (error.code !== 'ECONNREFUSED')
          this.failures.push(`${error.message}, ${sent.reusedSocket ? 'reused' : 'new'} connection`);
        settle(error.code === 'ECONNREFUSED' ? null : 0);
      });
      sent.end(payload);
    });
  }
}
