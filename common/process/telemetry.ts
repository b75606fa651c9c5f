/** Telemetry of a process: its log (JSON lines on standard output), metrics, and readiness. */
import { createServer, type Server } from 'node:http';
import { isIP } from 'node:net';
import { type DestinationStream, type Logger, type LoggerOptions, pino } from 'pino';
import { Counter, collectDefaultMetrics, Gauge, Registry } from 'prom-client';
import type { Part } from './lifecycle.ts';
import { logOutput } from './log-output.ts';
import type { ReadyOnce } from './ready-once.ts';
import type { Config } from './settings.ts';

export type Log = Logger;

const standardOutput = logOutput();

/** Field names of secrets; their values never reach the log. */
const secretNames = [
  'password',
  'access_token',
  'refresh_token',
  'api_key',
  'authorization',
  'cookie',
  'client_secret',
];

/**
 * What clients attach to their errors: the arguments of a Redis command, for AUTH and HELLO with the password, and from
 * Postgres the row that it refused.
 */
const attachedTexts = ['err.command.args', 'err.detail'];

/**
 * External text is a JSON string in the line, so it can't forge a line. @param output where the lines go instead of
 * standard output.
 */
export function createLog(
  name: string,
  config: Pick<Config, 'LOG_LEVEL' | 'INSTANCE'>,
  output?: DestinationStream,
): Log {
  const options: LoggerOptions = {
    base: { process: name, ...(config.INSTANCE === '' ? {} : { instance: config.INSTANCE }), pid: process.pid },
    level: config.LOG_LEVEL,
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: (label) => ({ level: label }) },
    redact: { paths: [...secretNames.flatMap((name) => [name, `*.${name}`]), ...attachedTexts] },
  };
  return pino(options, output ?? standardOutput);
}

/** A separate registry per process part, so that tests can create several. */
export function createMetrics(name: string): Registry {
  const registry = new Registry();
  registry.setDefaultLabels({ process: name });
  collectDefaultMetrics({ register: registry });
  exposeCounter(
    registry,
    'signpost_log_lines_dropped_total',
    'Lines of the log that could not be written, for example because the disk is full.',
    [],
    (set) => set({}, standardOutput.dropped),
  );
  return registry;
}

/** Sets the value of each combination of labels. */
export type CountsReader = (set: (labels: Record<string, string>, value: number) => void) => void;

/**
 * A counter stored elsewhere as plain numbers, because a label lookup per request would cost more than some answers.
 * It is read at each scrape.
 */
export function exposeCounter(
  registry: Registry,
  name: string,
  help: string,
  labelNames: string[],
  read: CountsReader,
): void {
  new Counter({
    ...{ name, help, labelNames, registers: [registry] },
    collect() {
      this.reset();
      read((labels, value) => this.inc(labels, value));
    },
  });
}

/** A gauge that is read at each scrape. */
export function exposeGauge(registry: Registry, name: string, help: string, read: () => number): void {
  new Gauge({
    ...{ name, help, registers: [registry] },
    collect() {
      this.set(read());
    },
  });
}

/** True, or a short reason why not. Anything thrown counts as not ready. */
export type ReadinessCheck = () => Promise<boolean | string> | boolean | string;

export interface TelemetryServer {
  readonly port: number;
  readonly url: string;
  close(): Promise<void>;
}

export interface TelemetryOptions {
  readonly host: string;
  /** 0: any free port. */
  readonly port: number;
  /** Names by which /metrics may be requested, besides localhost, `host` and any address. */
  readonly hostNames?: readonly string[];
  readonly metrics: Registry;
  readonly checks: Readonly<Record<string, ReadinessCheck>>;
  readonly questions?: Questions;
  /** Checks that fail for what was recorded, such as a full disk, and say nothing of the settings: /startupz ignores them. */
  readonly laterChecks?: readonly string[];
  /** Absent: remembered as long as the server lives. */
  readonly readyOnce?: Pick<ReadyOnce, 'isReached' | 'reached'>;
}

/** Additional paths for other programs: true gives 200, false 404, an error 503. */
export type Questions = Readonly<Record<string, (query: URLSearchParams) => Promise<boolean>>>;

const checkTimeoutMs = 2_000;

async function runCheck(check: ReadinessCheck): Promise<string> {
  let timer: NodeJS.Timeout | undefined;
  try {
    const overdue = new Promise<string>((resolve) => {
      timer = setTimeout(() => resolve('no answer in time'), checkTimeoutMs);
    });
    const result = await Promise.race([Promise.resolve().then(check), overdue]);
    if (result === true) return 'ok';
    return result === false ? 'not ready' : result;
  } catch (error) {
    return error instanceof Error ? error.name : 'failed';
  } finally {
    clearTimeout(timer);
  }
}

/** `{ready, checks: {name: "ok" or why not}}` */
export async function readiness(checks: TelemetryOptions['checks']) {
  const results = await Promise.all(
    Object.entries(checks).map(async ([name, check]) => [name, await runCheck(check)] as const),
  );
  return { ready: results.every(([, result]) => result === 'ok'), checks: Object.fromEntries(results) };
}

