/** The API server as a lifecycle part, configured from the settings. */
import type { Registry } from 'prom-client';
import { exposeCertificate } from '#common/process/certificate-metric.ts';
import type { ProcessConfig } from '#common/process/config-roles.ts';
import type { Part } from '#common/process/lifecycle.ts';
import type { Log } from '#common/process/telemetry.ts';
import type { Guard, MountedRoute } from './mount.ts';
import { RequestTimes } from './request-times.ts';
import { HttpServer, type Pages } from './server.ts';

/** How long open requests may take to get their answers once the process stops. */
export const drainMs = 10_000;

export class ServerPart implements Part {
  readonly name = 'server';
  readonly #config: ProcessConfig<'api' | 'gateway'>;
  readonly #log: Log;
  readonly #routes: readonly MountedRoute[];
  readonly #guardUnknown: Guard;
  readonly #pages: Pages | undefined;
  readonly #times = new RequestTimes();
  #server: HttpServer | undefined;

  /** @param guardUnknown rate-limits requests to unknown addresses. @param pages what is served outside of /v1. */
  constructor(
    config: ProcessConfig<'api' | 'gateway'>,
    log: Log,
    metrics: Registry,
    routes: readonly MountedRoute[],
    guardUnknown: Guard,
    pages?: Pages,
  ) {
    this.#config = config;
    this.#log = log;
    this.#routes = routes;
    this.#guardUnknown = guardUnknown;
    this.#pages = pages;
    this.#times.expose(metrics);
    exposeCertificate(metrics, config.TLS_CERT_FILE);
  }

  /** For /readyz: true, or the missing dependency. */
  readonly check = (): true | string => this.#server !== undefined || 'no port is open';

  async start(): Promise<void> {
    const config = this.#config;
    this.#server = await HttpServer.start({
      host: config.API_HOST,
      httpsPort: config.TLS_CERT_FILE === '' ? null : config.API_PORT,
      httpPort: config.API_HTTP_PORT === 0 ? null : config.API_HTTP_PORT,
      tlsCertFile: config.TLS_CERT_FILE,
      tlsKeyFile: config.TLS_KEY_FILE,
      trustedProxies: config.TRUSTED_PROXIES,
      corsOrigins: config.CORS_ORIGINS,
      hstsSeconds: config.HSTS_SECONDS,
      routes: this.#routes,
      guardUnknown: this.#guardUnknown,
      pages: this.#pages,
      times: this.#times,
      onFailure: (err, where, request_id) => this.#log.error({ err, where, request_id }, 'a request failed'),
    });
    this.#log.info({ https: this.#server.httpsPort, http: this.#server.httpPort }, 'listening');
  }

  async stop(): Promise<void> {
    await this.#server?.stop(drainMs);
  }
}
