/** Metrics of the change outbox. */
import type { Registry } from 'prom-client';
import { exposeCounter, exposeGauge } from '#common/process/telemetry.ts';
import type { UntoldChanges } from './untold-changes.ts';

export function exposeUntold(registry: Registry, untold: UntoldChanges): void {
  exposeCounter(
    registry,
    'api_changes_total',
    'Changes of links and apps by what became of telling them.',
    ['outcome'],
    (set) => {
      set({ outcome: 'told' }, untold.counters.told);
      set({ outcome: 'dropped' }, untold.counters.dropped);
    },
  );
  exposeCounter(
    registry,
    'api_change_failures_total',
    'Attempts to tell redirectors of changes that failed.',
    [],
    (set) => set({}, untold.counters.failures),
  );
  exposeGauge(registry, 'api_changes_behind', '1 while changes cannot be sent to the redirectors.', () =>
    untold.isBehind ? 1 : 0,
  );
}
