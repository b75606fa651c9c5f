/** Period, time zone and filters, which are stored in the URL so that a view can be bookmarked and shared. */
import { useCallback, useMemo } from 'react';
import { useLocation, useSearch } from 'wouter';

export const intervals = ['24h', '7d', '30d', '90d', '12mo', 'mtd', 'all'] as const;
export type Interval = (typeof intervals)[number];
export const filterNames = [
  'app_id',
  'link_id',
  'campaign',
  'country',
  'region',
  'city',
  'platform',
  'utm_source',
  'utm_medium',
  'utm_campaign',
  'referrer',
  'browser',
  'os',
  'language',
  'event_name',
  'tag',
] as const;
export type FilterName = (typeof filterNames)[number];

export const ownZone = Intl.DateTimeFormat().resolvedOptions().timeZone || 'UTC';

/** The query parameters of every analytics request of a screen. */
export interface View extends Readonly<Partial<Record<FilterName, string>>> {
  readonly interval?: Interval;
  readonly start?: string;
  readonly end?: string;
  readonly timezone: string;
}

export type Change = Readonly<Record<string, string | null>>;

/** The parameters of the URL, and a function that changes some of them: null removes one. */
export function useAddress(): {
  readonly get: (name: string) => string | null;
  readonly set: (change: Change) => void;
} {
  const search = useSearch();
  const [path, go] = useLocation();
  const set = useCallback(
    (change: Change) => {
      const next = new URLSearchParams(search);
      for (const [name, value] of Object.entries(change)) {
        if (value === null) next.delete(name);
        else next.set(name, value);
      }
      const text = next.toString();
      go(text === '' ? path : `${path}?${text}`);
    },
    [search, path, go],
  );
  return useMemo(() => {
    const now = new URLSearchParams(search);
    return { get: (name) => now.get(name), set };
  }, [search, set]);
}

export function useView(): View {
  const { get } = useAddress();
  return useMemo(() => viewOf(get), [get]);
}

export function viewOf(get: (name: string) => string | null): View {
  const [start, end] = [get('start'), get('end')];
  const wanted = get('period');
  const filters = filterNames.flatMap((name) => {
    const value = get(name);
    return value === null ? [] : [[name, value] as const];
  });
  const period =
    start && end ? { start, end } : { interval: intervals.find((one) => one === wanted) ?? ('30d' as const) };
  return { ...period, timezone: get('tz') ?? ownZone, ...Object.fromEntries(filters) };
}

/** Escapes a value so that a filter matches it exactly. */
export function filterValue(value: string): string {
  return value.replaceAll('\\', '\\\\').replaceAll(',', '\\,').replace(/^-/, '\\-').replace(/^ | $/g, '\\ ');
}

export function shownValue(filter: string): string {
  return filter.replaceAll(/\\([,\- \\])/g, '$1');
}

/** Of a filter with several values. */
export const shownValues = (filter: string): string[] => (filter.match(/(?:\\.|[^,])+/g) ?? []).map(shownValue);

const dayMs = 86_400_000;

/** The range before or after the current one, in whole days. */
export function shifted(
  startIso: string,
  endIso: string,
  steps: number,
  timeZone: string,
): { start: string; end: string } {
  const [start, end] = [Date.parse(startIso), Date.parse(endIso)];
  const days = Math.max(1, Math.round((end - start) / dayMs));
  const dayOf = (ms: number) => new Intl.DateTimeFormat('en-CA', { timeZone }).format(new Date(ms));
  const move = steps * days * dayMs;
  return { start: dayOf(start + move), end: dayOf(end + move - dayMs / 2) };
}
