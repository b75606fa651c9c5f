/**
 * Moves every schema that has a `title` to the components of the document and replaces it with a reference, so that
 * generators create one type for it.
 */
import { isObject } from '#common/json-object.ts';

type Json = Readonly<Record<string, unknown>>;

export interface NamedSchemas {
  /** The given part of the document, with titled schemas replaced by references. */
  readonly part: unknown;
  readonly schemas: Readonly<Record<string, unknown>>;
}

const nameShape = /^[A-Z][A-Za-z]+$/;

/** @throws if a name is used for two different schemas or is not a valid type name. */
export function nameSchemas(part: unknown): NamedSchemas {
  const schemas: Record<string, unknown> = {};
  const walk = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(walk);
    if (!isObject(value)) return value;
    const entries = Object.entries(value).map(([key, one]) => [key, isData(key) ? one : walk(one)]);
    const { title, ...schema } = Object.fromEntries(entries) as Json;
    if (typeof title !== 'string') return title === undefined ? schema : { title, ...schema };
    if (!nameShape.test(title)) throw new Error(`the schema name ${title} is not a type's name`);
    const known = schemas[title];
    if (known !== undefined && JSON.stringify(known) !== JSON.stringify(schema))
      throw new Error(`two schemas have the name ${title}`);
    schemas[title] = schema;
    return { $ref: `#/components/schemas/${title}` };
  };
  const walked = walk(part);
  return { part: walked, schemas };
}

/** Values, not schemas: a `title` in them is a field of a resource. */
function isData(key: string): boolean {
  return key === 'example' || key === 'examples' || key === 'default' || key === 'const';
}
