/**
 * JSON whose numbers keep all their digits: a number that a double cannot hold (12345678901234567890) becomes an ExactNumber, and is
 * written as it was. Other numbers stay numbers. What may contain an ExactNumber is written with `toJson`.
 */
import { hasLongNumber } from '#common/log/long-numbers.ts';

/** Half of a surrogate pair: no text that is accepted or stored contains one, so none looks like a number. */
const mark = '\ud800#';
const escapedMark = String.raw`\ud800#`;
const marked = /"\\ud800#(-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?)"/g;
const markedText = /^\ud800#-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/;
/** Strings are matched too, so that a number in one is not taken for one. */
const token = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\d[\d.eE+-]*/g;

export class ExactNumber {
  readonly digits: string;

  constructor(digits: string) {
    this.digits = digits;
  }

  toJSON(): string {
    return mark + this.digits;
  }
}

/** As JSON.parse, which a text without such a number costs a quick look more. */
export function parseExact(text: string): unknown {
  if (!hasLongNumber(text)) return JSON.parse(text);
  const withMarks = text.replace(token, (one) => (one.startsWith('"') || isHeld(one) ? one : `"${escapedMark}${one}"`));
  return JSON.parse(withMarks, (_key, value: unknown) =>
    typeof value === 'string' && markedText.test(value) ? new ExactNumber(value.slice(mark.length)) : value,
  );
}

/** @param replace changes strings and objects before they are written. */
export function toJson(value: unknown, replace?: (value: unknown) => unknown): string {
  const text = JSON.stringify(
    value,
    replace &&
      function (this: object, name: string, one: unknown): unknown {
        return Reflect.get(this, name) instanceof ExactNumber ? one : replace(one);
      },
  );
  return text.includes(escapedMark) ? text.replace(marked, '$1') : text;
}

/** Whether a double has the value of the number, or has none, as for 1e400. */
function isHeld(number: string): boolean {
  const double = Number(number);
  return !Number.isFinite(double) || canonical(number) === canonical(String(double));
}

/** The same text for numbers of the same value: sign, digits without outer zeros, and exponent. */
function canonical(number: string): string {
  const [, sign = '', whole = '', fraction = '', exponent = '0'] =
    /^(-?)(\d+)\.?(\d*)(?:[eE](.*))?$/.exec(number) ?? [];
  const digits = (whole + fraction).replace(/^0+/, '');
  const bare = digits.replace(/0+$/, '');
  return bare === '' ? '0' : `${sign}${bare}e${Number(exponent) - fraction.length + digits.length - bare.length}`;
}

/** The value with its members `data`, at any depth, from the text. @param value what JSON.parse makes of it, already checked. */
export function withExactData(value: object, text: string): object {
  if (hasLongNumber(text)) graft(value, parseExact(text) as object);
  return value;
}

function graft(value: object, exact: object): void {
  for (const [name, entry] of Object.entries(value)) {
    const other: unknown = Reflect.get(exact, name);
    if (typeof entry !== 'object' || entry === null || typeof other !== 'object' || other === null) continue;
    if (name === 'data') Reflect.set(value, name, other);
    else graft(entry, other);
  }
}
