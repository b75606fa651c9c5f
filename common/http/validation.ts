/** One ajv instance for bodies and path parameters, and a coercing one for query strings. */
import { Ajv, type ErrorObject, type ValidateFunction } from 'ajv';
import addFormats from 'ajv-formats';
import type { TSchema } from 'typebox';
import { isEmailAddress } from '#common/email-address.ts';
import { hasGlyph, isPlainLine } from '#common/visible-text.ts';
import { type FieldError, invalidFields, type Rejection } from './rejection.ts';

const options = {
  strict: true,
  allErrors: true,
  useDefaults: true,
  strictTypes: false,
  allowUnionTypes: true,
  // Errors then have the schema of the value, and with it an example.
  verbose: true,
} as const;

const YEAR_1_MS = Date.parse('0001-01-02T00:00:00Z');

function withFormats(ajv: Ajv): Ajv {
  // The package is CommonJS: under Node's ESM its function is the default of the default.
  const add = addFormats as unknown as { default?: (ajv: Ajv) => void } & ((ajv: Ajv) => void);
  (add.default ?? add)(ajv);
  const dateTime = ajv.formats['date-time'];
  if (typeof dateTime !== 'object' || dateTime instanceof RegExp || typeof dateTime.validate !== 'function')
    throw new TypeError('the package has no check of date-time');
  const isDateTime = dateTime.validate as (text: string) => boolean;
  // Neither Date nor Postgres has leap seconds as they are written, and Postgres has no year 0.
  ajv.addFormat('date-time', (text: string) => isDateTime(text) && Date.parse(text) >= YEAR_1_MS);
  ajv.addFormat('email', isEmailAddress);
  ajv.addFormat('plain-line', isPlainLine);
  return ajv.addFormat('visible', (text: string) => hasGlyph(text) && isPlainLine(text));
}

const bodies = withFormats(new Ajv(options));
const queries = withFormats(new Ajv({ ...options, coerceTypes: true }));

/** `more` are faults that were found elsewhere; those of fields that the schema already names are left out. */
export type Validator = (value: unknown, more?: readonly FieldError[]) => Rejection | null;

/** A check of bodies and path parameters. It fills in defaults. */
export function bodyValidator(schema: TSchema): Validator {
  return validator(bodies.compile(schema), 'body');
}

/** A check of query parameters; `limit=10` becomes a number. Numbers must be written in digits only. */
export function queryValidator(schema: TSchema): Validator {
  const check = validator(queries.compile(schema), 'query');
  const integers = integersOf(schema);
  return (value, more = []) => {
    // Before the conversion, which accepts 0x10, 1e1 and +5 as numbers.
    const given: Readonly<Record<string, unknown>> = typeof value === 'object' ? { ...value } : {};
    const misspelt = integers.filter((name) => given[name] !== undefined && !/^\d+$/.test(String(given[name])));
    const errors = misspelt.map((field) => ({ field, message: 'must be an integer in decimal digits' }));
    return check(value, [...errors, ...more]);
  };
}

function integersOf(schema: object): string[] {
  if (!('properties' in schema)) return [];
  return Object.entries(schema.properties ?? {}).flatMap(([name, part]: [string, unknown]) =>
    typeof part === 'object' && part !== null && 'type' in part && part.type === 'integer' ? [name] : [],
  );
}

const noFaults: readonly FieldError[] = [];

function validator(check: ValidateFunction, whole: string): Validator {
  return (value, more = noFaults) => {
    const isValid = check(value);
    if (isValid && more.length === 0) return null;
    const found = isValid ? [] : fieldErrors(check.errors ?? [], whole);
    const others = more.filter(({ field }) => !found.some((one) => one.field === field));
    return found.length + others.length > 0 ? invalidFields([...found, ...others]) : null;
  };
}

