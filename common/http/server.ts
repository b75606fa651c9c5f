/**
 * The HTTP server of the API and the SDK endpoints, on uWebSockets.js. It answers over HTTPS; a port without TLS is for
 * a trusted proxy and rejects all other clients. `stop` lets health checks fail, closes the listeners, closes each connection with its next answer,
 * idle ones after a second, and cuts the requests that remain at the deadline.
 */
import { setImmediate } from 'node:timers/promises';
import { newRequestId } from '#common/ids.ts';
import type { Certificate } from '#common/process/certificate-files.ts';
import { sleep, systemTime } from '#common/time.ts';
import type { RequestTraces } from '#common/tracing/request-traces.ts';
import { TransientMap } from '#common/transient-map.ts';
import type { Connections } from './connections.ts';
import { Cors } from './cors.ts';
import { Exchange } from './exchange.ts';
import { collectBody, type Headers, readHeaders } from './incoming.ts';
import { finishBody, type Guard, type Incoming, type MountedRoute } from './mount.ts';
import { type Peer, TrustedProxies } from './peer.ts';
import { Port } from './port.ts';
import { isHealthCheck, PortHealth } from './port-health.ts';
import { emptyBody, type RawBody } from './raw-body.ts';
import { forbidden, notFound, Rejection, tooSlow, unavailable } from './rejection.ts';
import type { RequestTimes } from './request-times.ts';
import type { Answer } from './route.ts';
import { type HttpRequest, type HttpResponse, hstsValue, type TemplatedApp } from './uws.ts';

const BASE = '/v1';
const ANSWER_DEADLINE_MS = 30_000;
const SWEEP_INTERVAL_MS = 1_000;
const OPEN_REQUESTS_MAX = 10_000;
/** A client that is sending requests on a connection sends the next one within this time. */
const IDLE_GRACE_MS = 1_000;
const STOP_POLL_MS = 10;

/** How slowly a body may arrive: faster than this on average after the first seconds, and not for longer than `msMax`. */
export interface BodyPace {
  readonly graceMs: number;
  readonly bytesPerSecondMin: number;
  readonly msMax: number;
}
/** 2G at its worst sends 2 kB/s. A client that trickles holds a place for as long as one that sends in earnest. */
const bodyPace: BodyPace = { graceMs: 20_000, bytesPerSecondMin: 1_000, msMax: 180_000 };
/** Of all requests that are not answered yet. Beyond, the oldest body that is not complete gives way. */
const BODIES_BYTES_MAX = 268_435_456;

/** Files for browsers, from memory. They are not charged to any limit. */
export interface Pages {
  /** The answer of a GET; null for an address that is not one of a page or file. */
  find(path: string, header: (name: string) => string): Answer | null;
}

export interface ServerOptions {
  readonly host: string;
  /** 0 takes a free port; null opens none. */
  readonly httpsPort: number | null;
  readonly httpPort: number | null;
  /** Of the HTTPS port; the first is the default. */
  readonly certificates?: readonly Certificate[];
  readonly trustedProxies: readonly string[];
  readonly proxySecret?: string;
  readonly corsOrigins: readonly string[];
  /** For how long browsers must use only HTTPS; 0 or absent sends no such header. */
  readonly hstsSeconds?: number;
  readonly routes: readonly MountedRoute[];
  /** Rate-limits requests to unknown addresses. */
  readonly guardUnknown: Guard;
  /** What this origin serves outside of /v1; absent: nothing. */
  readonly pages?: Pages | undefined;
  /** Counts each request when it has ended. */
  readonly times?: RequestTimes;
  /** Traces some requests; absent: none. */
  readonly traces?: RequestTraces | undefined;
  /** Called for every failure that became a 500. `where` is a method and a route pattern, never client text. */
  readonly onFailure: (error: unknown, where: string, requestId: string) => void;
  /** Called for every other answer with 500, because a store is unavailable or the process is overloaded. */
  readonly onUnavailable?: (where: string, requestId: string) => void;
  /** For tests. */
  readonly bodyPace?: BodyPace;
  readonly bodiesBytesMax?: number;
}

/** The port that a request came in by. */
interface Origin {
  readonly isTls: boolean;
  readonly connections: Connections;
}

const noBody: Promise<RawBody> = Promise.resolve(emptyBody);

