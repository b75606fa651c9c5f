/**
 * Where each event stands in the text of a batch, so that it can be passed on as it came: the text was parsed once, and
 * what goes into the log is a piece of it, not the value written out again. Only for text that JSON.parse has taken.
 */

/** One element of the array: its text, and what makes it worth a closer look. */
export interface Slice {
  readonly start: number;
  readonly end: number;
  /** Levels of objects and arrays in it; 1 for a flat object. */
  readonly depth: number;
  /** It has a \u escape (half a surrogate pair, NUL), a number with an exponent, or a line break between its tokens. */
  readonly isSuspicious: boolean;
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const OPEN_ARRAY = 0x5b;
const CLOSE_ARRAY = 0x5d;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;
const LOWER_U = 0x75;
const NEWLINE = 0x0a;
const CARRIAGE_RETURN = 0x0d;

/** The index behind the string that begins at `at`, negated when a \u escape is in it. */
function endOfString(text: string, at: number): number {
  let hasEscape = false;
  for (let i = at + 1; i < text.length; i++) {
    const c = text.charCodeAt(i);
    if (c === QUOTE) return hasEscape ? -(i + 1) : i + 1;
    if (c === BACKSLASH && text.charCodeAt(++i) === LOWER_U) hasEscape = true;
  }
  throw new Error('the text was no JSON');
}

/** The value that begins at or behind `from`, which must be an object. */
export function sliceObject(text: string, from: number): Slice {
  let depth = 0;
  let deepest = 0;
  let isSuspicious = false;
  const start = text.indexOf('{', from);
  for (let i = start; i >= 0 && i < text.length; ) {
    const c = text.charCodeAt(i++);
    if (c === QUOTE) {
      // In line and not endOfString: this loop is where the time goes.
      for (; ; i++) {
        const s = text.charCodeAt(i);
        if (s === QUOTE) break;
        if (s === BACKSLASH) {
          if (text.charCodeAt(++i) === LOWER_U) isSuspicious = true;
        } else if (i >= text.length) throw new Error('the text was no JSON');
      }
      i++;
    } else if (c === OPEN_OBJECT || c === OPEN_ARRAY) {
      if (++depth > deepest) deepest = depth;
    } else if (c === CLOSE_OBJECT || c === CLOSE_ARRAY) {
      if (--depth === 0) return { start, end: i, depth: deepest, isSuspicious };
    } else if (c === NEWLINE || c === CARRIAGE_RETURN || isExponent(text, c, i)) {
      isSuspicious = true;
    }
  }
  throw new Error('the text was no JSON');
}

/** Whether an e outside a string stands behind a digit, and not in `true` or `false`. */
function isExponent(text: string, c: number, next: number): boolean {
  if (c !== 0x65 && c !== 0x45) return false;
  const before = text.charCodeAt(next - 2);
  return before >= 0x30 && before <= 0x39;
}

/**
 * The elements of the array that the outermost object has under `name`, which is there and holds only objects. As with
 * JSON.parse, the last one counts when the name stands twice.
 */
export function sliceArray(text: string, name: string): Slice[] {
  let found: Slice[] = [];
  let depth = 0;
  for (let i = 0; i < text.length; ) {
    const c = text.charCodeAt(i);
    if (c === QUOTE) {
      const end = Math.abs(endOfString(text, i));
      const isKey = depth === 1 && isFollowedByColon(text, end);
      if (isKey && JSON.parse(text.slice(i, end)) === name) {
        const array = elementsOf(text, text.indexOf(':', end) + 1);
        if (array) {
          found = array.slices;
          i = array.end;
          continue;
        }
      }
      i = end;
      continue;
    }
    if (c === OPEN_OBJECT || c === OPEN_ARRAY) depth++;
    else if (c === CLOSE_OBJECT || c === CLOSE_ARRAY) depth--;
    i++;
  }
  return found;
}

function isFollowedByColon(text: string, at: number): boolean {
  let i = at;
  while (isSpace(text.charCodeAt(i))) i++;
  return text.charCodeAt(i) === 0x3a;
}

function isSpace(c: number): boolean {
  return c === 0x20 || c === NEWLINE || c === CARRIAGE_RETURN || c === 0x09;
}

/** Null when what stands there is no array of objects (an earlier value of a name that is there twice). */
function elementsOf(text: string, from: number): { slices: Slice[]; end: number } | null {
  let i = from;
  while (isSpace(text.charCodeAt(i))) i++;
  if (text.charCodeAt(i) !== OPEN_ARRAY) return null;
  const slices: Slice[] = [];
  for (i++; i < text.length; ) {
    const c = text.charCodeAt(i);
    if (c === OPEN_OBJECT) {
      const slice = sliceObject(text, i);
      slices.push(slice);
      i = slice.end;
    } else if (c === CLOSE_ARRAY) {
      return { slices, end: i + 1 };
    } else if (c === 0x2c || isSpace(c)) {
      i++;
    } else {
      return null;
    }
  }
  return null;
}
