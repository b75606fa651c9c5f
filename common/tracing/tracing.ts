/**
 * The spans of this process, sent to an OpenTelemetry collector (OTLP over HTTP), and the only file that uses its SDK.
 * The SDK is loaded only if a collector is configured.
 *
 * - Sampling is decided before anything is recorded: for a click by its id, for a request randomly or by its parent.
 * - A span is added when it has ended, with its times, so that nothing here is open while a request runs.
 * - At most `waitingMax` spans wait for the collector, including those being sent. More are dropped and counted.
 */
import { randomBytes } from 'node:crypto';
import type { Attributes } from '@opentelemetry/api';
import type { SpanExporter } from '@opentelemetry/sdk-trace';
import type { Registry } from 'prom-client';
import { headersOf } from '#common/process/config-formats.ts';
import type { Part } from '#common/process/lifecycle.ts';
import { releaseVersion } from '#common/process/release.ts';
import type { Config } from '#common/process/settings.ts';
import { exposeCounter, type Log } from '#common/process/telemetry.ts';
import { ClickSampling } from './click-traces.ts';
import { summaryOf } from './statement-summary.ts';
import { type Step, Trails } from './trail.ts';

type Settings = Pick<
  Config,
  'INSTANCE' | 'OTEL_EXPORTER_OTLP_ENDPOINT' | 'OTEL_EXPORTER_OTLP_HEADERS' | 'OTEL_TRACES_SAMPLER_ARG'
>;

/** The trace and parent of a span. */
export interface SpanPlace {
  readonly traceId: string;
  readonly spanId: string;
  /** Absent for the root of a trace. */
  readonly parentId?: string | undefined;
}

export interface SpanContent {
  readonly name: string;
  readonly kind: 'client' | 'consumer' | 'producer' | 'server';
  /** Epoch milliseconds, like the end. */
  readonly startMs: number;
  readonly endMs: number;
  /** Internal ids, counts and names; never an IP address, a query string or a secret. */
  readonly attributes?: Attributes;
  /** The kind of failure; empty or absent if it succeeded. */
  readonly error?: string;
}

const waitingMax = 2_048;
const spansPerSendMax = 512;
const sendIntervalMs = 1_000;
const sendTimeoutMs = 10_000;
/** A collector that does not respond delays the exit of a process by at most this time. */
const stopTimeoutMs = 2_000;

export function newSpanId(): string {
  return randomBytes(8).toString('hex');
}

export class Tracing {
  readonly clicks: ClickSampling;
  readonly trails = new Trails();
  /** Fraction of requests without a parent that are traced. */
  readonly fraction: number;
  readonly counters = { sent: 0, failed: 0, dropped: 0 };
  readonly #log: Log;
  #sdk: Sdk | undefined;
  #waiting = 0;
  #isRefused = false;

  private constructor(fraction: number, log: Log) {
    this.fraction = fraction;
    this.clicks = new ClickSampling(fraction);
    this.#log = log;
  }

  /** @returns undefined if no collector is configured; then nothing is loaded. */
  static async open(role: string, settings: Settings, log: Log, metrics: Registry): Promise<Tracing | undefined> {
    if (settings.OTEL_EXPORTER_OTLP_ENDPOINT === '') return undefined;
    const tracing = new Tracing(settings.OTEL_TRACES_SAMPLER_ARG, log);
    tracing.#sdk = await loadSdk(role, settings, (spans, isSent) => tracing.#settle(spans, isSent));
    exposeCounter(
      metrics,
      'signpost_traces_spans_total',
      'Spans by outcome: sent to the collector, failed, or dropped because too many were waiting.',
      ['outcome'],
      (set) => {
        for (const [outcome, count] of Object.entries(tracing.counters)) set({ outcome }, count);
      },
    );
    return tracing;
  }

  add(place: SpanPlace, content: SpanContent): void {
    if (this.#waiting >= waitingMax) {
      this.counters.dropped++;
      return;
    }
    this.#waiting++;
    this.#sdk?.add(place, content);
  }

  /** The statements of a request, below its span. */
  addSteps(traceId: string, parentId: string, steps: readonly Step[]): void {
    for (const { statement, system, startMs, endMs, error } of steps) {
      const name = summaryOf(statement);
      const attributes = { 'db.system.name': system, 'db.query.summary': name };
      this.add({ traceId, spanId: newSpanId(), parentId }, { name, kind: 'client', startMs, endMs, attributes, error });
    }
  }