/** Like readiness without the later checks, but never again not ready. */
async function startup(
  { checks, laterChecks = [] }: TelemetryOptions,
  readyOnce: NonNullable<TelemetryOptions['readyOnce']>,
) {
  if (await readyOnce.isReached()) return { ready: true };
  const state = await readiness(
    Object.fromEntries(Object.entries(checks).filter(([name]) => !laterChecks.includes(name))),
  );
  if (state.ready) await readyOnce.reached();
  return state;
}

/**
 * Whether a Host header names this server. A web page can make its own host name resolve to a loopback address and read the
 * answers (DNS rebinding), but the browser then sends the page's host name.
 */
function isOwnName(header: string, names: readonly string[]): boolean {
  const host = header.replace(/:\d+$/, '').toLowerCase();
  return isIP(host.replace(/^\[(.*)\]$/, '$1')) !== 0 || names.includes(host);
}

/** For a process that remembers nothing in DATA_DIR. */
function inMemory(): NonNullable<TelemetryOptions['readyOnce']> {
  let isReached = false;
  return {
    isReached: async () => isReached,
    reached: async () => {
      isReached = true;
    },
  };
}

/**
 * GET /metrics (Prometheus text), /healthz (the process responds), /readyz (200 if it can do its work, otherwise 503), /startupz (200
 * once it has been ready).
 */
export async function startTelemetry(options: TelemetryOptions): Promise<TelemetryServer> {
  const { questions = {}, readyOnce = inMemory() } = options;
  const names = ['localhost', options.host, ...(options.hostNames ?? [])].map((name) => name.toLowerCase());
  const server = createServer((request, response) => {
    const answer = (status: number, type: string, body: string) => {
      const headers = { 'content-type': type, 'cache-control': 'no-store', 'x-content-type-options': 'nosniff' };
      response.writeHead(status, headers);
      response.end(request.method === 'HEAD' ? undefined : body);
    };
    const [path = '', query = ''] = (request.url ?? '').split('?');
    const question = Object.hasOwn(questions, path) ? questions[path] : undefined;
    if (request.method !== 'GET' && request.method !== 'HEAD') {
      answer(405, 'text/plain', 'GET only\n');
    } else if (path === '/healthz') {
      answer(200, 'application/json', '{"healthy":true}\n');
    } else if (path === '/readyz') {
      void readiness(options.checks).then((state) => {
        answer(state.ready ? 200 : 503, 'application/json', `${JSON.stringify(state)}\n`);
      });
    } else if (path === '/startupz') {
      void startup(options, readyOnce).then((state) => {
        answer(state.ready ? 200 : 503, 'application/json', `${JSON.stringify(state)}\n`);
      });
    } else if (path === '/metrics' && !isOwnName(request.headers.host ?? '', names)) {
      answer(421, 'text/plain', 'not the name of this server: see METRICS_HOST_NAMES\n');
    } else if (path === '/metrics') {
      options.metrics.metrics().then(
        (text) => answer(200, options.metrics.contentType, text),
        () => answer(500, 'text/plain', 'a metric could not be read\n'),
      );
    } else if (question !== undefined) {
      question(new URLSearchParams(query)).then(
        (isSo) => answer(isSo ? 200 : 404, 'text/plain', isSo ? 'yes\n' : 'no\n'),
        () => answer(503, 'text/plain', 'not known yet\n'),
      );
    } else {
      answer(
        404,
        'text/plain',
        `${['/metrics', '/healthz', '/readyz', '/startupz', ...Object.keys(questions)].join(', ')}\n`,
      );
    }
  });
  server.requestTimeout = 5_000;
  server.maxConnections = 64;
  const port = await listen(server, options.host, options.port);
  return {
    port,
    url: `http://${options.host.includes(':') ? `[${options.host}]` : options.host}:${port}`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

function listen(server: Server, host: string, port: number): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, host, () => {
      server.removeListener('error', reject);
      const address = server.address();
      resolve(typeof address === 'object' && address !== null ? address.port : port);
    });
  });
}

/** The telemetry of a process as a lifecycle part, configured from the settings. */
export function telemetryPart(
  config: Pick<Config, 'METRICS_HOST' | 'METRICS_HOST_NAMES' | 'METRICS_PORT'>,
  metrics: Registry,
  checks: TelemetryOptions['checks'],
  more: Pick<TelemetryOptions, 'questions' | 'laterChecks' | 'readyOnce'> = {},
): Part {
  let server: TelemetryServer | undefined;
  return {
    name: 'telemetry',
    start: async () => {
      const { METRICS_HOST: host, METRICS_HOST_NAMES: hostNames, METRICS_PORT: port } = config;
      server = await startTelemetry({ host, hostNames, port, metrics, checks, ...more });
    },
    stop: () => server?.close(),
  };
}
