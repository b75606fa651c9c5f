/** One pair of a query as it was sent: its name is read, its bytes are not touched. */

/** As every reader of a query decodes it: a plus is a space, and invalid UTF-8 becomes the replacement character. */
export function pairName(pair: string): string {
  const equals = pair.indexOf('=');
  const name = equals === -1 ? pair : pair.slice(0, equals);
  if (!/[%+]/.test(name)) return name;
  // Only a leading question mark is removed, and an encoded & or = stays part of the name.
  for (const [decoded] of new URLSearchParams(`?${name}`)) return decoded;
  return '';
}
