/** JSON from outside: size is limited before, depth and characters here. */
import type { RawBody } from './raw-body.ts';
import { type FieldError, invalid, invalidFields, type Rejection } from './rejection.ts';

const DEPTH_MAX = 32;
/** Escapes after which a string may hold what Postgres and ClickHouse can't store: NUL and halves of surrogate pairs. */
const suspicious = /\\u(?:0000|[dD][89a-fA-F])/;

/** Parses a body that must be one JSON object. */
export function parseObject(body: RawBody): { value: Record<string, unknown> } | { rejection: Rejection } {
  const refused = (message: string) => ({ rejection: invalid('body', message) });
  if (body.byteLength === 0) return refused('must be a JSON object, but is empty');
  const text = body.text();
  if (text === null) return refused('is not valid UTF-8');
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return refused('is not valid JSON');
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return refused('must be a JSON object');
  const errors: FieldError[] = [];
  walk(value, '', 0, suspicious.test(text), errors);
  if (errors.length > 0) return { rejection: invalidFields(errors) };
  return { value: value as Record<string, unknown> };
}

function walk(value: unknown, at: string, depth: number, checkStrings: boolean, errors: FieldError[]): void {
  if (typeof value === 'string') {
    if (checkStrings && !isStorable(value)) {
      errors.push({ field: at || 'body', message: 'holds a NUL or half a surrogate pair' });
    }
    return;
  }
  if (typeof value !== 'object' || value === null) return;
  if (depth >= DEPTH_MAX) {
    errors.push({ field: at || 'body', message: `is nested more than ${DEPTH_MAX} deep` });
    return;
  }
  for (const [key, entry] of Object.entries(value)) {
    if (errors.length >= 100) return;
    const field = Array.isArray(value) ? `${at}[${key}]` : at === '' ? key : `${at}.${key}`;
    if (checkStrings && !isStorable(key))
      errors.push({ field: at || 'body', message: 'has a key with a NUL or half a surrogate pair' });
    walk(entry, field, depth + 1, checkStrings, errors);
  }
}

/** Whether every store keeps the text as it is. */
export function isStorable(text: string): boolean {
  return !text.includes('\0') && text.isWellFormed();
}
