/**
 * Short codes: parsing them from a URL's path, and which codes may be stored. A new code is 3 to 64 letters, digits,
 * `_` and `-` (link-fields.ts). An imported code stays as printed and may also contain `/`, `.`, `~` and characters
 * outside ASCII.
 *
 * One stored form per code: decoded, in Unicode NFC, without percent signs. A path names it in any encoding that decodes
 * to it once, so `%2F` and `/` are the same; `%252F` is a percent sign, which no code contains.
 */

import { hasGlyph } from '#common/visible-text.ts';

export const IMPORTED_CODE_CHARACTERS_MAX = 190;
/** Each character takes at most four bytes, and each escaped byte takes three characters. */
const PATH_CHARACTERS_MAX = 1 + IMPORTED_CODE_CHARACTERS_MAX * 12;

const ordinaryPath = /^\/[A-Za-z0-9_-]{3,64}$/;
const ordinaryCode = /^[A-Za-z0-9_-]{3,64}$/;

/** Reserved paths of a short-link host, case-insensitive, including everything below them. */
const reservedNames = new Set([
  '.well-known',
  '-',
  'apple-app-site-association',
  'favicon',
  'favicon.ico',
  'healthz',
  'metrics',
  'readyz',
  'robots',
  'robots.txt',
]);

/** Whether the first segment of a code is reserved. */
export function isReservedCode(code: string): boolean {
  const slash = code.indexOf('/');
  return reservedNames.has(lowerCode(slash === -1 ? code : code.slice(0, slash)));
}

/** Whether a new link could have the code. */
export function isOrdinaryCode(code: string): boolean {
  return ordinaryCode.test(code);
}

/**
 * The code in a path, or null if no link can have it. Some programs add a slash at the end.
 * @param path as it was sent, without its query.
 */
export function codeOfPath(path: string): string | null {
  if (ordinaryPath.test(path)) return path.slice(1);
  if (path.length > PATH_CHARACTERS_MAX) return null;
  const code = decodedCode(path.endsWith('/') ? path.slice(1, -1) : path.slice(1));
  return code !== null && importedCodeFault(code) === null ? code : null;
}

/** A code in its stored form, not yet checked; null if its escapes are malformed or not UTF-8. */
export function decodedCode(text: string): string | null {
  if (!text.includes('%')) return text.normalize('NFC');
  try {
    return decodeURIComponent(text).normalize('NFC');
  } catch {
    return null;
  }
}

/** The path of a code as browsers send it. */
export function pathOfCode(code: string): string {
  return isOrdinaryCode(code) ? `/${code}` : `/${code.split('/').map(encodeURIComponent).join('/')}`;
}

/** Lower case, for hosts with case-insensitive codes; ASCII only, like Postgres with the collation C. */
export function lowerCode(code: string): string {
  return code.replace(/[A-Z]+/g, (capitals) => capitals.toLowerCase());
}

/**
 * Outside ASCII: no control, space, private or invisible characters, except the two joiners that emoji and some scripts
 * need. U+FFFD stands for bytes that are not text.
 */
const forbidden = /[^A-Za-z0-9_.~/\u0080-\u{10ffff}-]|[\p{Cc}\p{Cs}\p{Co}\p{Z}\ufffd]|(?![\u200c\u200d])\p{Cf}/u;

/** What is wrong with an imported code, or null. It must be in NFC. */
export function importedCodeFault(code: string): string | null {
  if (code === '') return 'must not be empty';
  if ([...code].length > IMPORTED_CODE_CHARACTERS_MAX)
    return `must have at most ${IMPORTED_CODE_CHARACTERS_MAX} characters`;
  if (forbidden.test(code))
    return 'may contain letters, digits, _ - . ~ / and characters beyond ASCII, but no spaces or controls';
  if (!hasGlyph(code)) return 'must have a visible character';
  // Browsers resolve dot segments before they send a request, and proxies merge empty ones.
  if (code.split('/').some((segment) => segment === '' || segment === '.' || segment === '..'))
    return 'must not contain an empty segment, or one of only . or ..';
  return isReservedCode(code) ? 'is reserved' : null;
}