export class HttpServer {
  readonly #options: ServerOptions;
  readonly #proxies: TrustedProxies;
  readonly #cors: Cors;
  readonly #hsts: string;
  readonly #open = new TransientMap<Exchange, Exchange>();
  readonly #health = new PortHealth();
  #https: Port | null = null;
  #http: Port | null = null;
  #sweep: NodeJS.Timeout | null = null;
  #isStopping = false;
  /** Of the open requests. */
  #bodyBytes = 0;
  httpsPort = 0;
  httpPort = 0;

  private constructor(options: ServerOptions) {
    this.#options = options;
    this.#proxies = new TrustedProxies(options.trustedProxies, options.proxySecret);
    this.#cors = new Cors(options.corsOrigins);
    this.#hsts = hstsValue(options.hstsSeconds ?? 0);
  }

  /** @throws if no port is configured, one is in use, or the certificate can't be read. */
  static async start(options: ServerOptions): Promise<HttpServer> {
    const { host, httpsPort, httpPort, certificates = [] } = options;
    if (httpsPort === null && httpPort === null) {
      throw new Error('API_HTTP_PORT, or API_PORT with TLS_CERT_FILE and TLS_KEY_FILE, must be set');
    }
    const server = new HttpServer(options);
    const mount = (isTls: boolean) => (app: TemplatedApp, connections: Connections) =>
      server.#mountAll(app, { isTls, connections });
    if (httpsPort !== null) {
      server.#https = Port.open({ host, port: httpsPort, isShared: false, certificates, mount: mount(true) });
      server.httpsPort = server.#https.number;
    }
    if (httpPort !== null) {
      server.#http = Port.open({ host, port: httpPort, isShared: false, mount: mount(false) });
      server.httpPort = server.#http.number;
    }
    server.#sweep = setInterval(() => server.#cutSlow(), SWEEP_INTERVAL_MS).unref();
    return server;
  }

  get openRequests(): number {
    return this.#open.size;
  }

  /** Prepares the HTTPS port for other certificates. @returns what makes it use them. @throws if they cannot be used. */
  prepare(certificates: readonly Certificate[]): () => Promise<void> {
    return this.#https?.prepare(certificates) ?? (() => Promise.resolve());
  }

