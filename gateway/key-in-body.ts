/**
 * Finds the API key in an unauthenticated body. JSON.parse would let anyone without a key use a third of a second of
 * this process with a kilobyte of gzip (350,000 times `{}`). So the text is only scanned: each character once, without
 * building values, up to the first key. Whether the rest is JSON is checked after the key is accepted.
 */
import { isApiKey } from '#common/api-key.ts';
import type { RawBody } from '#common/http/raw-body.ts';
import { invalid, type Rejection } from '#common/http/rejection.ts';

const [quote, backslash, openObject, closeObject, openList, closeList] = [0x22, 0x5c, 0x7b, 0x7d, 0x5b, 0x5d];
/**
 * Matches what follows the member's name: a value of characters that keys consist of. Clients never send keys with
 * escapes.
 */
const keyValue = /[ \t\r\n]*:[ \t\r\n]*"([0-9A-Za-z_]{1,64})"/y;

/** Where a service's clients put the key. */
export interface KeyPlaces {
  readonly names: readonly string[];
  /** Maximum depth of the member if the body is an object; 1 is the object itself. */
  readonly depthInObject: number;
  /** The same if the body is a list; 0 if it must be an object. */
  readonly depthInList: number;
}

/** The first member that may be a key; empty if there is none. Below the top level, only a well-formed key counts. */
export function readKeyInBody(body: RawBody, places: KeyPlaces): string | Rejection {
  // One character per byte: no byte of a longer UTF-8 sequence looks like JSON syntax.
  const text = body.latin1;
  const start = text.search(/[^ \t\r\n]/);
  if (start === -1) return invalid('body', 'must be a JSON object, but is empty');
  const depthMax = depthMaxOf(text.charCodeAt(start), places);
  if (depthMax === 0) return invalid('body', 'must be a JSON object');
  let depth = 0;
  let isInText = false;
  for (let at = start; at < text.length; at++) {
    const sign = text.charCodeAt(at);
    if (isInText) {
      if (sign === backslash) at++;
      else if (sign === quote) isInText = false;
    } else if (sign === quote) {
      const key = depth <= depthMax ? keyAt(text, at, places) : '';
      if (key !== '' && (depth === 1 || isApiKey(key))) return key;
      isInText = true;
    } else if (sign === openObject || sign === openList) depth++;
    else if (sign === closeObject || sign === closeList) depth--;
  }
  return depth === 0 ? '' : invalid('body', 'is not valid JSON');
}

function depthMaxOf(first: number, { depthInObject, depthInList }: KeyPlaces): number {
  if (first === openObject) return depthInObject;
  return first === openList ? depthInList : 0;
}

function keyAt(text: string, at: number, { names }: KeyPlaces): string {
  for (const name of names) {
    if (!text.startsWith(`${name}"`, at + 1)) continue;
    keyValue.lastIndex = at + name.length + 2;
    return keyValue.exec(text)?.[1] ?? '';
  }
  return '';
}
