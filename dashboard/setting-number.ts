/** The number fields of an app's settings, which are text until they are sent. */

/**
 * What to send: null for an emptied field, which restores the default. A comma counts as a decimal point. Text that is not
 * a number, or could mean either one or a thousand (1,000), is sent unchanged, so that the API rejects it and names the
 * field.
 */
export function settingNumber(text: string): number | string | null {
  const trimmed = text.trim();
  if (trimmed === '') return null;
  const value = Number(trimmed.replace(',', '.'));
  return Number.isFinite(value) && !/^[1-9]\d*,\d{3}$/.test(trimmed) ? value : text;
}
