/** Generates a readable value that matches a schema, for routes without an example. */
import { isObject } from '#common/json-object.ts';

const DEPTH_MAX = 8;

const formats: Readonly<Record<string, string>> = {
  'date-time': '2026-01-31T12:00:00.000Z',
  date: '2026-01-31',
  email: 'ada@example.com',
  uri: 'https://example.com/',
  uuid: '0195b4a8-7a60-7c3e-9d8e-3f1a2b4c5d6e',
  ipv4: '192.0.2.1',
};

/** The start of a file's content, by content type. */
const files: Readonly<Record<string, string>> = {
  'image/svg+xml': '<svg xmlns="http://www.w3.org/2000/svg"></svg>',
  'application/x-ndjson': '{"link_id":"lnk_01kzg3v5k2e4z9n7q8w6r5t4y3"}\n',
  'text/csv': 'link_id\nlnk_01kzg3v5k2e4z9n7q8w6r5t4y3\n',
};

/** An example for a non-JSON response. */
export function fileExample(contentType: string): string {
  return files[contentType] ?? `The content, as ${contentType}.`;
}

type Schema = Readonly<Record<string, unknown>>;

/** @param schema JSON Schema 2020-12, as typebox writes it. */
export function exampleOf(schema: unknown, depth = 0): unknown {
  if (!isObject(schema) || depth > DEPTH_MAX) return null;
  for (const given of [firstOf(schema['examples']), schema['const'], schema['default'], firstOf(schema['enum'])]) {
    if (given !== undefined) return given;
  }
  for (const choice of [schema['anyOf'], schema['oneOf'], schema['allOf']]) {
    const first = firstOf(choice);
    if (first !== undefined) return exampleOf(first, depth + 1);
  }
  const type = Array.isArray(schema['type']) ? firstOf(schema['type']) : schema['type'];
  switch (type) {
    case 'object':
      return objectExample(schema, depth);
    case 'array':
      return schema['items'] === undefined ? [] : [exampleOf(schema['items'], depth + 1)];
    case 'string':
      return stringExample(schema);
    case 'integer':
    case 'number':
      return typeof schema['minimum'] === 'number' ? schema['minimum'] : 0;
    case 'boolean':
      return false;
    default:
      return null;
  }
}

function objectExample(schema: Schema, depth: number): Record<string, unknown> {
  const properties = isObject(schema['properties']) ? schema['properties'] : {};
  return Object.fromEntries(Object.entries(properties).map(([name, part]) => [name, exampleOf(part, depth + 1)]));
}

function stringExample(schema: Schema): string {
  const format = schema['format'];
  if (typeof format === 'string' && formats[format] !== undefined) return formats[format];
  const length = typeof schema['minLength'] === 'number' ? schema['minLength'] : 0;
  return 'text'.padEnd(length, 'x');
}

function firstOf(value: unknown): unknown {
  return Array.isArray(value) ? value[0] : undefined;
}
