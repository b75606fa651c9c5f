/** Traces of requests to the API and the SDK endpoints: a span by route, and one below it for each statement. */
import { randomBytes } from 'node:crypto';
import { newSpanId, type SpanPlace, type Tracing } from './tracing.ts';
import { Trail } from './trail.ts';

/** How a request ended. */
export interface EndedRequest {
  /** A method and a route pattern, never text from the client. */
  readonly route: string;
  /** 0 if the client disconnected before the response. */
  readonly status: number;
  readonly requestId: string;
  readonly endMs: number;
}

export class FollowedRequest {
  readonly #tracing: Tracing;
  readonly #place: SpanPlace;
  readonly #trail: Trail;

  constructor(tracing: Tracing, place: SpanPlace, startMs: number) {
    this.#tracing = tracing;
    this.#place = place;
    this.#trail = new Trail(startMs);
  }

  run<T>(work: () => T): T {
    return this.#tracing.trails.run(this.#trail, work);
  }

  end({ route, status, requestId, endMs }: EndedRequest): void {
    const { startMs, steps, omittedSteps } = this.#trail;
    const [, method, path] = /^([A-Z]+) (\/.*)$/.exec(route) ?? [];
    const attributes = {
      ...(method === undefined ? {} : { 'http.request.method': method, 'http.route': `/v1${path}` }),
      ...(status === 0 ? {} : { 'http.response.status_code': status }),
      'signpost.request_id': requestId,
      ...(omittedSteps === 0 ? {} : { 'signpost.omitted_statements': omittedSteps }),
    };
    const error = status === 0 ? 'aborted' : status >= 500 ? String(status) : '';
    this.#tracing.add(this.#place, { name: route, kind: 'server', startMs, endMs, attributes, error });
    this.#tracing.addSteps(this.#place.traceId, this.#place.spanId, steps);
  }
}

/** https://www.w3.org/TR/trace-context/#traceparent-header */
const traceparentShape = /^00-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})$/;

export class RequestTraces {
  readonly #tracing: Tracing;

  constructor(tracing: Tracing) {
    this.#tracing = tracing;
  }

  /**
   * @param traceparent the header of a trusted proxy, which then decides; empty for any other client. @returns
   * undefined if not sampled.
   */
  follow(traceparent: string, startMs: number): FollowedRequest | undefined {
    const [, traceId, parentId, flags = '0'] = traceparentShape.exec(traceparent) ?? [];
    if (traceId !== undefined && parentId !== undefined) {
      const isSampled = (Number.parseInt(flags, 16) & 1) === 1;
      return isSampled ? this.#followed({ traceId, spanId: newSpanId(), parentId }, startMs) : undefined;
    }
    if (Math.random() >= this.#tracing.fraction) return undefined;
    return this.#followed({ traceId: randomBytes(16).toString('hex'), spanId: newSpanId() }, startMs);
  }

  #followed(place: SpanPlace, startMs: number): FollowedRequest {
    return new FollowedRequest(this.#tracing, place, startMs);
  }
}
