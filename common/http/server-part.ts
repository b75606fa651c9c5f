/** The API server as a lifecycle part, configured from the settings. */
import type { Registry } from 'prom-client';
import { CertificateWatch } from '#common/process/certificate-watch.ts';
import type { ProcessConfig } from '#common/process/config-roles.ts';
import type { Part } from '#common/process/lifecycle.ts';
import type { StoreLog } from '#common/process/store-log.ts';
import type { Log } from '#common/process/telemetry.ts';
import { RequestTraces } from '#common/tracing/request-traces.ts';
import type { Tracing } from '#common/tracing/tracing.ts';
import type { Guard, MountedRoute } from './mount.ts';
import { RequestTimes } from './request-times.ts';
import { HttpServer, type Pages } from './server.ts';

interface ServerPartOptions {
  readonly config: ProcessConfig<'api' | 'gateway'>;
  readonly log: Log;
  readonly stores: StoreLog;
  readonly metrics: Registry;
  readonly routes: readonly MountedRoute[];
  /** Rate-limits requests to unknown addresses. */
  readonly guardUnknown: Guard;
  /** What is served outside of /v1. */
  readonly pages?: Pages | undefined;
  readonly tracing: Tracing | undefined;
}

/** How long open requests may take to get their answers once the process stops. */
export const drainMs = 10_000;

export class ServerPart implements Part {
  readonly name = 'server';
  readonly #config: ProcessConfig<'api' | 'gateway'>;
  readonly #log: Log;
  readonly #stores: StoreLog;
  readonly #routes: readonly MountedRoute[];
  readonly #guardUnknown: Guard;
  readonly #pages: Pages | undefined;
  readonly #traces: RequestTraces | undefined;
  readonly #times = new RequestTimes();
  readonly #registry: Registry;
  #server: HttpServer | undefined;
  #certificates: CertificateWatch | undefined;

  constructor({ config, log, stores, metrics, routes, guardUnknown, pages, tracing }: ServerPartOptions) {
    this.#config = config;
    this.#log = log;
    this.#stores = stores;
    this.#routes = routes;
    this.#guardUnknown = guardUnknown;
    this.#pages = pages;
    this.#traces = tracing && new RequestTraces(tracing);
    this.#times.expose(metrics);
    this.#registry = metrics;
  }

  /** For /readyz: true, or the missing dependency. */
  readonly check = (): true | string => this.#server !== undefined || 'no port is open';

  async start(): Promise<void> {
    const config = this.#config;
    if (config.TLS_CERT_FILE.length + config.TLS_KEY_FILE.length > 0)
      this.#certificates = new CertificateWatch({ settings: config, log: this.#log });
    const server = await HttpServer.start({
      host: config.API_HOST,
      httpsPort: this.#certificates ? config.API_PORT : null,
      httpPort: config.API_HTTP_PORT === 0 ? null : config.API_HTTP_PORT,
      certificates: this.#certificates?.certificates ?? [],
      trustedProxies: config.TRUSTED_PROXIES,
      proxySecret: config.PROXY_SECRET,
      corsOrigins: config.CORS_ORIGINS,
      hstsSeconds: config.HSTS_SECONDS,
      routes: this.#routes,
      guardUnknown: this.#guardUnknown,
      pages: this.#pages,
      times: this.#times,
      traces: this.#traces,
      onFailure: (err, where, request_id) => this.#log.error({ err, where, request_id }, 'a request failed'),
      onUnavailable: (where, request_id) => this.#stores.requestFailed(where, request_id),
    });
    this.#server = server;
    this.#certificates?.onChange((certificates) => server.prepare(certificates));
    this.#certificates?.expose(this.#registry);
    this.#certificates?.start();
    this.#log.info({ https: server.httpsPort, http: server.httpPort }, 'listening');
  }

  async stop(): Promise<void> {
    this.#certificates?.stop();
    await this.#server?.stop(drainMs);
  }
}
