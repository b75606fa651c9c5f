import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { apiRoutes } from '#api/routes.ts';
import { mountRoutes } from '#common/http/mount.ts';
import { forbidden, invalid, type Rejection, rateLimited, unavailable } from '#common/http/rejection.ts';
import type { Route } from '#common/http/route.ts';
import { HttpServer } from '#common/http/server.ts';
import { packageRoot } from '#common/process/paths.ts';
import { nameSchemas } from './named-schemas.ts';
import { openapi } from './openapi.ts';
import { docsRoutes } from './routes.ts';

const about = {
  title: 'Signpost',
  version: '1',
  description: 'Links.',
  serverUrl: 'https://127.0.0.1:8443/v1',
  limits: { auth: 5, links: 30, match: 1000, events: 500, general: 100 },
};
const documented: Route<never>[] = [...apiRoutes];
const docs = docsRoutes(documented, about);

interface Document {
  readonly paths: Record<string, Record<string, Operation>>;
  readonly components: {
    readonly responses: Record<string, Response>;
    readonly headers: object;
    readonly schemas: Record<string, object>;
  };
}
interface Operation {
  readonly operationId: string;
  readonly parameters: { name: string; in: string; required: boolean }[];
  readonly requestBody?: { content: Content };
  readonly responses: Record<string, { $ref: string } | Response>;
}
interface Response {
  readonly headers: Record<string, { $ref: string }>;
  readonly content?: Content;
}
type Content = Record<string, { schema: object; example?: unknown }>;

const document = openapi([...documented, ...docs], about) as unknown as Document;
const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => ({ name: `${method} ${path}`, path, operation })),
);

/** The committed document, with the routes of the SDK edge; `npm run check` compares it with the code. */
const whole = JSON.parse(readFileSync(join(packageRoot(), 'docs/openapi.json'), 'utf8')) as Document;

test('every route is in the document, once, under its own id', () => {
  expect(operations).toHaveLength(documented.length + docs.length);
  expect(new Set(operations.map(({ operation }) => operation.operationId)).size).toBe(operations.length);
  expect(() => openapi([...documented, ...documented], about)).toThrow();
});

test('every operation is named by a verb, as generators name functions', () => {
  for (const { name, operation } of operations)
    expect(operation.operationId, name).toMatch(/^[a-z]+([A-Z][A-Za-z]*)*$/);
});

test.each(['Link', 'NewLink', 'LinkChanges', 'App', 'NewApp', 'Event', 'Revenue', 'Match', 'Install', 'Metrics'])(
  '%s is a component, so that generators make one type of it',
  (name) => {
    expect(Object.keys(whole.components.schemas)).toContain(name);
    expect(JSON.stringify(whole).includes(`"#/components/schemas/${name}"`)).toBe(true);
  },
);

test('a name stands for one schema', () => {
  const two = [
    { title: 'One', type: 'object' },
    { title: 'One', type: 'string' },
  ];
  expect(() => nameSchemas(two)).toThrow('two schemas have the name One');
  expect(() => nameSchemas({ title: 'not a name' })).toThrow('not a name');
});

test('every object has described fields or is marked as free-form', () => {
  const vague: string[] = [];
  const walk = (schema: unknown, at: string): void => {
    if (typeof schema !== 'object' || schema === null) return;
    const { type, properties, additionalProperties } = schema as Record<string, unknown>;
    const isObjectType = type === 'object' || (Array.isArray(type) && type.includes('object'));
    if (isObjectType && properties === undefined && additionalProperties === undefined) vague.push(at);
    for (const [key, part] of Object.entries(schema)) if (key !== 'example') walk(part, `${at}/${key}`);
  };
  walk(whole, '');
  expect(vague).toEqual([]);
});

test('every $ref resolves', () => {
  const references = [...JSON.stringify(document).matchAll(/"\$ref":"#\/([^"]+)"/g)].map(([, path = '']) => path);
  expect(references.length).toBeGreaterThan(0);
  for (const path of new Set(references)) {
    let found: unknown = document;
    for (const step of path.split('/')) found = (found as Record<string, unknown>)[step];
    expect(found, path).toBeTypeOf('object');
  }
});

test.each(operations)(
  '$name: path parameters, error answers, limit headers and examples are present',
  ({ path, operation }) => {
    const inPath = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name);
    expect(operation.parameters.filter((one) => one.in === 'path').map(({ name }) => name)).toEqual(inPath);
    expect(Object.keys(operation.responses)).toEqual(expect.arrayContaining(['400', '403', '429', '500']));
    const answers = Object.values(operation.responses).map((answer) =>
      '$ref' in answer ? document.components.responses[answer.$ref.split('/').at(-1) ?? ''] : answer,
    );
    const limited = ['X-Request-Id', 'X-RateLimit-Limit', 'X-RateLimit-Remaining', 'X-RateLimit-Reset'];
    expect(answers.filter((answer) => limited.some((name) => answer?.headers?.[name] === undefined))).toEqual([]);
    const contents = answers.flatMap((answer) => Object.values(answer?.content ?? {}));
    expect(contents.filter((content) => !('example' in content))).toEqual([]);
  },
);

