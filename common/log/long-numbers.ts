/**
 * JSON numbers with more digits than a double holds (IEEE 754: 15 are safe) change when they are parsed and serialized
 * again: 12345678901234567890 becomes …7000. If a text has such a number, the properties in it are cut out as they were
 * sent; otherwise they are reserialized, which costs less than finding them in the text.
 */

/** Sixteen consecutive digits and dots, in a place where a number can be. */
const longNumber = /[:,[\s]-?\d[\d.]{15}/;

/** Never false if a number has too many digits; true for some numbers that would not change. */
export function hasLongNumber(text: string): boolean {
  return longNumber.test(text);
}

/** The properties of an object in a JSON text, as they were sent but without spaces; null if it has none. */
export function propertiesIn(text: string, path: readonly string[]): string | null {
  const at = valueAt(text, path);
  return at === -1 ? null : propertiesAt(text, at);
}

/** The same for each of the object's `events`, or for itself if it has none. */
export function propertiesOfEvents(text: string, path: readonly string[]): (string | null)[] {
  const at = valueAt(text, path);
  if (at === -1) return [];
  const events = memberAt(text, at, 'events');
  if (events === -1) return [propertiesAt(text, at)];
  return [...elementsAt(text, events)].map((element) => propertiesAt(text, element));
}

function propertiesAt(text: string, at: number): string | null {
  const start = memberAt(text, at, 'properties');
  return start === -1 || text[start] !== '{' ? null : compact(text.slice(start, endOfValue(text, start)));
}

/** Without the spaces and line breaks between its tokens. */
function compact(json: string): string {
  let compacted = '';
  for (let at = 0; at < json.length; ) {
    const quote = json.indexOf('"', at);
    const end = quote === -1 ? json.length : quote;
    compacted += json.slice(at, end).replace(/\s+/g, '');
    at = quote === -1 ? end : endOfString(json, quote);
    if (quote !== -1) compacted += json.slice(quote, at);
  }
  return compacted;
}

// What follows only reads texts that JSON.parse has accepted, so it does not check for faults.

/** The position of the value behind a path of names; -1 if there is none. */
function valueAt(text: string, path: readonly string[]): number {
  let at = afterSpace(text, 0);
  for (const name of path) {
    at = memberAt(text, at, name);
    if (at === -1) return -1;
  }
  return at;
}

/** The position of a member's value: of two with one name the last, as in JSON.parse. -1 for none. */
function memberAt(text: string, objectAt: number, name: string): number {
  if (text[objectAt] !== '{') return -1;
  let found = -1;
  let at = afterSpace(text, objectAt + 1);
  while (text[at] === '"') {
    const nameEnd = endOfString(text, at);
    const value = afterSpace(text, afterSpace(text, nameEnd) + 1);
    if (JSON.parse(text.slice(at, nameEnd)) === name) found = value;
    at = afterSpace(text, endOfValue(text, value));
    if (text[at] === ',') at = afterSpace(text, at + 1);
  }
  return found;
}

function* elementsAt(text: string, arrayAt: number): Generator<number> {
  if (text[arrayAt] !== '[') return;
  let at = afterSpace(text, arrayAt + 1);
  while (at < text.length && text[at] !== ']') {
    yield at;
    at = afterSpace(text, endOfValue(text, at));
    if (text[at] === ',') at = afterSpace(text, at + 1);
  }
}

function afterSpace(text: string, from: number): number {
  let at = from;
  while (at < text.length && text.charCodeAt(at) <= 32) at++;
  return at;
}

function endOfString(text: string, quoteAt: number): number {
  for (let from = quoteAt + 1; ; ) {
    const end = text.indexOf('"', from);
    if (end === -1) return text.length;
    let escapes = 0;
    while (text[end - 1 - escapes] === '\\') escapes++;
    if (escapes % 2 === 0) return end + 1;
    from = end + 1;
  }
}

function endOfValue(text: string, start: number): number {
  let depth = 0;
  for (let at = start; at < text.length; ) {
    const sign = text[at];
    if (sign === '"') at = endOfString(text, at);
    else if (sign === ',' && depth === 0) return at;
    else if (sign === '}' || sign === ']') {
      if (depth === 0) return at;
      depth--;
      at++;
    } else {
      if (sign === '{' || sign === '[') depth++;
      at++;
      continue;
    }
    if (depth === 0) return at;
  }
  return text.length;
}
