/** UTM parameters of a link as it is being written, and the templates that fill them. */
import type { Answer } from './api.ts';

export type UtmTemplate = Answer<'GET /utm-templates/{template_id}'>;

export const utmFields = ['utm_source', 'utm_medium', 'utm_campaign', 'utm_term', 'utm_content'] as const;
type UtmField = (typeof utmFields)[number];
export type UtmDraft = Readonly<Record<UtmField, string>>;
type Values = Readonly<Record<UtmField, string | null>>;

export const utmExamples: UtmDraft = {
  utm_source: 'newsletter',
  utm_medium: 'email',
  utm_campaign: 'spring-sale',
  utm_term: 'running shoes',
  utm_content: 'button',
};

/** Its parameters in one line: `newsletter · email`. */
export const shownParameters = (template: Values): string =>
  utmFields.flatMap((name) => template[name] ?? []).join(' · ');

export const utmDraftOf = (template: Values | undefined): UtmDraft =>
  Object.fromEntries(utmFields.map((name) => [name, template?.[name] ?? ''])) as UtmDraft;

/** Whether the draft still has all that the template gave it. */
export const isFilledFrom = (template: Values, draft: UtmDraft): boolean =>
  utmFields.every((name) => template[name] === null || draft[name] === template[name]);

/** The parameters after another choice: what the last template gave goes with it, what was typed besides stays. */
export function chosenInstead(draft: UtmDraft, before: Values | undefined, next: Values | undefined): UtmDraft {
  const textOf = (name: UtmField) =>
    next?.[name] ?? (before && before[name] !== null && draft[name] === before[name] ? '' : draft[name]);
  return Object.fromEntries(utmFields.map((name) => [name, textOf(name)])) as UtmDraft;
}
