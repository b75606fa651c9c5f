/** The possible conditions and destinations of a rule, and a rule in words. */
import { bare, country, languageName, share, time } from './format.ts';
import type { LinkRule, Platform, Weekday } from './rule-draft.ts';
import { language, named, t } from './texts/text.ts';

type Options<Value extends string = string> = readonly (readonly [value: Value, name: string])[];

export const platformOptions = (): Options<Platform> =>
  (['ios', 'android', 'desktop', 'other'] as const).map((one) => [one, t(`platform.${one}`)] as const);

const weekdays = ['mon', 'tue', 'wed', 'thu', 'fri', 'sat', 'sun'] as const satisfies readonly Weekday[];
const dayName = new Intl.DateTimeFormat(language, { weekday: 'short', timeZone: 'UTC' });
/** The 5th of January 2026 is a Monday. */
const nameOfDay = (day: Weekday) => dayName.format(Date.UTC(2026, 0, 5 + weekdays.indexOf(day)));
export const weekdayOptions = (): Options<Weekday> => weekdays.map((day) => [day, nameOfDay(day)] as const);

/** Codes that have a name but are not countries. */
const noCountries = /^(EU|EZ|QO|UN|XA|XB|ZZ)$/;
let countries: Options | undefined;

/** Every current country, sorted by name. */
export function countryOptions(): Options {
  countries ??= letters
    .flatMap((a) => letters.map((b) => a + b))
    .flatMap((code) => {
      const name = country(code);
      const isCountry = name !== code && !noCountries.test(code) && new Intl.Locale(`und-${code}`).region === code;
      return isCountry ? [[code, name] as const] : [];
    })
    .sort(byName);
  return countries;
}

const letters = Array.from({ length: 26 }, (_, at) => String.fromCharCode(65 + at));
const byName = ([, a]: readonly [string, string], [, b]: readonly [string, string]) => a.localeCompare(b, language);

const languageCodes =
  'ar bg bn ca cs da de de-AT de-CH el en en-GB en-US es es-419 es-MX et fa fi fr fr-CA gl he hi hr hu id it ja ko lt lv ms nb nl nn no pl pt pt-BR pt-PT ro ru sk sl sr sv sw ta te th tr uk ur vi zh zh-CN zh-TW';
export const languageOptions = (): Options =>
  languageCodes
    .split(' ')
    .map((code) => [code, languageName(code)] as const)
    .sort(byName);

/** As in statistics. */
const browsers = [
  ...['Chrome', 'Safari', 'Firefox', 'Microsoft Edge', 'Samsung Internet for Android', 'Opera', 'Vivaldi'],
  ...['DuckDuckGo', 'Android Browser', 'UC Browser', 'Yandex Browser', 'Instagram', 'Facebook', 'Messenger'],
  ...['Threads', 'TikTok', 'LinkedIn', 'X', 'Snapchat', 'Pinterest', 'Google', 'WeChat', 'Line', 'KakaoTalk'],
  ...['Telegram', 'Reddit', 'Discord', 'Viber', 'NAVER', 'Teams'],
];
export const browserOptions = (): Options => browsers.map((name) => [name, name] as const);

/** The conditions, each in a few words; without conditions, the rule applies to everyone. */
export function conditionWords(rule: LinkRule, zone: string): string[] {
  const { country: countries = [], platform = [], browser = [], language: tongues = [], weekdays: days = [] } = rule;
  const { os_version_min: min, os_version_max: max, time_from, time_until } = rule;
  const hours = time_from && time_until ? `${time_from}–${time_until}` : '';
  const week = [days.map(nameOfDay).join(', '), hours].filter(Boolean).join(' ');
  const words = [
    countries.map(country).join(', '),
    platform.map((one) => named('platform', one)).join(', '),
    min ? t('rules.from_version', { version: min }) : '',
    max ? t('rules.to_version', { version: max }) : '',
    browser.join(', '),
    tongues.map(languageName).join(', '),
    rule.after ? t('rules.from_time', { time: time(rule.after, zone) }) : '',
    rule.before ? t('rules.to_time', { time: time(rule.before, zone) }) : '',
    week === '' ? '' : `${week} (${(rule.timezone ?? '').replaceAll('_', ' ')})`,
  ].filter((text) => text !== '');
  return words.length === 0 ? [t('rules.everyone')] : words;
}

export function destinationWords({ url = '', variants }: LinkRule): string {
  if (!variants) return bare(url);
  return variants.map((one) => `${share(one.percent / 100)} ${bare(one.url)}`).join(' · ');
}

/** The letter of a variant, by its position. */
export const variantName = (at: number) => letters[at] ?? String(at + 1);
