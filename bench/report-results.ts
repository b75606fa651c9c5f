/** Makes the charts of each measurement from the JSON that it writes. */
import type { Chart } from './report-chart.ts';

type Row = Readonly<Record<string, unknown>>;
export type Result = Readonly<Record<string, unknown>>;

const rowsOf = (value: unknown): readonly Row[] => (Array.isArray(value) ? (value as Row[]) : []);
const number = (row: Row, name: string): number | null => (typeof row[name] === 'number' ? row[name] : null);
const text = (row: Row, name: string): string => String(row[name] ?? '');

/** A row for each entry, a bar for each of the fields. */
function chartOf(
  title: string,
  unit: string,
  rows: readonly Row[],
  label: (row: Row) => string,
  fields: Record<string, string>,
) {
  const series = Object.keys(fields);
  const values = (row: Row) => Object.values(fields).map((name) => number(row, name));
  return { title, unit, series, rows: rows.map((row) => ({ label: label(row), values: values(row) })) };
}

const perSecond = (row: Row) => `${Number(row['rate']).toLocaleString('en-US')} per second`;

const redirect = (result: Result): Chart[] => [
  chartOf('CPU of one redirect', 'µs', rowsOf(result['figures']), (row) => text(row, 'case'), {
    redirector: 'redirector_us',
    'a minimal recorder': 'prototype_us',
    'a bare 302': 'bare_us',
  }),
  chartOf('Latency', 'ms', rowsOf(result['latencies']), perSecond, { p50: 'p50_ms', p99: 'p99_ms' }),
];

/** A row for each kind of arrival, a bar for each server. */
function visitors(result: Result): Chart[] {
  const figures = rowsOf(result['figures']);
  const series = [...new Set(figures.map((row) => text(row, 'server')))];
  const arrivals = [...new Set(figures.map((row) => text(row, 'arrival')))];
  const us = (server: string, arrival: string) =>
    figures.find((row) => row['server'] === server && row['arrival'] === arrival);
  const rows = arrivals.map((label) => ({
    label,
    values: series.map((server) => number(us(server, label) ?? {}, 'us')),
  }));
  return [{ title: 'CPU of one visit', unit: 'µs', series, rows }];
}

function path(result: Result): Chart[] {
  const rows = rowsOf(result['figures']);
  const series = Object.keys((rows[0]?.['us'] as Row | undefined) ?? {}).filter((name) => name !== 'total');
  const stacked = rows.map((row) => ({
    label: perSecond(row),
    values: series.map((name) => number((row['us'] as Row | undefined) ?? {}, name)),
  }));
  return [
    { title: 'CPU of one click, all processes', unit: 'µs', series, rows: stacked, isStacked: true },
    chartOf('Until a click is visible', 'ms', rows, perSecond, { p50: 'lag_p50_ms', p99: 'lag_p99_ms' }),
  ];
}

const events = (result: Result): Chart[] => [
  chartOf(
    'CPU of one event',
    'µs',
    rowsOf(result['cases']),
    (row) => (row['events_per_batch'] === 1 ? 'one per request' : `batches of ${text(row, 'events_per_batch')}`),
    { gateway: 'gateway_us', 'parsing and validating alone': 'bare_us' },
  ),
];

const match = (result: Result): Chart[] => [
  chartOf('Latency of a match, at half the peak', 'ms', [result], (row) => `${text(row, 'half_rate')} per second`, {
    p50: 'half_p50_ms',
    p99: 'half_p99_ms',
  }),
  chartOf('CPU of one match', 'µs', [result], () => 'gateway', { gateway: 'cpu_us' }),
];

function analytics(result: Result): Chart[] {
  return rowsOf(result['sizes']).map((size) =>
    chartOf(
      `Queries over ${Number(size['clicks']).toLocaleString('en-US')} clicks`,
      'ms',
      rowsOf(size['rows']),
      (row) => text(row, 'question'),
      { p50: 'p50', p99: 'p99' },
    ),
  );
}

const lists = (result: Result): Chart[] => [
  chartOf(
    `Lists of ${Number(result['links']).toLocaleString('en-US')} links`,
    'ms',
    rowsOf(result['lines']),
    (row) => text(row, 'list'),
    {
      p50: 'p50_ms',
      p99: 'p99_ms',
    },
  ),
];

const against = (result: Result): Chart[] => [
  chartOf(`Latency of ${text(result, 'url')}`, 'ms', [result], (row) => `${text(row, 'per_second')} per second`, {
    p50: 'p50_ms',
    'p97.5': 'p97_5_ms',
    p99: 'p99_ms',
  }),
];

/** In the order of the page. */
export const measurements: Readonly<Record<string, readonly [title: string, charts: (result: Result) => Chart[]]>> = {
  redirect: ['A redirect', redirect],
  visitors: ['Visitors by how they arrive', visitors],
  path: ['The path of a click', path],
  events: ['Events at the SDK edge', events],
  match: ['Matching', match],
  analytics: ['Analytics', analytics],
  lists: ['Lists of links', lists],
  against: ['A deployed system', against],
};
