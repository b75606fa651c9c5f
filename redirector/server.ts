/**
 * The redirector's ports. Several processes may listen on the same ports; the kernel distributes the connections.
 * A stopping redirector accepts no new connections and closes each open one with its next answer, so no request fails.
 */
import type { Clock } from '#common/clock.ts';
import {
  App,
  type HttpResponse,
  hstsValue,
  type TemplatedApp,
  type TlsFiles,
  tlsApp,
  type us_listen_socket,
  us_listen_socket_close,
  us_socket_local_port,
} from '#common/http/uws.ts';
import { sleep, systemTime } from '#common/time.ts';
import type { Edge } from './edge.ts';
import { BEACON_PATH } from './signal-beacon.ts';

export interface Listening {
  readonly host: string;
  /** 0 takes a free port. */
  readonly port: number;
  readonly tls?: TlsFiles;
  /** For how long browsers must use only HTTPS, sent over TLS; 0 or absent sends no such header. */
  readonly hstsSeconds?: number;
}

const closePollMs = 20;

export class RedirectorServer {
  readonly #edge: Edge;
  readonly #clock: Clock;
  readonly #apps: TemplatedApp[] = [];
  readonly #sockets: us_listen_socket[] = [];
  #connections = 0;

  constructor(edge: Edge, clock: Clock) {
    this.#edge = edge;
    this.#clock = clock;
  }

  get isListening(): boolean {
    return this.#sockets.length > 0;
  }

  get connections(): number {
    return this.#connections;
  }

  /**
   * Opens a port, shared with other processes that open it. @returns the port. @throws if it can't be opened or the
   * certificate can't be read.
   */
  listen({ host, port, tls, hstsSeconds = 0 }: Listening): Promise<number> {
    const edge = this.#edge;
    const app = tls ? tlsApp(tls) : App();
    const hsts = tls ? hstsValue(hstsSeconds) : '';
    if (hsts === '') {
      app.get('/*', (res, req) => edge.get(res, req));
      app.head('/*', (res, req) => edge.lookUp(res, req, true));
      app.post(BEACON_PATH, (res, req) => edge.receiveSignals(res, req));
      app.any('/*', (res, req) => edge.refuseMethod(res, req));
    } else {
      app.get('/*', (res, req) => edge.get(withHsts(res, hsts), req));
      app.head('/*', (res, req) => edge.lookUp(withHsts(res, hsts), req, true));
      app.post(BEACON_PATH, (res, req) => edge.receiveSignals(withHsts(res, hsts), req));
      app.any('/*', (res, req) => edge.refuseMethod(withHsts(res, hsts), req));
    }
    const countConnections = (_: unknown, change: number) => {
      this.#connections += change > 0 ? 1 : -1;
    };
    app.filter(countConnections);
    this.#apps.push(app);
    return new Promise((done, fail) => {
      app.listen(host, port, (socket) => {
        if (!socket) {
          fail(new Error(`port ${port} on ${host} is in use or not allowed`));
          return;
        }
        this.#sockets.push(socket);
        done(us_socket_local_port(socket));
      });
    });
  }

  /** Idle connections are closed at the deadline. */
  async stop(deadlineMs: number): Promise<void> {
    this.#edge.state.isStopping = true;
    for (const socket of this.#sockets.splice(0)) us_listen_socket_close(socket);
    const endMs = this.#clock() + deadlineMs;
    while ((this.#connections > 0 || this.#edge.state.waiting > 0) && this.#clock() < endMs) {
      await sleep(systemTime, closePollMs);
    }
    for (const app of this.#apps) app.close();
  }
}

/** The header directly follows the status in every answer; it costs nothing if it is switched off. */
function withHsts(res: HttpResponse, hsts: string): HttpResponse {
  const writeStatus = res.writeStatus.bind(res);
  res.writeStatus = (status) => writeStatus(status).writeHeader('Strict-Transport-Security', hsts);
  return res;
}