function fieldErrors(errors: readonly ErrorObject[], whole: string): FieldError[] {
  const seen = new Set<string>();
  const found: FieldError[] = [];
  for (const error of errors) {
    // Every branch of a union reports its own errors; the union's own error is enough.
    if (error.keyword === 'if') continue;
    const field = fieldOf(error) || whole;
    if (seen.has(field)) continue;
    seen.add(field);
    found.push({ field, message: messageOf(error, whole) });
  }
  return found.length > 0 ? found : [{ field: whole, message: 'is not valid' }];
}

function fieldOf(error: ErrorObject): string {
  let field = '';
  for (const raw of error.instancePath.split('/').slice(1)) {
    const step = raw.replaceAll('~1', '/').replaceAll('~0', '~');
    field += /^\d+$/.test(step) ? `[${step}]` : field === '' ? step : `.${step}`;
  }
  const last: unknown =
    error.params['missingProperty'] ?? error.params['additionalProperty'] ?? error.params['propertyName'];
  if (typeof last !== 'string') return field;
  return field === '' ? last : `${field}.${last}`;
}

/** What a value of that form looks like, if its schema says so. */
function exampleOf({ parentSchema }: ErrorObject): string {
  const examples: unknown = parentSchema?.['examples'];
  return Array.isArray(examples) ? `; an example is ${JSON.stringify(examples[0])}` : '';
}

const typeNames: Readonly<Record<string, string>> = {
  array: 'an array',
  boolean: 'a boolean',
  integer: 'an integer',
  null: 'null',
  number: 'a number',
  object: 'an object',
  string: 'a string',
};

const formatTexts = new Map([
  ['date-time', 'must be a date and time with its offset, such as 2026-01-31T12:00:00Z'],
  ['email', 'must be an e-mail address'],
  ['ipv4', 'must be an IP address'],
  ['ipv6', 'must be an IP address'],
  ['plain-line', 'must not contain line breaks, or control, text-direction, or invisible characters'],
  ['visible', 'must have a visible character'],
]);

/** @param data the value, whose format has several rules in the case of names. */
function formatText(format: string, data: unknown): string {
  const broken = format === 'visible' && typeof data === 'string' && hasGlyph(data) ? 'plain-line' : format;
  return formatTexts.get(broken) ?? `must be a valid ${format}`;
}

function typesText(types: unknown): string {
  const names = (Array.isArray(types) ? types : [types]).map((type) => typeNames[String(type)] ?? String(type));
  return names.join(' or ');
}

/** @param one the counted thing in the singular. */
function countText(error: ErrorObject, one: string): string {
  const limit = Number(error.params['limit']);
  return `${limit} ${one}${limit === 1 ? '' : 's'}`;
}

function messageOf(error: ErrorObject, whole: string): string {
  switch (error.keyword) {
    case 'required':
      return 'is required';
    case 'additionalProperties':
    case 'unevaluatedProperties':
      return `is not a known ${whole === 'query' ? 'parameter' : 'field'}`;
    case 'type':
      return `must be ${typesText(error.params['type'])}`;
    case 'minLength':
      return `must have at least ${countText(error, 'character')}`;
    case 'maxLength':
      return `must have at most ${countText(error, 'character')}`;
    case 'minItems':
      return `must have at least ${countText(error, 'item')}`;
    case 'maxItems':
      return `must have at most ${countText(error, 'item')}`;
    case 'minProperties':
      return `must have at least ${countText(error, 'field')}`;
    case 'maxProperties':
      return `must have at most ${countText(error, 'field')}`;
    case 'minimum':
      return `must be at least ${String(error.params['limit'])}`;
    case 'maximum':
      return `must be at most ${String(error.params['limit'])}`;
    case 'uniqueItems':
      return 'must not contain the same item twice';
    case 'anyOf':
    case 'oneOf':
      return 'does not have any of the allowed forms';
    case 'enum':
      return `must be one of ${(error.params['allowedValues'] as unknown[]).map(String).join(', ')}`;
    case 'const':
      return `must be ${JSON.stringify(error.params['allowedValue'])}`;
    case 'pattern':
      return `has characters or a format that is not allowed${exampleOf(error)}`;
    case 'format':
      return formatText(String(error.params['format']), error.data);
    default:
      return error.message ?? 'is not valid';
  }
}
