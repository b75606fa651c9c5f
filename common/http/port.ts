/**
 * A listening port of uWebSockets.js. Its certificates are replaced by a new app that takes the port over; connections of
 * the old app live on in it until they end. (`removeServerName` would free the router that they still use.) The library
 * frees no app, so each change keeps about 150 KiB.
 */
import { setImmediate } from 'node:timers/promises';
import type { Certificate } from '#common/process/certificate-files.ts';
import { Connections } from './connections.ts';
import {
  App,
  type HttpResponse,
  listenOn,
  type TemplatedApp,
  tlsApp,
  tlsOptions,
  type us_listen_socket,
  us_listen_socket_close,
  us_socket_local_port,
} from './uws.ts';

export interface PortOptions {
  readonly host: string;
  /** 0 takes a free port. */
  readonly port: number;
  /** Whether other processes may listen on the same port; the kernel then distributes the connections. */
  readonly isShared: boolean;
  /** Absent: no TLS. The first is the default; the others are chosen by the name that the client asks for. */
  readonly certificates?: readonly Certificate[] | undefined;
  /** Adds the routes to the app; called again for each name of a further certificate. */
  readonly mount: Mount;
}

type Mount = (app: TemplatedApp, connections: Connections) => void;

interface CountedApp {
  readonly app: TemplatedApp;
  readonly connections: Connections;
}

/** The listener of a port at which connections never stop arriving is closed after this time. */
const acceptWithinMs = 1_000;

export class Port {
  readonly #options: PortOptions;
  /** The current app, and earlier ones that have open connections. */
  readonly #open = new Set<CountedApp>();
  #current: CountedApp | null = null;
  #socket: us_listen_socket | null = null;
  /** Connections, ever. */
  #accepted = 0;
  number = 0;

  private constructor(options: PortOptions) {
    this.#options = options;
  }

  /** @throws if the port is in use or not allowed, or a certificate cannot be used. */
  static open(options: PortOptions): Port {
    const port = new Port(options);
    const { host, certificates } = options;
    port.number = options.port === 0 && certificates ? freePort(host) : options.port;
    port.#listen(port.#counted(certificates));
    return port;
  }

  get isTls(): boolean {
    return this.#options.certificates !== undefined;
  }

  get connections(): number {
    return [...this.#open].reduce((sum, { connections }) => sum + connections.count, 0);
  }

  /**
   * Builds an app with other certificates. @returns what replaces the current app by it, for new connections; it resolves once
   * the last connection of the current one is accepted.
   * @throws if a certificate cannot be used; the port is then unchanged.
   */
  prepare(certificates: readonly Certificate[]): () => Promise<void> {
    const app = this.#counted(certificates);
    return async () => {
      const old = this.#socket;
      if (!old) return;
      // A shared port never stops accepting.
      if (this.#options.isShared) this.#listen(app);
      await this.#untilAccepted();
      if (this.#options.isShared) us_listen_socket_close(old);
      else if (this.#socket) {
        // Any other port has one listener at a time, so it is closed for the microseconds of this turn.
        us_listen_socket_close(this.#socket);
        this.#listen(app);
      }
    };
  }

  /** Accepts the connections that wait, then no more. */
  async closeListener(): Promise<void> {
    const socket = this.#socket;
    this.#socket = null;
    if (!socket) return;
    await this.#untilAccepted();
    us_listen_socket_close(socket);
  }

  /** Cuts the connections that remain. */
  closeConnections(): void {
    for (const { app } of [...this.#open]) app.close();
  }

  #listen(counted: CountedApp): void {
    const { host, isShared } = this.#options;
    this.#socket = listenOn(counted.app, host, this.number, isShared);
    this.number = us_socket_local_port(this.#socket);
    const earlier = this.#current;
    this.#current = counted;
    this.#open.add(counted);
    if (earlier) this.#forgetUnused(earlier);
  }

  /**
   * Waits for a turn of the event loop that accepted nothing: a listener must close right after it. The kernel resets connections
   * that it has established and that were not accepted before their listener closes, even if other processes listen on the port.
   */
  async #untilAccepted(): Promise<void> {
    const endMs = performance.now() + acceptWithinMs;
    // The first may still be of this turn.
    await setImmediate();
    let accepted: number;
    do {
      accepted = this.#accepted;
      await setImmediate();
    } while (this.#accepted !== accepted && performance.now() < endMs);
  }

  #counted(certificates: readonly Certificate[] | undefined): CountedApp {
    const connections = new Connections();
    const { mount } = this.#options;
    const app = certificates ? securedApp(certificates, mount, connections) : plainApp(mount, connections);
    const counted = { app, connections };
    const count = (res: HttpResponse, change: unknown) => {
      if (Number(change) > 0) {
        this.#accepted++;
        connections.opened(res);
        // Again for an app that was replaced: its listener accepts what waits for it.
        this.#open.add(counted);
      } else {
        connections.closed();
        this.#forgetUnused(counted);
      }
    };
    app.filter(count);
    return counted;
  }

  #forgetUnused(counted: CountedApp): void {
    if (counted !== this.#current && counted.connections.count === 0) this.#open.delete(counted);
  }
}

/** uWebSockets.js opens port 0 with other socket options, under which the same port cannot be opened again. */
function freePort(host: string): number {
  const socket = listenOn(App(), host, 0, false);
  const number = us_socket_local_port(socket);
  us_listen_socket_close(socket);
  return number;
}

function plainApp(mount: Mount, connections: Connections): TemplatedApp {
  const app = App();
  mount(app, connections);
  return app;
}

function securedApp(certificates: readonly Certificate[], mount: Mount, connections: Connections): TemplatedApp {
  const [first, ...others] = certificates;
  if (!first) throw new Error('a port with TLS needs a certificate');
  const app = tlsApp(first);
  mount(app, connections);
  const named = new Set<string>();
  for (const certificate of others) {
    for (const name of certificate.names) {
      if (named.has(name)) continue;
      named.add(name);
      // The library writes two lines to standard output for each name.
      app.addServerName(name, tlsOptions(certificate)).domain(name);
      mount(app, connections);
    }
  }
  return app;
}
