/**
 * Addresses of people. Only those that an invitation may have get into an account, because mails name a person by their
 * address: no text, no link, and no letter that looks like another one.
 */

export const EMAIL_CHARACTERS_MAX = 320;
/** As in HTML and ajv-formats, without the slash, of which a mail program makes a link. */
const shape =
  /^[a-z0-9!#$%&'*+=?^_`{|}~-]+(?:\.[a-z0-9!#$%&'*+=?^_`{|}~-]+)*@(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)+[a-z0-9](?:[a-z0-9-]*[a-z0-9])?$/i;

/** Whether an account may have the address. `=?` begins an encoded word (RFC 2047), which a mail program decodes. */
export function isEmailAddress(text: string): boolean {
  return text.length <= EMAIL_CHARACTERS_MAX && shape.test(text) && !text.includes('=?');
}

/**
 * An address in the form that accounts store and compare. Only ASCII letters lose their case: Unicode folds the Kelvin
 * sign to `k`, and so another person's address to this one.
 */
export function plainEmail(text: string): string {
  return text.trim().replaceAll(/[A-Z]+/g, (capitals) => capitals.toLowerCase());
}
