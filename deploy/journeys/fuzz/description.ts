/** The OpenAPI description that the service serves, as a checker of its actual answers. */
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import { isObject } from '#common/json-object.ts';

export type Schema = Readonly<Record<string, unknown>>;

export interface Parameter {
  readonly name: string;
  readonly schema: Schema;
  readonly required: boolean;
}

export interface Operation {
  readonly method: string;
  /** Below /v1, with braces. */
  readonly path: string;
  readonly pathParameters: readonly Parameter[];
  readonly queryParameters: readonly Parameter[];
  readonly bodySchema: Schema | null;
  readonly isBodyRequired: boolean;
  readonly bodyExample: unknown;
  /** By status: content type → a check, null if the content is not JSON. */
  readonly answers: ReadonlyMap<number, ReadonlyMap<string, ValidateFunction | null>>;
}

export class Description {
  readonly operations: readonly Operation[];
  /** The check of the error envelope. */
  readonly isEnvelope: ValidateFunction;
  readonly #document: Schema;
  readonly #ajv: Ajv2020;

  constructor(document: unknown) {
    this.#document = asSchema(withoutReferences(document));
    this.#ajv = new Ajv2020({ strict: false, allErrors: true });
    // The package is CommonJS: under Node's ESM its function is the default of the default.
    const add = addFormats as unknown as { default?: (ajv: Ajv2020) => void } & ((ajv: Ajv2020) => void);
    (add.default ?? add)(this.#ajv);
    this.isEnvelope = this.#ajv.compile(closed(this.#at('components', 'schemas', 'Error')));
    this.operations = Object.entries(asSchema(this.#document['paths'])).flatMap(([path, methods]) =>
      Object.entries(asSchema(methods)).map(([method, operation]) =>
        this.#operation(method.toUpperCase(), path, asSchema(operation)),
      ),
    );
  }

  #operation(method: string, path: string, operation: Schema): Operation {
    const parameters = asList(operation['parameters']).map(asSchema);
    const of = (place: string): Parameter[] =>
      parameters
        .filter((one) => one['in'] === place)
        .map((one) => ({
          name: String(one['name']),
          schema: asSchema(one['schema']),
          required: one['required'] === true,
        }));
    const body = asSchema(asSchema(asSchema(operation['requestBody'])['content'])['application/json']);
    return {
      method,
      path,
      pathParameters: of('path'),
      queryParameters: of('query'),
      isBodyRequired: asSchema(operation['requestBody'])['required'] !== false,
      bodySchema: body['schema'] === undefined ? null : asSchema(body['schema']),
      bodyExample: body['example'],
      answers: new Map(
        Object.entries(asSchema(operation['responses'])).map(([status, answer]) => [
          Number(status),
          this.#contents(this.#followed(asSchema(answer))),
        ]),
      ),
    };
  }

  #contents(answer: Schema): Map<string, ValidateFunction | null> {
    return new Map(
      Object.entries(asSchema(answer['content'])).map(([type, content]) => [
        type,
        type === 'application/json'
          ? this.#ajv.compile(closed(this.#followed(asSchema(asSchema(content)['schema']))))
          : null,
      ]),
    );
  }

  #followed(schema: Schema): Schema {
    const reference = schema['$ref'];
    return typeof reference === 'string' ? this.#at(...reference.split('/').slice(1)) : schema;
  }

  #at(...steps: readonly string[]): Schema {
    return steps.reduce((schema, step) => asSchema(schema[step]), this.#document);
  }
}

/** The same schema, but undescribed fields are faults: answers must contain nothing undocumented. */
function closed(schema: unknown): Schema {
  const close = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(close);
    if (typeof value !== 'object' || value === null) return value;
    const parts = Object.fromEntries(Object.entries(value).map(([key, part]) => [key, close(part)]));
    const isOpen = parts['properties'] !== undefined && parts['additionalProperties'] === undefined;
    return isOpen ? { ...parts, additionalProperties: false } : parts;
  };
  return asSchema(close(schema));
}

/** The document with every schema of its components in place of the references to it. None refers to itself. */
function withoutReferences(document: unknown): unknown {
  const prefix = '#/components/schemas/';
  const schemas = asSchema(asSchema(asSchema(document)['components'])['schemas']);
  const walk = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(walk);
    if (!isObject(value)) return value;
    const { $ref: reference } = value;
    if (typeof reference === 'string' && reference.startsWith(prefix))
      return walk(schemas[reference.slice(prefix.length)]);
    return Object.fromEntries(Object.entries(value).map(([key, part]) => [key, walk(part)]));
  };
  return walk(document);
}

function asSchema(value: unknown): Schema {
  return isObject(value) ? { ...value } : {};
}

function asList(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}
