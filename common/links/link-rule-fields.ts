/** The redirect rules that a caller may write: their schema, and rules that a schema can't express. */
import { type TSchema, Type } from 'typebox';
import type { FieldError } from '#common/http/rejection.ts';
import { isObject } from '#common/json-object.ts';
import { localTimeOf } from '#common/local-time.ts';
import { isStorableTime, storableTimes } from '#common/storable-time.ts';
import {
  compareVersions,
  type LinkRule,
  type RulePlatform,
  rulePlatforms,
  versionNumbers,
  type Weekday,
  weekdays,
} from './link-rule.ts';
import { URL_CHARACTERS_MAX, urlFault } from './web-address.ts';

export const LINK_RULES_MAX = 20;
const VARIANTS_MAX = 10;
/** Maximum size of a link's rules as JSON, because they are part of each of its snapshots. */
const RULES_BYTES_MAX = 16_384;

/** One of some texts. */
function listOf(items: TSchema, maxItems: number, description: string) {
  return Type.Optional(Type.Array(items, { minItems: 1, maxItems, uniqueItems: true, description }));
}

const version = (description: string) =>
  Type.Optional(Type.String({ pattern: '^\\d{1,4}(\\.\\d{1,4}){0,2}$', examples: ['17.4'], description }));
const timeOfDay = (description: string) =>
  Type.Optional(Type.String({ pattern: '^([01]\\d|2[0-3]):[0-5]\\d$', examples: ['08:30'], description }));
const moment = (description: string) => Type.Optional(Type.String({ format: 'date-time', description }));
const url = (description: string) => Type.String({ minLength: 1, maxLength: URL_CHARACTERS_MAX, description });

const ruleSchema = Type.Object(
  {
    country: listOf(
      Type.String({ pattern: '^[A-Z]{2}$', examples: ['DE'] }),
      250,
      'Countries (ISO 3166 alpha-2) of the visitor’s IP address. An unknown country matches none.',
    ),
    platform: listOf(Type.Unsafe<RulePlatform>({ type: 'string', enum: [...rulePlatforms] }), 4, 'As in statistics.'),
    os_version_min: version(
      'The oldest OS version, such as 17 or 17.4. Requires platform to be ios or android alone. If the browser hides its version, this matches only if the version cannot be older.',
    ),
    os_version_max: version('The newest OS version; 17 includes 17.6. A hidden version does not match.'),
    browser: listOf(
      Type.String({ pattern: '^[\\x21-\\x7e][\\x20-\\x7e]{0,63}$', examples: ['Instagram'] }),
      20,
      'Browsers, or apps with an in-app browser, named as in statistics; not case-sensitive.',
    ),
    language: listOf(
      Type.String({ pattern: '^[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8}){0,2}$', examples: ['pt-BR'] }),
      50,
      'Languages (BCP 47). Compared with the visitor’s most preferred language: de includes de-AT, but de-AT does not include de.',
    ),
    after: moment('Start of the period, inclusive.'),
    before: moment('End of the period, exclusive.'),
    weekdays: listOf(
      Type.Unsafe<Weekday>({ type: 'string', enum: [...weekdays] }),
      7,
      'Days of the week in timezone. A time span across midnight belongs to the day on which it starts.',
    ),
    time_from: timeOfDay('Start of a daily time span, in timezone. Requires time_until.'),
    time_until: timeOfDay(
      'End of the daily time span, exclusive. If it is earlier than time_from, the span crosses midnight.',
    ),
    timezone: Type.Optional(
      Type.String({
        maxLength: 64,
        description: 'IANA name, such as Europe/Berlin. Required with weekdays and times of day.',
      }),
    ),
    url: Type.Optional(url('The destination, an https URL. Give either url or variants.')),
    variants: Type.Optional(
      Type.Array(
        Type.Object(
          { url: url('An https URL.'), percent: Type.Integer({ minimum: 1, maximum: 100 }) },
          { additionalProperties: false, title: 'RuleVariant' },
        ),
        {
          minItems: 1,
          maxItems: VARIANTS_MAX,
          description:
            'Splits visitors between several destinations by percentage, at most 100 % in total; the remaining visitors fall through to the next rule. A visitor keeps their variant as long as their address and user agent stay the same.',
        },
      ),
    ),
  },
  { additionalProperties: false, title: 'LinkRule' },
);

export const rulesSchema = Type.Unsafe<readonly LinkRule[] | null>({
  ...Type.Array(ruleSchema, { maxItems: LINK_RULES_MAX }),
  type: ['array', 'null'],
  description: `Conditional destinations. The first rule whose conditions all hold decides, before ios_url and the other destinations. At most ${LINK_RULES_MAX} rules, and ${RULES_BYTES_MAX} bytes as JSON.`,
});

