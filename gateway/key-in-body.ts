/**
 * Finds the API key in an unauthenticated body. JSON.parse would let anyone without a key spend a third of a second of
 * this process with a kilobyte of gzip (350,000 times `{}`). So the text is only scanned: each character once, nothing
 * is built, and the scan ends at the first key. Whether the rest is JSON is checked once the key is accepted.
 */
import type { RawBody } from '#common/http/raw-body.ts';
import { invalid, type Rejection } from '#common/http/rejection.ts';

const [quote, backslash, openObject, closeObject, openList, closeList] = [0x22, 0x5c, 0x7b, 0x7d, 0x5b, 0x5d];
/** What follows the member's name: a value of characters that keys consist of. Clients never send keys with escapes. */
const keyValue = /[ \t\r\n]*:[ \t\r\n]*"([0-9A-Za-z_]{1,64})"/y;

/** The value of a member of the top-level object; empty if there is none that can be a key. */
export function readKeyInBody(body: RawBody, field: string): string | Rejection {
  // One character per byte: no byte of a longer UTF-8 sequence looks like JSON syntax.
  const text = body.latin1;
  const start = text.search(/[^ \t\r\n]/);
  if (start === -1) return invalid('body', 'must be a JSON object, but is empty');
  if (text.charCodeAt(start) !== openObject) return invalid('body', 'must be a JSON object');
  const name = `"${field}"`;
  let depth = 0;
  let isInText = false;
  for (let at = start; at < text.length; at++) {
    const sign = text.charCodeAt(at);
    if (isInText) {
      if (sign === backslash) at++;
      else if (sign === quote) isInText = false;
    } else if (sign === quote) {
      const key = depth === 1 && text.startsWith(name, at) ? keyAt(text, at + name.length) : '';
      if (key !== '') return key;
      isInText = true;
    } else if (sign === openObject || sign === openList) depth++;
    else if (sign === closeObject || sign === closeList) depth--;
  }
  return depth === 0 ? '' : invalid('body', 'is not valid JSON');
}

function keyAt(text: string, nameEnd: number): string {
  keyValue.lastIndex = nameEnd;
  return keyValue.exec(text)?.[1] ?? '';
}