  async stop(deadlineMs: number): Promise<void> {
    await this.#health.announceStop();
    this.#isStopping = true;
    const ports = [this.#https, this.#http].filter((port) => port !== null);
    await Promise.all(ports.map((port) => port.closeListener()));
    const startedMs = performance.now();
    for (;;) {
      const elapsedMs = performance.now() - startedMs;
      const isQuiet =
        this.#open.size === 0 && (ports.every(({ connections }) => connections === 0) || elapsedMs >= IDLE_GRACE_MS);
      if (isQuiet || elapsedMs >= deadlineMs) break;
      await sleep(systemTime, STOP_POLL_MS);
      // Timers run before what has arrived is read: a request that waits in the kernel must count as open.
      await setImmediate();
    }
    if (this.#sweep) clearInterval(this.#sweep);
    for (const port of ports) port.closeConnections();
  }

  #mountAll(app: TemplatedApp, origin: Origin): void {
    for (const route of this.#options.routes) this.#mount(app, route, origin);
    app.any('/*', (res, req) => this.#receive(res, req, origin, null));
  }

  #mount(app: TemplatedApp, route: MountedRoute, origin: Origin): void {
    for (const path of route.paths) this.#mountAt(app, BASE + path.replaceAll(/\{(\w+)\}/g, ':$1'), route, origin);
  }

  #mountAt(app: TemplatedApp, pattern: string, route: MountedRoute, origin: Origin): void {
    const receive = (res: HttpResponse, req: HttpRequest) => this.#receive(res, req, origin, route);
    switch (route.method) {
      case 'GET':
        app.get(pattern, receive);
        app.head(pattern, (res, req) => this.#receive(res, req, origin, route, true));
        break;
      case 'POST':
        app.post(pattern, receive);
        break;
      case 'PUT':
        app.put(pattern, receive);
        break;
      case 'PATCH':
        app.patch(pattern, receive);
        break;
      case 'DELETE':
        app.del(pattern, receive);
        break;
    }
  }

  /** The methods of a path that is known under other ones. A GET is also answered as HEAD. */
  #methodsOf(path: string): string[] {
    const known = this.#options.routes.filter(({ shape }) => shape.test(path));
    return [...new Set(known.flatMap(({ method }) => (method === 'GET' ? ['GET', 'HEAD'] : [method])))];
  }

  /** Reads all of `req` synchronously: it is invalid after the first await. */
  #receive(
    res: HttpResponse,
    req: HttpRequest,
    origin: Origin,
    matched: MountedRoute | null,
    isHeadOfRoute = false,
  ): void {
    if (matched === null && isHealthCheck(req)) {
      this.#health.answer(res, this.#isStopping);
      return;
    }
    const nowMs = Date.now();
    const id = newRequestId(nowMs);
    const report = (error: unknown) => this.#options.onFailure(error, whereOf(matched), id);
    const exchange = new Exchange(res, id, nowMs, (closed) => this.#over(closed, matched), report);
    this.#open.set(exchange, exchange);
    exchange.closesConnection = this.#isStopping;
    // The method of a route is known.
    const method = matched === null ? req.getMethod() : '';
    exchange.isHead = isHeadOfRoute || method === 'head';
    const { headers, fault: headerFault } = readHeaders(req);
    const url = req.getUrl();
    const path = url.startsWith(`${BASE}/`) ? url.slice(BASE.length) : '';
    const peer = this.#proxies.peer(origin.connections.addressOf(res), origin.isTls, {
      for: headers['x-forwarded-for'] ?? '',
      proto: headers['x-forwarded-proto'] ?? '',
      secret: headers['x-signpost-proxy'] ?? '',
    });
    exchange.addLines(this.#cors.lines(path, headers['origin'] ?? ''));
    if (this.#hsts !== '' && peer.isHttps) exchange.addLines(`\r\nStrict-Transport-Security: ${this.#hsts}`);
    const isPreflight = method === 'options' && headers['access-control-request-method'] !== undefined;
    const params = matched ? readParams(matched, req) : {};
    const fault = peer.isHttps ? headerFault : forbidden('HTTPS is required.');
    // A request that is rejected on every path is charged like one to an unknown path; otherwise it would bypass the limits.
    const route = params === null || fault !== null ? null : matched;
    // Undefined if there is no question mark, whatever its type says.
    const queryText = req.getQuery() ?? '';
    const header = (name: string) => headers[name] ?? '';
    const isRead = exchange.isHead || method === 'get';
    const file = !matched && fault === null && path === '' && isRead ? this.#options.pages?.find(url, header) : null;
    if (file) {
      exchange.isBodyComplete = true;
      exchange.isPage = true;
      exchange.answer(file);
      return;
    }
    if (this.#open.size > OPEN_REQUESTS_MAX) {
      exchange.closesConnection = true;
      exchange.reject(unavailable('Too many requests are waiting.', 1));
      return;
    }
    const onBytes = (bytes: number) => {
      if (!exchange.isClosed) this.#hold(bytes);
    };
    const body = route?.hasBody ? collectBody(res, exchange, route.bodyBytesMax, onBytes) : noBody;
    if (!route?.hasBody) exchange.isBodyComplete = true;
    const askedPath = isPreflight ? undefined : path;
    const incoming = incomingOf(exchange, headers, peer, queryText, askedPath, body, route);
    const serve = () =>
      fault
        ? this.#refuse(exchange, incoming, fault)
        : this.#serve(exchange, incoming, route, params ?? {}, isPreflight);
    exchange.followed = this.#options.traces?.follow(peer.isProxied ? header('traceparent') : '', nowMs);
    const served = exchange.followed === undefined ? serve() : exchange.followed.run(serve);
    served.catch((error: unknown) => {
      if (route?.isOutage(error)) return exchange.reject(unavailable());
      this.#options.onFailure(error, whereOf(route), exchange.id);
      exchange.isReported = true;
      exchange.reject(unavailable('An internal error occurred. Try again later.'));
    });
  }

  #over(exchange: Exchange, route: MountedRoute | null): void {
    this.#open.delete(exchange);
    this.#bodyBytes -= exchange.bodyBytes;
    const where = exchange.isPage ? 'dashboard' : whereOf(route);
    const endMs = exchange.streamingMs || Date.now();
    this.#options.times?.observe(where, exchange.status, endMs - exchange.receivedMs);
    if (exchange.status >= 500 && !exchange.isReported) this.#options.onUnavailable?.(where, exchange.id);
    exchange.followed?.end({ route: where, status: exchange.status, requestId: exchange.id, endMs });
  }