/** Checks what the schema can't express. Accepts anything; wrong types are reported by the schema. */
export function rulesFaults(rules: unknown): FieldError[] {
  if (!Array.isArray(rules)) return [];
  if (Buffer.byteLength(JSON.stringify(rules)) > RULES_BYTES_MAX)
    return [{ field: 'rules', message: `must have at most ${RULES_BYTES_MAX} bytes as JSON` }];
  return rules.slice(0, LINK_RULES_MAX).flatMap((rule: unknown, index) => {
    if (!isObject(rule)) return [];
    const faults = [...destinationFaults(rule), ...countryFaults(rule), ...versionFaults(rule), ...timeFaults(rule)];
    return faults.map(({ field, message }) => ({ field: `rules[${index}].${field}`, message }));
  });
}

type GivenRule = Readonly<Record<string, unknown>>;
const textOf = (value: unknown) => (typeof value === 'string' ? value : undefined);

function destinationFaults({ url, variants }: GivenRule): FieldError[] {
  if ((url === undefined) === (variants === undefined))
    return [{ field: 'url', message: 'is required, or variants; not both' }];
  const urls = [
    { field: 'url', url },
    ...(Array.isArray(variants) ? variants : []).map((variant: unknown, at) => ({
      field: `variants[${at}].url`,
      url: isObject(variant) ? variant['url'] : undefined,
    })),
  ];
  const faults = urls.flatMap(({ field, url }) => {
    const message = typeof url === 'string' ? urlFault(url) : null;
    return message === null ? [] : [{ field, message }];
  });
  const percents = (Array.isArray(variants) ? variants : []).map((one: unknown) =>
    isObject(one) && typeof one['percent'] === 'number' ? one['percent'] : 0,
  );
  if (percents.reduce((sum, percent) => sum + percent, 0) > 100)
    faults.push({ field: 'variants', message: 'must add up to at most 100 percent' });
  return faults;
}

const regionNames = new Intl.DisplayNames('en', { type: 'region', fallback: 'none' });
/** Regions that CLDR names but that are not countries. */
const noCountries = /^(XA|XB|ZZ)$/;

/** A rule for a country code that does not exist would never match: UK instead of GB, for example. */
function countryFaults({ country }: GivenRule): FieldError[] {
  return (Array.isArray(country) ? country : []).flatMap((code: unknown, at) => {
    if (typeof code !== 'string' || !/^[A-Z]{2}$/.test(code)) return [];
    const { region = code } = new Intl.Locale(`und-${code}`);
    if (region !== code) return [{ field: `country[${at}]`, message: `is an outdated code: use ${region}` }];
    const isKnown = regionNames.of(code) !== undefined && !noCountries.test(code);
    return isKnown ? [] : [{ field: `country[${at}]`, message: 'is not a country code' }];
  });
}

function versionFaults({ platform, os_version_min, os_version_max }: GivenRule): FieldError[] {
  const given = os_version_min === undefined ? 'os_version_max' : 'os_version_min';
  if (os_version_min === undefined && os_version_max === undefined) return [];
  const [only, another] = Array.isArray(platform) ? (platform as unknown[]) : [];
  if ((only !== 'ios' && only !== 'android') || another !== undefined)
    return [{ field: given, message: 'requires platform to be ios or android alone' }];
  const [min, max] = [textOf(os_version_min), textOf(os_version_max)];
  return min !== undefined && max !== undefined && compareVersions(versionNumbers(min), versionNumbers(max)) > 0
    ? [{ field: 'os_version_max', message: 'must not be older than os_version_min' }]
    : [];
}

function timeFaults({ after, before, weekdays, time_from, time_until, timezone }: GivenRule): FieldError[] {
  const faults: FieldError[] = Object.entries({ after, before })
    .filter(([, time]) => typeof time === 'string' && !isStorableTime(time))
    .map(([field]) => ({ field, message: storableTimes }));
  const [afterMs, beforeMs] = [Date.parse(textOf(after) ?? ''), Date.parse(textOf(before) ?? '')];
  if (beforeMs <= afterMs) faults.push({ field: 'before', message: 'must be later than after' });
  if ((time_from === undefined) !== (time_until === undefined))
    faults.push({
      field: time_from === undefined ? 'time_from' : 'time_until',
      message: 'is required: a time span has a start and an end',
    });
  if (time_from !== undefined && time_from === time_until)
    faults.push({ field: 'time_until', message: 'must differ from time_from' });
  const isLocal = weekdays !== undefined || time_from !== undefined || time_until !== undefined;
  if (isLocal && timezone === undefined)
    faults.push({ field: 'timezone', message: 'is required with weekdays and times of day' });
  if (typeof timezone === 'string' && localTimeOf(timezone) === null)
    faults.push({ field: 'timezone', message: 'must be an IANA name, such as Europe/Berlin' });
  return faults;
}
