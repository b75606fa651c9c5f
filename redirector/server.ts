/**
 * The redirector's ports. Several processes may listen on the same ports; the kernel distributes the connections. A
 * stopping redirector accepts the connections that are already queued and no others, and closes each open connection
 * with its next answer, so that no request fails.
 */
import type { Clock } from '#common/clock.ts';
import type { Connections } from '#common/http/connections.ts';
import { Port } from '#common/http/port.ts';
import { type HttpResponse, hstsValue, type TemplatedApp } from '#common/http/uws.ts';
import type { Certificate } from '#common/process/certificate-files.ts';
import { sleep, systemTime } from '#common/time.ts';
import type { Edge } from './edge.ts';
import { UNLOCK_PATH } from './link-unlocks.ts';

export interface Listening {
  readonly host: string;
  /** 0 selects a free port. */
  readonly port: number;
  /** If present, the port is for HTTPS; the first certificate is the default. */
  readonly certificates?: readonly Certificate[];
  /** How long browsers must use only HTTPS, sent over TLS; 0 or absent sends no such header. */
  readonly hstsSeconds?: number;
}

const closePollMs = 20;

export class RedirectorServer {
  readonly #edge: Edge;
  readonly #clock: Clock;
  readonly #ports: Port[] = [];
  #isListening = false;

  constructor(edge: Edge, clock: Clock) {
    this.#edge = edge;
    this.#clock = clock;
  }

  get isListening(): boolean {
    return this.#isListening;
  }

  get connections(): number {
    return this.#ports.reduce((sum, port) => sum + port.connections, 0);
  }

  /**
   * Opens a port, shared with other processes that open it.
   * @returns the port.
   * @throws if it can't be opened or the certificate can't be read.
   */
  listen({ host, port, certificates, hstsSeconds = 0 }: Listening): number {
    const hsts = certificates ? hstsValue(hstsSeconds) : '';
    const mount = (app: TemplatedApp, connections: Connections) => this.#mount(app, connections, hsts);
    const opened = Port.open({ host, port, isShared: true, certificates, mount });
    this.#ports.push(opened);
    this.#isListening = true;
    return opened.number;
  }

  /**
   * Prepares the HTTPS ports for other certificates.
   * @returns a function that activates them, and resolves once no connection gets the old ones any more.
   * @throws if the certificates cannot be used.
   */
  prepare(certificates: readonly Certificate[]): () => Promise<void> {
    const prepared = this.#ports.filter(({ isTls }) => isTls).map((port) => port.prepare(certificates));
    return () => Promise.all(prepared.map((use) => use())).then(() => undefined);
  }

  #mount(app: TemplatedApp, connections: Connections, hsts: string): void {
    const edge = this.#edge;
    for (const [path, receiver] of edge.receivers)
      app.post(path, (res, req) => edge.receive(hsts === '' ? res : withHsts(res, hsts), req, connections, receiver));
    if (hsts === '') {
      app.get('/*', (res, req) => edge.get(res, req, connections));
      app.head('/*', (res, req) => edge.lookUp(res, req, connections, true));
      app.post(UNLOCK_PATH, (res, req) => edge.unlock(res, req, connections));
      app.any('/*', (res, req) => edge.refuseMethod(res, req));
    } else {
      app.get('/*', (res, req) => edge.get(withHsts(res, hsts), req, connections));
      app.head('/*', (res, req) => edge.lookUp(withHsts(res, hsts), req, connections, true));
      app.post(UNLOCK_PATH, (res, req) => edge.unlock(withHsts(res, hsts), req, connections));
      app.any('/*', (res, req) => edge.refuseMethod(withHsts(res, hsts), req));
    }
  }

  /** Closes idle connections at the deadline. */
  async stop(deadlineMs: number): Promise<void> {
    this.#edge.state.isStopping = true;
    this.#isListening = false;
    await Promise.all(this.#ports.map((port) => port.closeListener()));
    const endMs = this.#clock() + deadlineMs;
    while ((this.connections > 0 || this.#edge.state.waiting > 0) && this.#clock() < endMs) {
      await sleep(systemTime, closePollMs);
    }
    for (const port of this.#ports) port.closeConnections();
  }
}

/** Adds the header directly after the status of every response; there is no cost if HSTS is off. */
function withHsts(res: HttpResponse, hsts: string): HttpResponse {
  const writeStatus = res.writeStatus.bind(res);
  res.writeStatus = (status) => writeStatus(status).writeHeader('Strict-Transport-Security', hsts);
  return res;
}
