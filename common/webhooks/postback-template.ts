/** Templates of postbacks: text with macros in braces, whose values are percent-encoded. */

/** What a postback may be sent for. */
export const postbackEvents = ['install.attributed', 'event.recorded', 'conversion.recorded'] as const;
export type PostbackEvent = (typeof postbackEvents)[number];

export const postbackMethods = ['GET', 'POST'] as const;
export type PostbackMethod = (typeof postbackMethods)[number];

export const TEMPLATE_CHARACTERS_MAX = 2_048;
const VALUE_CHARACTERS_MAX = 500;
const MACROS_MAX = 30;

/** Macros and the record fields that provide their values, in order of preference. */
const fieldsOf = {
  click_id: ['click_id'],
  event_id: ['event_id', 'install_id'],
  event_name: ['name'],
  revenue: ['revenue_amount'],
  currency: ['revenue_currency'],
  campaign: ['campaign'],
  app_id: ['app_id'],
  link_id: ['link_id'],
} as const;
export const postbackMacros = [...Object.keys(fieldsOf), 'query.NAME'];

const macro = /\{(?:query\.([A-Za-z0-9_.~-]{1,100})|([a-z_]+))\}/g;

/** Null for a template whose macros are all known, and whose host is fixed. */
export function templateFault(template: string): string | null {
  if (template.length > TEMPLATE_CHARACTERS_MAX) return `must have at most ${TEMPLATE_CHARACTERS_MAX} characters`;
  const found = [...template.matchAll(macro)];
  if (found.length > MACROS_MAX) return `must have at most ${MACROS_MAX} macros`;
  const names = found.flatMap(([, , name]) => name ?? []);
  const unknown = names.find((name) => !Object.hasOwn(fieldsOf, name));
  const rest = template.replaceAll(macro, '');
  if (unknown !== undefined || /[{}]/.test(rest))
    return `must have no braces but those of ${postbackMacros.map((name) => `{${name}}`).join(', ')}`;
  return null;
}

/**
 * A URL that represents all URLs of the template; they share its host, because the host contains no macro. Null if it
 * does.
 */
export function sampleUrl(template: string): string | null {
  const at = template.indexOf('{');
  const end = /^https?:\/\/[^/?#]*[/?]/i.exec(template)?.[0].length ?? 0;
  return at !== -1 && at < end ? null : at === -1 || end > 0 ? template.replaceAll(macro, 'x') : null;
}

/** Whether the template needs the parameters of the click. */
export function asksForQuery(template: string): boolean {
  return [...template.matchAll(macro)].some(([, parameter]) => parameter !== undefined);
}

/** @param record an install or event as webhooks report it. @param query the query of the click that led to it. */
export function filled(template: string, record: Readonly<Record<string, unknown>>, query: string): string {
  const parameters = new URLSearchParams(query);
  return template.replaceAll(macro, (_, parameter: string | undefined, name: string | undefined) => {
    const value = parameter === undefined ? fieldValue(record, name ?? '') : (parameters.get(parameter) ?? '');
    // A value of only dots is not encoded, and would be a step up in the path.
    if (/^\.+$/.test(value)) return '';
    // Half of a surrogate pair cannot be encoded.
    return encodeURIComponent(value.slice(0, VALUE_CHARACTERS_MAX).toWellFormed());
  });
}

function fieldValue(record: Readonly<Record<string, unknown>>, name: string): string {
  for (const field of fieldsOf[name as keyof typeof fieldsOf] ?? []) {
    const value = record[field];
    if (typeof value === 'string' && value !== '') return value;
  }
  // An install is an event without a name.
  return name === 'event_name' ? 'install' : '';
}
