/** The edge of a process that sends traces. A process without traces uses `Edge` itself, at no extra cost. */

import type { Connections } from '#common/http/connections.ts';
import type { HttpRequest, HttpResponse } from '#common/http/uws.ts';
import type { Journal, Waiter } from '#common/journal/journal.ts';
import { traceOfClick } from '#common/tracing/click-traces.ts';
import type { Tracing } from '#common/tracing/tracing.ts';
import { Trail } from '#common/tracing/trail.ts';
import { Edge } from './edge.ts';
import type { EdgeOptions } from './edge-options.ts';

export class TracedEdge extends Edge {
  readonly #tracing: Tracing;

  constructor(options: EdgeOptions, tracing: Tracing) {
    super({ ...options, journal: tracedJournal(options.journal, tracing) });
    this.#tracing = tracing;
  }

  override get(res: HttpResponse, req: HttpRequest, connections: Connections): void {
    this.#tracing.trails.run(new Trail(Date.now()), () => super.get(res, req, connections));
  }
}

/** Adds a span for each sampled click once its answer has been sent. */
function tracedJournal(journal: EdgeOptions['journal'], tracing: Tracing): Pick<Journal, 'append'> {
  return {
    append: (lane, json, waiter) => {
      const id = tracing.clicks.idIn(json);
      journal.append(lane, json, id === undefined ? waiter : tracedWaiter(id, json, waiter, tracing));
    },
  };
}

function tracedWaiter(clickId: string, json: string, waiter: Waiter, tracing: Tracing): Waiter {
  const trail = tracing.trails.current ?? new Trail(Date.now());
  const end = (error: string) => {
    const { traceId, spanId } = traceOfClick(clickId);
    const { app_id, link_id, trigger } = JSON.parse(json) as { app_id: string; link_id: string; trigger: string };
    tracing.add(
      { traceId, spanId },
      {
        name: 'GET /{short_code}',
        kind: 'server',
        startMs: trail.startMs,
        endMs: trail.now(),
        attributes: {
          'http.request.method': 'GET',
          'http.route': '/{short_code}',
          'signpost.app_id': app_id,
          'signpost.link_id': link_id,
          'signpost.trigger': trigger,
        },
        error,
      },
    );
    tracing.addSteps(traceId, spanId, trail.steps);
  };
  return {
    committed: () => {
      waiter.committed();
      end('');
    },
    refused: () => {
      waiter.refused();
      end('not_recorded');
    },
  };
}