  #hold(bytes: number): void {
    this.#bodyBytes += bytes;
    if (this.#bodyBytes <= (this.#options.bodiesBytesMax ?? BODIES_BYTES_MAX)) return;
    for (const exchange of this.#open.values()) {
      if (exchange.isBodyComplete || exchange.isAnswering || exchange.bodyBytes === 0) continue;
      exchange.closesConnection = true;
      exchange.reject(tooSlow());
      return;
    }
  }

  async #refuse(exchange: Exchange, incoming: Incoming, fault: Rejection): Promise<void> {
    // Always answer in a later turn: pipelined bytes then find this request unanswered, and the connection
    // is closed. If answered now, the rest would be parsed as another request, wherever it begins.
    await setImmediate();
    const passed = await this.#options.guardUnknown(null, incoming);
    if (passed.quota) exchange.setQuota(passed.quota);
    exchange.closesConnection = true;
    exchange.reject('rejection' in passed ? passed.rejection : fault);
  }

  async #serve(
    exchange: Exchange,
    incoming: Incoming,
    route: MountedRoute | null,
    params: Record<string, string>,
    isPreflight: boolean,
  ): Promise<void> {
    const guard = route?.guard ?? this.#options.guardUnknown;
    const passed = await guard(route?.guarded ?? null, incoming);
    if (passed.quota) exchange.setQuota(passed.quota);
    if ('rejection' in passed) {
      // Does not read what the client is still sending just to keep the connection.
      exchange.closesConnection ||= !exchange.isBodyComplete;
      exchange.reject(passed.rejection);
    } else if (isPreflight) {
      exchange.answer({ status: 204, contentType: 'text/plain', bytes: '', headers: this.#cors.preflight() });
    } else if (!route) {
      const methods = this.#methodsOf(incoming.path ?? '');
      if (methods.length > 0) exchange.addLines(`\r\nAllow: ${methods.join(', ')}`);
      exchange.reject(methods.length > 0 ? notFound(`This address accepts only ${methods.join(', ')}.`) : notFound());
    } else {
      const answer = await route.run(incoming, passed.caller, params);
      if (answer instanceof Rejection) exchange.reject(answer);
      else exchange.answer(answer);
    }
  }

  /** The time limits of bodies and answers. */
  #cutSlow(): void {
    const nowMs = performance.now();
    for (const exchange of this.#open.values()) {
      const ageMs = nowMs - exchange.startedMs;
      if (exchange.isAnswering) {
        if (exchange.isStalled(nowMs)) exchange.cut();
      } else if (!exchange.isBodyComplete) {
        if (ageMs < timeFor(exchange.bodyBytes, this.#options.bodyPace ?? bodyPace)) {
          exchange.keepReading();
          continue;
        }
        exchange.closesConnection = true;
        exchange.reject(tooSlow());
      } else if (ageMs > ANSWER_DEADLINE_MS) {
        exchange.reject(unavailable('The server took too long. Try again later.'));
      }
    }
  }
}

/** Milliseconds within which so many bytes must have arrived. */
function timeFor(bytes: number, { graceMs, bytesPerSecondMin, msMax }: BodyPace): number {
  return Math.min(msMax, graceMs + (bytes / bytesPerSecondMin) * 1000);
}

/** Path parameters, decoded; null if one is not valid percent-encoding or contains a NUL, which no id does. */
function readParams(route: MountedRoute, req: HttpRequest): Record<string, string> | null {
  const params: Record<string, string> = {};
  for (const [at, name] of route.parameterNames.entries()) {
    try {
      params[name] = decodeURIComponent(req.getParameter(at) ?? '');
    } catch {
      return null;
    }
    if (params[name].includes('\0')) return null;
  }
  return params;
}

function incomingOf(
  exchange: Exchange,
  headers: Headers,
  peer: Peer,
  queryText: string,
  path: string | undefined,
  collected: Promise<RawBody | Rejection>,
  route: MountedRoute | null,
): Incoming {
  let body: Promise<RawBody | Rejection> | null = null;
  const header = (name: string) => headers[name] ?? '';
  return {
    id: exchange.id,
    ip: peer.ip,
    receivedMs: exchange.receivedMs,
    header,
    queryText,
    path,
    readBody: () => {
      body ??= finishBody(collected, header, route);
      return body;
    },
  };
}

function whereOf(route: MountedRoute | null): string {
  return route?.name ?? 'unknown address';
}
