/**
 * The counters of the SDK edge, and their registration for /metrics. Each part of the edge counts in its own plain
 * numbers.
 */
import type { Registry } from 'prom-client';
import type { Journal } from '#common/journal/journal.ts';
import { exposeJournal } from '#common/journal/journal-counters.ts';
import { exposeCounter, exposeGauge } from '#common/process/telemetry.ts';
import type { StoreClock } from '#common/stores/store-clock.ts';
import type { EventTracking } from './events/tracking.ts';
import type { ForeignTracking } from './foreign/foreign-tracking.ts';
import type { Installation } from './install/installation.ts';
import type { KeyCheck } from './key-check.ts';
import type { AppOpens } from './match/app-opens.ts';
import type { Matching } from './match/matching.ts';

export interface GatewayCounters {
  readonly matches: Matching['counters'];
  readonly lookups: Matching['lookups'];
  readonly opens: AppOpens['counters'];
  readonly installs: Installation['counters'];
  readonly events: EventTracking['counters'];
  readonly refusals: EventTracking['refusals'];
  readonly foreign: ForeignTracking['counters'];
  readonly keys: KeyCheck['counters'];
  readonly storeClock: Pick<StoreClock, 'aheadMs'>;
}

/** Registers the counters; their values are read at scrape time. */
export function exposeGateway(registry: Registry, counters: GatewayCounters, journal: Journal): void {
  const counter = exposeCounter.bind(null, registry);
  counter('signpost_gateway_matches_total', 'Matches by type.', ['match_type'], (set) => {
    const { ambiguous: _, ...types } = counters.matches;
    for (const [match_type, count] of Object.entries(types)) set({ match_type }, count);
  });
  counter('signpost_gateway_opens_total', 'App openings through a link, by evidence.', ['trigger'], (set) => {
    for (const [trigger, count] of Object.entries(counters.opens)) set({ trigger }, count);
  });
  counter(
    'signpost_gateway_click_lookups_total',
    'Named clicks that were looked up in ClickHouse.',
    ['outcome'],
    (set) => {
      for (const [outcome, count] of Object.entries(counters.lookups)) set({ outcome }, count);
    },
  );
  counter(
    'signpost_gateway_matches_ambiguous_total',
    'Matches rejected because several links were equally likely.',
    [],
    (set) => set({}, counters.matches.ambiguous),
  );
  counter('signpost_gateway_installs_total', 'Installs by outcome.', ['outcome'], (set) => {
    for (const [outcome, count] of Object.entries(counters.installs)) set({ outcome }, count);
  });
  counter('signpost_gateway_events_total', 'Events by outcome.', ['outcome'], (set) => {
    const { refused_batches: _, ...outcomes } = counters.events;
    for (const [outcome, count] of Object.entries(outcomes)) set({ outcome }, count);
  });
  counter(
    'signpost_gateway_event_batches_refused_total',
    'Batches rejected as a whole because nothing could be stored.',
    [],
    (set) => set({}, counters.events.refused_batches),
  );
  counter('signpost_gateway_events_refused_total', 'Rejected events by reason.', ['reason'], (set) => {
    for (const [reason, count] of counters.refusals) set({ reason }, count);
  });
  counter(
    'signpost_gateway_foreign_calls_total',
    "Items from other services' clients that are not events.",
    ['call'],
    (set) => {
      for (const [call, count] of Object.entries(counters.foreign)) set({ call }, count);
    },
  );
  counter('signpost_gateway_key_lookups_total', 'API key checks by the store that answered.', ['by'], (set) => {
    for (const [by, count] of Object.entries(counters.keys)) set({ by }, count);
  });
  exposeGauge(
    registry,
    'signpost_gateway_clock_ahead_seconds',
    'How far the clock of this process is ahead of that of Redis; negative if it is behind.',
    () => counters.storeClock.aheadMs / 1000,
  );
  exposeJournal(registry, 'signpost_gateway', journal);
}
