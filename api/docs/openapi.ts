/**
 * Generates an OpenAPI 3.1 document from the schemas that validate, so the two can't differ. Source:
 * https://spec.openapis.org/oas/v3.1.1.html. What all routes share (the six errors, the headers, the credentials) is
 * defined here once.
 */
import { type ErrorCode, statusOf } from '#common/http/rejection.ts';
import type { CallerKind, LimitClass, Route } from '#common/http/route.ts';
import { nameSchemas } from './named-schemas.ts';
import { components, everyAnswer, headerRefs } from './openapi-components.ts';
import { exampleOf, fileExample } from './schema-example.ts';
import { webhookOperations } from './webhook-operations.ts';

/** The documented part of a route; routes of all rooms have it. */
type DocumentedRoute = Route<never>;

export interface About {
  readonly title: string;
  readonly version: string;
  readonly description: string;
  /** The base URL, ending in /v1. */
  readonly serverUrl: string;
  /** Requests per minute of each class. */
  readonly limits: Readonly<Record<LimitClass, number>>;
}

const counted: Readonly<Record<LimitClass, string>> = {
  auth: 'address',
  links: 'user (API key: app and IP address)',
  match: 'app',
  events: 'app',
  general: 'user or server key, otherwise IP address',
};

const security: Readonly<Record<CallerKind, readonly object[]>> = {
  user: [{ bearer: [] }, { session: [] }],
  app: [{ api_key: [] }, { api_key_bearer: [] }],
  public: [],
};

/** The empty scheme stands for a key in the body, which is a field that no OpenAPI security scheme can describe. */
const foreignKeys: readonly object[] = [{ api_key_basic: [] }, {}];

/** The document, ready to be sent as JSON. */
export function openapi(routes: readonly DocumentedRoute[], about: About): Record<string, unknown> {
  const paths: Record<string, Record<string, unknown>> = {};
  for (const route of routes) {
    const path = paths[route.path] ?? {};
    const method = route.method.toLowerCase();
    paths[route.path] = path;
    if (path[method] !== undefined) throw new Error(`${route.method} ${route.path} is defined twice`);
    path[method] = operation(route, about);
  }
  const described = { paths, webhooks: webhookOperations() };
  const named = nameSchemas(JSON.parse(JSON.stringify(described)));
  const document = {
    openapi: '3.1.1',
    info: {
      title: about.title,
      version: about.version,
      description: about.description,
      license: { name: 'Apache 2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: about.serverUrl }],
    tags: [...new Set(routes.map((route) => route.tag))].map((name) => ({ name })),
    // TypeBox stores internal symbols on a schema, which JSON omits.
    ...(named.part as typeof described),
    components: components(named.schemas),
  };
  return JSON.parse(JSON.stringify(document));
}

function operation(route: DocumentedRoute, about: About): object {
  const content = route.body ? { schema: route.body, example: route.bodyExample ?? exampleOf(route.body) } : null;
  return {
    operationId: route.operationId,
    tags: [route.tag],
    summary: route.summary,
    ...(route.description === undefined ? {} : { description: route.description }),
    security: [
      ...security[route.caller],
      ...(route.scope ? [{ server_key: [route.scope] }] : []),
      ...(route.takesForeignKeys ? foreignKeys : []),
    ],
    parameters: [
      ...pathParameters(route),
      ...queryParameters(route),
      ...(isRepeatable(route) ? [{ $ref: '#/components/parameters/IdempotencyKey' }] : []),
    ],
    ...(content
      ? {
          requestBody: {
            required: isRequired(route),
            content: { [route.bodyContentType ?? 'application/json']: content },
          },
        }
      : {}),
    responses: { ...successes(route), ...failures(route) },
    'x-rate-limit': {
      class: route.limit,
      requests: about.limits[route.limit],
      window_seconds: 60,
      counted_per: counted[route.limit],
    },
  };
}

/** Whether it takes an Idempotency-Key. */
function isRepeatable(route: DocumentedRoute): boolean {
  return route.method === 'POST' && route.caller === 'user';
}

/** A body may be omitted if none of its fields is required. */
function isRequired(route: DocumentedRoute): boolean {
  if (!route.body) return false;
  if (route.needsBody || 'minProperties' in route.body) return true;
  const required: unknown = 'required' in route.body ? route.body.required : undefined;
  return route.bodyMode === 'raw' || (Array.isArray(required) && required.length > 0);
}

function propertiesOf(schema: unknown): [name: string, schema: object, isRequired: boolean][] {
  if (typeof schema !== 'object' || schema === null || !('properties' in schema)) return [];
  const { properties } = schema;
  if (typeof properties !== 'object' || properties === null) return [];
  const required: unknown = 'required' in schema ? schema.required : [];
  return Object.entries(properties).map(([name, part]) => [
    name,
    typeof part === 'object' && part !== null ? part : {},
    Array.isArray(required) && required.includes(name),
  ]);
}

function pathParameters(route: DocumentedRoute): object[] {
  const described = new Map(propertiesOf(route.params).map(([name, schema]) => [name, schema]));
  return [...route.path.matchAll(/\{(\w+)\}/g)].map(([, name = '']) =>
    parameter('path', name, described.get(name) ?? { type: 'string' }, true),
  );
}

function queryParameters(route: DocumentedRoute): object[] {
  return propertiesOf(route.query).map(([name, schema, isNeeded]) => parameter('query', name, schema, isNeeded));
}

function parameter(place: 'path' | 'query', name: string, schema: object, required: boolean): object {
  const description = 'description' in schema ? { description: schema.description } : {};
  return { name, in: place, required, ...description, schema };
}

function successes(route: DocumentedRoute): Record<string, object> {
  const answers: Record<string, object> = {};
  for (const [status, answer] of Object.entries(route.answers)) {
    const contentType = answer.contentType ?? 'application/json';
    const schema = answer.schema ?? (contentType === 'application/json' ? undefined : { type: 'string' });
    const example = answer.example ?? (answer.schema ? exampleOf(answer.schema) : fileExample(contentType));
    const others = (answer.otherTypes ?? []).map((type) => [
      type,
      { schema: { type: 'string' }, example: fileExample(type) },
    ]);
    const content = schema ? { content: { [contentType]: { schema, example }, ...Object.fromEntries(others) } } : {};
    const headers = headerRefs(isRepeatable(route) ? [...everyAnswer, 'Idempotent-Replayed'] : everyAnswer);
    answers[status] = { description: answer.description, headers, ...content };
  }
  return answers;
}

function failures(route: DocumentedRoute): Record<string, object> {
  const codes: ErrorCode[] = ['VALIDATION_ERROR', 'FORBIDDEN', 'RATE_LIMITED', 'INTERNAL_ERROR'];
  if (route.caller !== 'public' || route.limit === 'auth') codes.push('UNAUTHORIZED');
  if (route.path.includes('{') || route.query || route.body || route.caller === 'user') codes.push('NOT_FOUND');
  return Object.fromEntries(codes.map((code) => [String(statusOf[code]), { $ref: `#/components/responses/${code}` }]));
}
