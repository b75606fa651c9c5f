/** The query parameters of the analytics endpoints: their schemas, and the filters parsed from them. */
import { type Static, type TSchema, Type } from 'typebox';
import { readFilter } from '#api/value-filter.ts';
import { type Filter, type FilterColumn, type Filters, filterColumns } from '#clickhouse/queries/scope.ts';
import { invalid, Rejection } from '#common/http/rejection.ts';
import { granularities } from './buckets.ts';
import { intervals } from './period.ts';

export function oneOf<const T extends readonly string[]>(values: T, description: string) {
  return Type.Unsafe<T[number]>({ type: 'string', enum: [...values], description });
}

export const absentText =
  'some fields exist only for some kinds of records (only clicks have referrer and browser; clicks and installs os and language; installs match_type and match_certainty; events event_name).';

/** Explains when records have a region and a city. */
const placesText = 'Empty unless GEOIP_DB is a database with cities';

const filterCharsMax = 4_000;

const escapes =
  'Inside a value, escape with a backslash: a comma, a backslash, a leading minus, and a leading or trailing space.';

function filter(what: string) {
  return Type.Optional(
    Type.String({
      maxLength: filterCharsMax,
      description: `${what}: one value, a comma-separated list, or exclusions, each with a leading minus. ${escapes}`,
    }),
  );
}

export const periodQuery = {
  start: Type.Optional(
    Type.String({
      maxLength: 40,
      description: 'Date or ISO 8601 time, inclusive. Default if end is given: 30 days before end.',
    }),
  ),
  end: Type.Optional(
    Type.String({
      maxLength: 40,
      description: 'Date (included as a whole) or ISO 8601 time, exclusive. Default: now.',
    }),
  ),
  interval: Type.Optional(
    oneOf(
      intervals,
      'Use instead of start and end; default 30d. Whole days, up to the end of today. 24h: the clock hours that overlap the last 24 hours, up to the end of the current hour.',
    ),
  ),
  timezone: Type.Optional(Type.String({ maxLength: 64, description: 'IANA time zone name; default UTC.' })),
  include_bots: Type.Optional(Type.Boolean({ description: 'Whether to count clicks from bots; default false.' })),
};

const narrowing = {
  campaign: filter('Campaigns; an empty value means no campaign'),
  platform: filter('Platforms'),
  country: filter('Countries (ISO 3166-1 alpha-2)'),
  region: filter(`Regions (ISO 3166-2, such as DE-BY). ${placesText}`),
  city: filter(`Cities by their English name; cities of the same name are one value. ${placesText}`),
  utm_source: filter('Values of utm_source'),
  utm_medium: filter('Values of utm_medium'),
  utm_campaign: filter('Values of utm_campaign'),
  utm_term: filter('Values of utm_term'),
  utm_content: filter('Values of utm_content'),
  referrer: filter('Hosts that clicks came from'),
  browser: filter('Browsers of clicks'),
  os: filter('Operating systems of clicks and installs'),
  language: filter('Languages of clicks and installs'),
  event_name: filter('Names of events'),
  match_type: filter('How installs and openings were matched'),
  match_certainty: filter('Certainty of the match of installs and openings: guaranteed, probabilistic or none'),
  rule: filter(
    'Ids of link rules, each with one of its destinations: the rule that decided the click, or the click behind an install or event',
  ),
  tag: filter('Current tags of links'),
};

export const linkStatsQuery = {
  ...periodQuery,
  ...narrowing,
  granularity: Type.Optional(oneOf(granularities, 'Default: chosen to fit the range.')),
};

export const commonQuery = {
  ...periodQuery,
  app_id: filter('Apps'),
  link_id: filter('Links'),
  ...narrowing,
  organization_id: Type.Optional(
    Type.String({ maxLength: 64, description: 'One of your organizations; default: all of them.' }),
  ),
};

export function querySchema<P extends Record<string, TSchema>>(properties: P) {
  return Type.Object(properties, { additionalProperties: false });
}

const common = querySchema(commonQuery);
export type CommonQuery = Static<typeof common>;

/** The parsed filters, or the error in one of them. The values of `tag` are still tags. */
export function readFilters(query: Partial<Record<FilterColumn, string>>): Filters | Rejection {
  const filters: Partial<Record<FilterColumn, Filter>> = {};
  for (const column of filterColumns) {
    const text = query[column];
    if (text === undefined) continue;
    const filter = readFilter(column, text);
    if (filter instanceof Rejection) return filter;
    if ((column === 'app_id' || column === 'link_id') && filter.values.includes(''))
      return invalid(column, 'contains an empty id');
    filters[column] = filter;
  }
  return filters;
}
