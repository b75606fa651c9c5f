/**
 * The redirector's counters and metrics. The counters are plain numbers, because a label lookup per request would cost
 * more than the answer.
 */
import type { Registry } from 'prom-client';
import type { Journal } from '#common/journal/journal.ts';
import { exposeJournal } from '#common/journal/journal-counters.ts';
import type { LinkCache } from '#common/links/link-cache.ts';
import type { LongLinks } from '#common/links/long-links.ts';
import { exposeCounter, exposeGauge } from '#common/process/telemetry.ts';
import { type AdPostbacks, adPostbackOutcomes } from './ad-postbacks.ts';
import type { AskedLinks } from './asked-links.ts';
import type { ClickShares } from './click-shares.ts';
import type { DiskCache } from './disk-cache.ts';
import type { OrphanVisits } from './orphan-visits.ts';
import type { ShareFile } from './share-file.ts';
import { beaconOutcomes, type SignalBeacon } from './signal-beacon.ts';

export const answerKinds = [
  'redirect',
  'preview',
  'tap_page',
  'head',
  'expired',
  'password',
  'wrong_password',
  'password_limited',
  'root',
  'long_link_unrecorded',
  'long_link_refused',
  'not_learned',
  'association',
  'static',
  'not_found',
  'gone',
  'unavailable',
  'method_not_allowed',
  'bad_request',
  'loop',
] as const;

export type AnswerKind = (typeof answerKinds)[number];

export class Counters {
  readonly answers: Record<AnswerKind, number> = {
    redirect: 0,
    preview: 0,
    tap_page: 0,
    head: 0,
    expired: 0,
    password: 0,
    wrong_password: 0,
    password_limited: 0,
    root: 0,
    long_link_unrecorded: 0,
    long_link_refused: 0,
    not_learned: 0,
    association: 0,
    static: 0,
    not_found: 0,
    gone: 0,
    unavailable: 0,
    method_not_allowed: 0,
    bad_request: 0,
    loop: 0,
  };
  /** Clicks that were answered but not accepted by the journal. */
  not_recorded = 0;
  /** Visitors that disconnected before their answer. Their clicks are recorded. */
  aborted = 0;
}

export interface Counted {
  readonly counters: Counters;
  readonly cache: LinkCache;
  readonly journal: Journal;
  readonly diskCache: DiskCache;
  readonly beacon: SignalBeacon;
  readonly adPostbacks: Pick<AdPostbacks, 'counters'>;
  readonly orphans: OrphanVisits;
  readonly longLinks: Pick<LongLinks, 'counters'>;
  readonly asked: Pick<AskedLinks, 'counters' | 'waiting'>;
  readonly shares: ClickShares;
  readonly shareFile: ShareFile;
  /** Requests that wait for the journal or for a lookup. */
  readonly waiting: () => number;
}

/** Exposes the counters in the registry; they are read at each scrape. */
export function exposeCounters(
  registry: Registry,
  { counters, cache, journal, beacon, adPostbacks, orphans, longLinks, asked, shares, shareFile, waiting }: Counted,
): void {
  const counter = exposeCounter.bind(null, registry);
  const gauge = exposeGauge.bind(null, registry);
  counter('signpost_redirector_answers_total', 'Answers by kind.', ['kind'], (set) => {
    for (const kind of answerKinds) set({ kind }, counters.answers[kind]);
  });
  counter('signpost_redirector_tap_signals_total', 'Signals from tap pages, by outcome.', ['outcome'], (set) => {
    for (const outcome of beaconOutcomes) set({ outcome }, beacon.counters[outcome]);
  });
  counter('signpost_redirector_ad_postbacks_total', 'Copies of Apple’s postbacks, by outcome.', ['outcome'], (set) => {
    for (const outcome of adPostbackOutcomes) set({ outcome }, adPostbacks.counters[outcome]);
  });
  counter('signpost_redirector_orphan_visits_total', 'Visits of codes that their host does not have.', [], (set) =>
    set({}, orphans.counters.counted),
  );
  counter('signpost_redirector_long_links_total', 'First visits of long links, by outcome.', ['outcome'], (set) => {
    for (const [outcome, count] of Object.entries(longLinks.counters)) set({ outcome }, count);
  });
  counter(
    'signpost_redirector_asked_codes_total',
    'Unknown codes of apps that are moving here, by outcome.',
    ['outcome'],
    (set) => {
      for (const [outcome, count] of Object.entries(asked.counters)) set({ outcome }, count);
    },
  );
  gauge('signpost_redirector_asking_visits', 'Visits that wait for an answer of an old service.', () => asked.waiting);
  counter('signpost_redirector_clicks_not_recorded_total', 'Clicks answered without a record.', [], (set) =>
    set({}, counters.not_recorded),
  );
  counter('signpost_redirector_aborted_total', 'Visitors that disconnected before their answer.', [], (set) =>
    set({}, counters.aborted),
  );
  counter(
    'signpost_redirector_lookups_total',
    'Lookups by kind and by the source that answered.',
    ['of', 'by'],
    (set) => {
      for (const [of, one] of [
        ['link', cache.links],
        ['app', cache.apps],
      ] as const) {
        for (const [by, count] of Object.entries(one.counters)) set({ of, by }, count);
      }
    },
  );
  exposeShares(registry, shares, shareFile);
  exposeJournal(registry, 'signpost_redirector', journal);
  gauge('signpost_redirector_cached_links', 'Links in memory.', () => cache.links.size);
  gauge('signpost_redirector_waiting_requests', 'Requests that wait for the journal or a lookup.', waiting);
  gauge(
    'signpost_redirector_waiting_lookups',
    'Lookups that wait for a store.',
    () => cache.links.waiting + cache.apps.waiting,
  );
  gauge('signpost_redirector_changes_heard', '1 while link changes arrive immediately.', () =>
    cache.isSubscribed ? 1 : 0,
  );
}

function exposeShares(registry: Registry, shares: ClickShares, file: ShareFile): void {
  const counter = exposeCounter.bind(null, registry);
  const { counters } = shares;
  counter('signpost_redirector_limited_clicks_total', 'Clicks of links with max_clicks.', ['outcome'], (set) => {
    set({ outcome: 'taken' }, counters.taken);
    set({ outcome: 'reached' }, counters.reached);
  });
  counter('signpost_redirector_share_asks_total', 'Requests for shares of clicks, by outcome.', ['outcome'], (set) => {
    set({ outcome: 'granted' }, counters.grants);
    set({ outcome: 'refused' }, counters.refused_grants);
    set({ outcome: 'failed' }, counters.failed_grants);
  });
  counter(
    'signpost_redirector_share_clicks_adrift_total',
    'Clicks of links with max_clicks that count as used because their redirector is gone (given_up), or that a restored Postgres did not know (unknown).',
    ['reason'],
    (set) => {
      set({ reason: 'given_up' }, counters.given_up);
      set({ reason: 'unknown' }, counters.unknown);
    },
  );
  counter(
    'signpost_redirector_share_file_failures_total',
    'Failed writes of the file of shares. Until one succeeds, links with max_clicks are answered as if they had ended.',
    [],
    (set) => set({}, file.counters.write_failures),
  );
  exposeGauge(
    registry,
    'signpost_redirector_open_shares',
    'Links with max_clicks of which this process holds clicks.',
    () => shares.openShares,
  );
}