// One validator for all operations: compiling the components takes much longer than the schemas that refer to them.
const ajv = new Ajv2020({ strict: false, validateFormats: false, schemas: [{ $id: 'doc', ...document }] });

/**
 * The schema with its references rewritten to the components of the document, which Ajv treats as a separate schema.
 */
const referring = (schema: object): object =>
  JSON.parse(JSON.stringify(schema).replaceAll('"$ref":"#/', '"$ref":"doc#/'));

test.each(operations)('$name: its examples match its schemas', ({ operation }) => {
  const contents = [
    operation.requestBody?.content,
    ...Object.values(operation.responses).map((answer) => ('$ref' in answer ? undefined : answer.content)),
  ];
  for (const content of contents) {
    for (const { schema, example } of Object.values(content ?? {})) {
      const check = ajv.compile(referring(schema));
      if (!check(example)) throw new Error(JSON.stringify(check.errors));
    }
  }
});

let server: HttpServer;
let base: string;

beforeAll(async () => {
  const guard = () => Promise.resolve({ caller: null, quota: null });
  server = await HttpServer.start({
    host: '127.0.0.1',
    httpsPort: null,
    httpPort: 0,
    trustedProxies: ['127.0.0.1'],
    corsOrigins: [],
    routes: mountRoutes({ routes: docs, deps: null, guard }),
    guardUnknown: guard,
    onFailure: (error) => console.error(error),
  });
  base = `http://127.0.0.1:${server.httpPort}/v1`;
});
afterAll(() => server.stop(1_000));

const get = (path: string, headers: Record<string, string> = {}) =>
  fetch(base + path, { headers: { 'X-Forwarded-Proto': 'https', ...headers } });

test('the document is served as it is printed', async () => {
  const answer = await get('/openapi.json');
  expect([answer.status, answer.headers.get('content-type')]).toEqual([200, 'application/json; charset=utf-8']);
  expect(await answer.json()).toEqual(document);
});

test('the page loads only files from this origin, and they exist with the right types', async () => {
  const answer = await get('/docs');
  expect(answer.headers.get('content-type')).toBe('text/html; charset=utf-8');
  expect(answer.headers.get('content-security-policy')).toContain("default-src 'none'");
  const html = await answer.text();
  expect(html).not.toMatch(/https?:\/\//);
  expect(html).not.toMatch(/<script>|style=|onload=/);
  const types: string[] = [];
  for (const [, file = ''] of html.matchAll(/(?:src|href)="(docs\/[^"]+)"/g)) {
    const asset = await get(`/${file}`);
    expect(asset.status, file).toBe(200);
    expect((await asset.arrayBuffer()).byteLength).toBeGreaterThan(100);
    types.push(asset.headers.get('content-type') ?? '');
  }
  expect(types).toEqual([
    'text/css; charset=utf-8',
    'image/png',
    'text/javascript; charset=utf-8',
    'text/javascript; charset=utf-8',
  ]);
});

test('the guide that errors point to is served as text, and every error points to the section that explains it', async () => {
  const guide = await get('/docs/api.md');
  expect(guide.headers.get('content-type')).toBe('text/plain; charset=utf-8');
  expect(await guide.text()).toContain('### Server keys');
  const details = (rejection: Rejection) => (rejection.body.error as { details?: object }).details;
  expect(details(rateLimited(3))).toEqual({ doc_url: '/v1/docs/api.md#limits' });
  expect(details(forbidden('x', 'scope_missing'))).toMatchObject({ doc_url: '/v1/docs/api.md#server-keys' });
  expect(details(invalid('idempotency-key', 'x'))).toMatchObject({ doc_url: '/v1/docs/api.md#repeating-a-request' });
  expect(details(invalid('path', 'is required'))).toEqual({ field: 'path', doc_url: '/v1/docs/api.md#errors' });
  expect(details(unavailable())).toEqual({ doc_url: '/v1/docs/api.md#errors' });
});

test('a client that does not accept gzip gets the same file without it', async () => {
  const packed = await get('/docs/swagger-ui.css', { 'Accept-Encoding': 'gzip' });
  const plain = await get('/docs/swagger-ui.css', { 'Accept-Encoding': 'identity' });
  expect([packed.headers.get('content-encoding'), plain.headers.get('content-encoding')]).toEqual(['gzip', null]);
  expect(await packed.text()).toBe(await plain.text());
});

test.each([
  'package.json',
  'index.html',
  '..%2Fpackage.json',
  '%2e%2e%2fpackage.json',
  'constructor',
  '__proto__',
  'swagger-ui.css.map',
])('no other file is served: %s', async (name) => {
  expect((await get(`/docs/${name}`)).status).toBe(404);
});
