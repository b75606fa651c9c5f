/**
 * How long requests took, by route and status, for /metrics. A histogram of prom-client costs about a microsecond each time, as much as
 * checking a key, so the counts are plain numbers and become a histogram when they are read.
 */
import type { Registry } from 'prom-client';

/** Upper bounds in milliseconds; requests are timed to the millisecond. */
const boundsMs = [1, 2, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 10_000];

interface Times {
  readonly route: string;
  readonly status: string;
  /** One for each bound, and one above them. */
  readonly counts: Float64Array;
  sumMs: number;
}

export class RequestTimes {
  /** As many as there are routes and statuses: both are ours. */
  readonly #times = new Map<string, Map<number, Times>>();

  /**
   * @param route a method and a pattern, never client text. @param status 0 if the client disconnected before the
   * response.
   */
  observe(route: string, status: number, ms: number): void {
    let byStatus = this.#times.get(route);
    if (byStatus === undefined) {
      byStatus = new Map();
      this.#times.set(route, byStatus);
    }
    let times = byStatus.get(status);
    if (times === undefined) {
      const text = status === 0 ? 'aborted' : String(status);
      times = { route, status: text, counts: new Float64Array(boundsMs.length + 1), sumMs: 0 };
      byStatus.set(status, times);
    }
    let at = 0;
    while (at < boundsMs.length && ms > (boundsMs[at] ?? 0)) at++;
    times.counts[at] = (times.counts[at] ?? 0) + 1;
    times.sumMs += Math.max(0, ms);
  }

  /** `signpost_http_request_seconds{route,status}` */
  expose(registry: Registry): void {
    const name = 'signpost_http_request_seconds';
    const metric = {
      name,
      help: 'Requests by route and status, and how long they took.',
      type: 'histogram',
      aggregator: 'sum',
      get: async () => ({ ...metric, values: [...this.#values(name)] }),
      reset: () => this.#times.clear(),
    };
    registry.registerMetric(metric as unknown as Parameters<Registry['registerMetric']>[0]);
  }

  *#values(name: string) {
    for (const byStatus of this.#times.values()) {
      for (const { route, status, counts, sumMs } of byStatus.values()) {
        const labels = { route, status };
        let sum = 0;
        for (const [at, count] of counts.entries()) {
          sum += count;
          const bound = boundsMs[at];
          const le = bound === undefined ? '+Inf' : bound / 1_000;
          yield { metricName: `${name}_bucket`, labels: { ...labels, le }, value: sum };
        }
        yield { metricName: `${name}_sum`, labels, value: sumMs / 1_000 };
        yield { metricName: `${name}_count`, labels, value: sum };
      }
    }
  }
}
