/** The rules of a link that is being edited: every value is text or a list until it is sent. */
import type { Answer } from './api.ts';
import { withScheme } from './link-draft.ts';
import { localTime } from './local-time.ts';

export type LinkRule = NonNullable<Answer<'GET /links/{id}'>['rules']>[number];
export type Platform = NonNullable<LinkRule['platform']>[number];
export type Weekday = NonNullable<LinkRule['weekdays']>[number];

export interface VariantDraft {
  readonly key: number;
  readonly url: string;
  readonly percent: string;
}

export interface RuleDraft {
  /** Stays with the rule when it moves. */
  readonly key: number;
  readonly country: readonly string[];
  readonly platform: readonly Platform[];
  readonly osMin: string;
  readonly osMax: string;
  readonly browser: readonly string[];
  readonly language: readonly string[];
  /** As local times, for the browser's native input. */
  readonly after: string;
  readonly before: string;
  readonly weekdays: readonly Weekday[];
  readonly timeFrom: string;
  readonly timeUntil: string;
  readonly timezone: string;
  readonly url: string;
  /** Null: everyone is redirected to `url`. */
  readonly variants: readonly VariantDraft[] | null;
  /** The stored value, so that a time that was not edited keeps its seconds. */
  readonly stored: LinkRule | null;
}

let keys = 0;

export function newVariant(percent: number): VariantDraft {
  return { key: keys++, url: '', percent: String(percent) };
}

export function ruleDraftOf(stored: LinkRule | null): RuleDraft {
  const rule = stored ?? {};
  const variants = rule.variants?.map(({ url, percent }) => ({ key: keys++, url, percent: String(percent) }));
  return {
    key: keys++,
    country: rule.country ?? [],
    platform: rule.platform ?? [],
    osMin: rule.os_version_min ?? '',
    osMax: rule.os_version_max ?? '',
    browser: rule.browser ?? [],
    language: rule.language ?? [],
    after: localText(rule.after),
    before: localText(rule.before),
    weekdays: rule.weekdays ?? [],
    timeFrom: rule.time_from ?? '',
    timeUntil: rule.time_until ?? '',
    timezone: rule.timezone ?? '',
    url: rule.url ?? '',
    variants: variants ?? null,
    stored,
  };
}

/** Versions can be compared only within one operating system. */
export const hasVersions = ({ platform: [only, another] }: Pick<RuleDraft, 'platform'>) =>
  another === undefined && (only === 'ios' || only === 'android');

/** What to send. Empty conditions are omitted; the API rejects an empty destination. */
export function ruleOf(draft: RuleDraft): LinkRule {
  const { stored, variants } = draft;
  const isWeekly = draft.weekdays.length > 0 || draft.timeFrom !== '' || draft.timeUntil !== '';
  const versions = hasVersions(draft);
  return {
    ...list('country', draft.country),
    ...list('platform', draft.platform),
    ...(versions ? text('os_version_min', draft.osMin) : {}),
    ...(versions ? text('os_version_max', draft.osMax) : {}),
    ...list('browser', draft.browser),
    ...list('language', draft.language),
    ...text('after', timeOf(draft.after, stored?.after)),
    ...text('before', timeOf(draft.before, stored?.before)),
    ...list('weekdays', draft.weekdays),
    ...text('time_from', draft.timeFrom),
    ...text('time_until', draft.timeUntil),
    ...(isWeekly ? text('timezone', draft.timezone) : {}),
    ...(variants === null
      ? { url: withScheme(draft.url) }
      : { variants: variants.map(({ url, percent }) => ({ url: withScheme(url), percent: Number(percent) })) }),
  };
}

const localText = (iso: string | undefined) => (iso === undefined ? '' : localTime(Date.parse(iso)));

function timeOf(local: string, stored: string | undefined): string {
  if (local === '') return '';
  return stored !== undefined && localText(stored) === local ? stored : new Date(local).toISOString();
}

const text = (name: string, value: string) => (value.trim() === '' ? {} : { [name]: value.trim() });
const list = (name: string, values: readonly string[]) => (values.length === 0 ? {} : { [name]: [...values] });
