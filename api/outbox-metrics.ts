/** Metrics of the change outbox. */
import type { Registry } from 'prom-client';
import { exposeCounter, exposeGauge } from '#common/process/telemetry.ts';
import type { Outbox } from './outbox.ts';

export function exposeOutbox(registry: Registry, outbox: Outbox): void {
  exposeCounter(
    registry,
    'signpost_api_changes_total',
    'Changes to links and apps, by whether the caches received them.',
    ['outcome'],
    (set) => {
      set({ outcome: 'delivered' }, outbox.counters.delivered);
      set({ outcome: 'dropped' }, outbox.counters.dropped);
    },
  );
  exposeCounter(
    registry,
    'signpost_api_change_failures_total',
    'Failed attempts to deliver changes to the redirectors.',
    [],
    (set) => set({}, outbox.counters.failures),
  );
  exposeGauge(registry, 'signpost_api_changes_behind', '1 while changes cannot be sent to the redirectors.', () =>
    outbox.isBehind ? 1 : 0,
  );
}
