/** Metrics of links that are learned from old services. */
import type { Registry } from 'prom-client';
import { exposeCounter } from '#common/process/telemetry.ts';
import type { LinkLearner } from './link-learner.ts';

export function exposeLearner(registry: Registry, { counters }: LinkLearner): void {
  exposeCounter(
    registry,
    'signpost_api_asked_codes_total',
    'Unknown codes looked up at an old service, by outcome.',
    ['outcome'],
    (set) => {
      for (const [outcome, count] of Object.entries(counters)) set({ outcome }, count);
    },
  );
}
