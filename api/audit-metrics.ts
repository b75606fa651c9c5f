/** Metrics of the audit log. */
import type { Registry } from 'prom-client';
import { exposeCounter } from '#common/process/telemetry.ts';
import type { AuditTrail } from './audit-trail.ts';

export function exposeAuditTrail(registry: Registry, trail: AuditTrail): void {
  exposeCounter(
    registry,
    'signpost_api_audit_rows_lost_total',
    'Changes without a row in the audit log, because Postgres did not take it.',
    [],
    (set) => set({}, trail.counters.lost),
  );
}
