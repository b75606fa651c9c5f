/** JSON from clients: the size is limited by the caller, depth and characters here. */
import { withExactData } from '#common/exact-json.ts';
import type { RawBody } from './raw-body.ts';
import { type FieldError, invalid, invalidFields, type Rejection } from './rejection.ts';

const DEPTH_MAX = 32;
const ERRORS_MAX = 100;
/** Escapes that may produce what Postgres and ClickHouse can't store: NUL and unpaired surrogates. */
const suspicious = /\\u(?:0000|[dD][89a-fA-F])/;

/** Parses a body that must be one JSON object. @param isChecked false if the caller checks each part by itself. */
export function parseObject(
  body: RawBody,
  isChecked = true,
): { value: Record<string, unknown> } | { rejection: Rejection } {
  const parsed = parseObjectOrList(body, isChecked);
  if ('value' in parsed && Array.isArray(parsed.value)) return refused('must be a JSON object');
  return parsed as { value: Record<string, unknown> } | { rejection: Rejection };
}

const refused = (message: string) => ({ rejection: invalid('body', message) });

/**
 * Parses a body that must be a JSON object or list.
 * @param isChecked false if the caller checks each part for what the stores cannot hold.
 */
export function parseObjectOrList(body: RawBody, isChecked = true): { value: object } | { rejection: Rejection } {
  if (body.byteLength === 0) return refused('must be a JSON object, but is empty');
  const text = body.text();
  if (text === null) return refused('is not valid UTF-8');
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return refused('is not valid JSON');
  }
  if (typeof value !== 'object' || value === null) return refused('must be a JSON object');
  const errors: FieldError[] = [];
  if (isChecked) walk(value, [], suspicious.test(text), errors);
  if (errors.length > 0) return { rejection: invalidFields(errors) };
  return { value: isChecked ? withExactData(value, text) : value };
}

/** What the stores could not hold of a JSON value: too deep, or text with a NUL or an unpaired surrogate. */
export function storageFaults(value: object): FieldError[] {
  const errors: FieldError[] = [];
  walk(value, [], true, errors);
  return errors;
}

/**
 * The path becomes text only for a fault: a megabyte can hold 350,000 values, and building a text for each took most of
 * the time.
 */
function walk(value: object, path: (string | number)[], checkStrings: boolean, errors: FieldError[]): void {
  if (path.length >= DEPTH_MAX) {
    errors.push({ field: fieldOf(path), message: `is nested more than ${DEPTH_MAX} levels deep` });
    return;
  }
  if (Array.isArray(value)) {
    for (let at = 0; at < value.length; at++) walkEntry(value[at], at, path, checkStrings, errors);
    return;
  }
  for (const [key, entry] of Object.entries(value)) {
    if (errors.length >= ERRORS_MAX) return;
    if (checkStrings && !isStorableText(key)) {
      errors.push({ field: fieldOf(path), message: 'has a key that contains a NUL or an unpaired surrogate' });
    }
    walkEntry(entry, key, path, checkStrings, errors);
  }
}

function walkEntry(
  value: unknown,
  step: string | number,
  path: (string | number)[],
  checkStrings: boolean,
  errors: FieldError[],
): void {
  if (errors.length >= ERRORS_MAX) return;
  if (typeof value === 'object' && value !== null) {
    path.push(step);
    walk(value, path, checkStrings, errors);
    path.pop();
  } else if (checkStrings && typeof value === 'string' && !isStorableText(value)) {
    errors.push({ field: fieldOf([...path, step]), message: 'contains a NUL or an unpaired surrogate' });
  }
}

function fieldOf(path: readonly (string | number)[]): string {
  let field = '';
  for (const step of path) field += typeof step === 'number' ? `[${step}]` : field === '' ? step : `.${step}`;
  return field || 'body';
}

/** Whether every store can hold the text unchanged. */
export function isStorableText(text: string): boolean {
  return !text.includes('\0') && text.isWellFormed();
}