  async stop(): Promise<void> {
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<void>((done) => {
      timer = setTimeout(done, stopTimeoutMs);
    });
    await Promise.race([this.#sdk?.shutdown().catch(() => undefined), late]);
    clearTimeout(timer);
  }

  #settle(spans: number, isSent: boolean): void {
    this.#waiting -= spans;
    this.counters[isSent ? 'sent' : 'failed'] += spans;
    if (isSent === !this.#isRefused) return;
    this.#isRefused = !isSent;
    if (isSent) this.#log.info({}, 'traces can be sent to the collector again');
    else
      this.#log.warn({}, 'traces cannot be sent to the collector and are dropped: check OTEL_EXPORTER_OTLP_ENDPOINT');
  }
}

/** Sends remaining spans at the end. The first part of a process, so that it stops last. */
export function tracingPart(tracing: Tracing | undefined): Part {
  return { name: 'traces', stop: () => tracing?.stop() };
}

interface Sdk {
  add(place: SpanPlace, content: SpanContent): void;
  shutdown(): Promise<void>;
}

/** @param settled called once for each batch of spans, when it was sent or given up. */
async function loadSdk(
  role: string,
  settings: Settings,
  settled: (spans: number, isSent: boolean) => void,
): Promise<Sdk> {
  const [api, sdk, { OTLPTraceExporter }, { resourceFromAttributes }] = await Promise.all([
    import('@opentelemetry/api'),
    import('@opentelemetry/sdk-trace'),
    import('@opentelemetry/exporter-trace-otlp-http'),
    import('@opentelemetry/resources'),
  ]);
  const exporter = new OTLPTraceExporter({
    url: `${settings.OTEL_EXPORTER_OTLP_ENDPOINT.replace(/\/+$/, '')}/v1/traces`,
    headers: headersOf(settings.OTEL_EXPORTER_OTLP_HEADERS) ?? {},
    timeoutMillis: sendTimeoutMs,
    concurrencyLimit: 2,
  });
  // Every span is given its ids, because those of a click are derived from the click.
  let next = { traceId: '', spanId: '' };
  const provider = new sdk.TracerProvider({
    resource: resourceFromAttributes({
      'service.namespace': 'signpost',
      'service.name': `signpost-${role}`,
      'service.version': releaseVersion(),
      'service.instance.id': `${settings.INSTANCE || role}-${process.pid}`,
    }),
    sampler: new sdk.AlwaysOnSampler(),
    idGenerator: { generateTraceId: () => next.traceId, generateSpanId: () => next.spanId },
    spanProcessors: [
      new sdk.BatchSpanProcessor({
        exporter: counting(exporter, settled),
        maxQueueSize: waitingMax,
        maxExportBatchSize: spansPerSendMax,
        scheduledDelayMillis: sendIntervalMs,
        exportTimeoutMillis: sendTimeoutMs,
      }),
    ],
  });
  const tracer = provider.getTracer('signpost', releaseVersion());
  const kinds = {
    client: api.SpanKind.CLIENT,
    consumer: api.SpanKind.CONSUMER,
    producer: api.SpanKind.PRODUCER,
    server: api.SpanKind.SERVER,
  };
  return {
    add: (place, { name, kind, startMs, endMs, attributes = {}, error = '' }) => {
      const { traceId, parentId } = place;
      const parent = { traceId, spanId: parentId ?? '', traceFlags: api.TraceFlags.SAMPLED, isRemote: true };
      const context = parentId === undefined ? api.ROOT_CONTEXT : api.trace.setSpanContext(api.ROOT_CONTEXT, parent);
      next = place;
      const span = tracer.startSpan(name, { kind: kinds[kind], startTime: startMs, attributes }, context);
      if (error !== '') span.setStatus({ code: api.SpanStatusCode.ERROR }).setAttribute('error.type', error);
      span.end(Math.max(startMs, endMs));
    },
    shutdown: () => provider.shutdown(),
  };
}

function counting(exporter: SpanExporter, settled: (spans: number, isSent: boolean) => void): SpanExporter {
  return {
    export: (spans, done) =>
      exporter.export(spans, (result) => {
        settled(spans.length, result.code === 0);
        done(result);
      }),
    shutdown: () => exporter.shutdown(),
  };
}
