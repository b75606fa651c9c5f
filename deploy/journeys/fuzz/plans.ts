/** Plans of requests: a valid call of a documented operation, a mutated one, or random input. */
import { gzipSync } from 'node:zlib';
import fc from 'fast-check';
import { isObject } from '#common/json-object.ts';
import type { Operation, Parameter } from './description.ts';
import { anyJunk, fitting, nastyText } from './values.ts';
import { type Credential, credentials } from './world.ts';

export interface Plan {
  /** Null for an undocumented address or method. */
  readonly operation: Operation | null;
  readonly method: string;
  /** Below /v1, percent-encoded, slots unfilled. */
  readonly target: string;
  readonly credential: Credential;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | Uint8Array | null;
}

const json = { 'content-type': 'application/json' };

export function plansOf(operations: readonly Operation[]): fc.Arbitrary<Plan> {
  return fc.oneof(
    { weight: 12, arbitrary: fc.oneof(...operations.map(planOf)) },
    { weight: 1, arbitrary: strayPlan(operations) },
  );
}

function planOf(operation: Operation): fc.Arbitrary<Plan> {
  return fc
    .record({
      target: targetOf(operation),
      // Most requests should get past the guard, because there is more to break behind it.
      credential: fc.oneof(
        { weight: 3, arbitrary: rightCredential(operation) },
        { weight: 1, arbitrary: fc.constantFrom(...credentials) },
      ),
      content: contentOf(operation),
      extra: extraHeaders,
    })
    .map(({ target, credential, content, extra }) => ({
      operation,
      method: operation.method,
      target,
      credential,
      headers: { ...content.headers, ...extra },
      body: content.body,
    }));
}

function rightCredential(operation: Operation): fc.Arbitrary<Credential> {
  if (operation.path.startsWith('/sdk/')) return fc.constantFrom<Credential>('key', 'key_bearer');
  return operation.path.startsWith('/auth/') ? fc.constant<Credential>('none') : fc.constant<Credential>('owner');
}

function targetOf({ path, pathParameters, queryParameters }: Operation): fc.Arbitrary<string> {
  const steps = pathParameters.map((one) =>
    fc.oneof(
      { weight: 8, arbitrary: idFor(path, one).map(percentEncoded) },
      { weight: 1, arbitrary: nastyText.map(percentEncoded) },
      {
        weight: 1,
        arbitrary: fc.constantFrom('%', '%zz', '%00', '..', '.', '%2e%2e%2f', '{{app:0}}', 'a;b', '%E0%A4%A'),
      },
    ),
  );
  const query = fc.oneof(
    { weight: 6, arbitrary: queryOf(queryParameters) },
    { weight: 1, arbitrary: fc.string({ maxLength: 40 }).map(percentEncoded) },
    {
      weight: 1,
      arbitrary: fc.constantFrom(
        'limit=1&limit=2',
        'limit=0',
        'limit=-1',
        'limit=1e3',
        'offset=99999999999999999999',
        '%',
        '=',
        '&&&',
        'a'.repeat(2_000),
      ),
    },
  );
  return fc.tuple(fc.tuple(...steps), query).map(([values, text]) => {
    let next = 0;
    const filled = path.replaceAll(/\{\w+\}/g, () => values[next++] ?? '');
    return text === '' ? filled : `${filled}?${text}`;
  });
}

function idFor(path: string, parameter: Parameter): fc.Arbitrary<unknown> {
  if (!path.startsWith('/apps/')) return fitting(parameter.schema, parameter.name);
  const app = fc.nat(99).map((at) => `{{app:${at}}}`);
  return fc.oneof(
    { weight: 5, arbitrary: app },
    fc.constantFrom('{{foreign_app:0}}', 'app_01j9z3k4m5n6p7q8r9s0t1v2w3'),
  );
}

function queryOf(parameters: readonly Parameter[]): fc.Arbitrary<string> {
  if (parameters.length === 0) return fc.constant('');
  const pairs = parameters.map((one) =>
    fc
      .oneof({ weight: 12, arbitrary: fitting(one.schema, one.name) }, { weight: 1, arbitrary: nastyText })
      .map((value) => `${one.name}=${percentEncoded(value)}`),
  );
  return fc.tuple(fc.tuple(...pairs), fc.nat(2 ** 31 - 1)).map(([all, bits]) =>
    // A few at a time, since one invalid parameter ends a request: a bit pattern selects about a quarter of them.
    all.filter((_, at) => ((bits >> (at % 15)) & 1) === 1 && ((bits >> ((at + 7) % 15)) & 1) === 1).join('&'),
  );
}

interface Content {
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | Uint8Array | null;
}

function contentOf({ method, bodySchema, bodyExample }: Operation): fc.Arbitrary<Content> {
  if (method === 'GET' || method === 'DELETE') return fc.constant<Content>({ headers: {}, body: null });
  if (bodySchema === null) return fc.constantFrom<Content>({ headers: {}, body: null }, { headers: json, body: '{}' });
  const valid = fc.oneof(
    { weight: 5, arbitrary: fitting(bodySchema, '') },
    { weight: 1, arbitrary: fc.constant(bodyExample) },
  );
  return fc.oneof(
    { weight: 6, arbitrary: valid.map(asJson) },
    {
      weight: 4,
      arbitrary: fc.tuple(valid, fc.nat(), anyJunk()).map(([value, at, put]) => asJson(mutated(value, at, put))),
    },
    { weight: 1, arbitrary: anyJunk().map(asJson) },
    { weight: 2, arbitrary: fc.tuple(valid.map(asJson), fc.nat(8)).map(([content, way]) => broken(content, way)) },
  );
}

function asJson(value: unknown): Content {
  return { headers: json, body: JSON.stringify(value) ?? 'null' };
}

/** Replaces, removes or adds something at one place of the value. */
function mutated(value: unknown, at: number, put: unknown): unknown {
  if (typeof value !== 'object' || value === null) return put;
  const copy: Record<string, unknown> = { ...value };
  const names = Object.keys(copy);
  const name = names[at % Math.max(1, names.length)];
  if (name === undefined || at % 5 === 0) return { ...copy, unknown_field: put };
  if (at % 5 === 1) return Object.fromEntries(Object.entries(copy).filter(([key]) => key !== name));
  const inner = copy[name];
  if (isObject(inner)) copy[name] = mutated(inner, at >> 3, put);
  else if (Array.isArray(inner) && inner.length > 0) copy[name] = [...inner.slice(1), mutated(inner[0], at >> 3, put)];
  else copy[name] = put;
  return copy;
}

/** Corrupts the bytes where JSON, HTTP or gzip would notice. */
function broken({ headers, body }: Content, way: number): Content {
  const text = typeof body === 'string' ? body : '';
  switch (way) {
    case 0:
      return { headers, body: text.slice(0, -1) };
    case 1:
      return { headers, body: '' };
    case 2:
      return { headers: { 'content-type': 'text/plain' }, body: text };
    case 3:
      return { headers: {}, body: text };
    case 4:
      return { headers, body: Uint8Array.from([...Buffer.from(text), 0xff, 0xfe, 0xc0]) };
    case 5:
      return { headers: { ...headers, 'content-encoding': 'gzip' }, body: text };
    case 6:
      return { headers: { ...headers, 'content-encoding': 'gzip' }, body: Uint8Array.from(gzipSync(text)) };
    case 7:
      return { headers, body: text.replace(/"[^"]*"/, '1e400') };
    default:
      return { headers, body: `${'['.repeat(20_000)}${text}` };
  }
}

const extraHeaders: fc.Arbitrary<Record<string, string>> = fc.oneof(
  { weight: 12, arbitrary: fc.constant({}) },
  {
    weight: 1,
    arbitrary: fc.constantFrom<Record<string, string>>(
      { 'x-forwarded-for': '10.0.0.1', 'x-forwarded-proto': 'http' },
      { origin: 'https://evil.example' },
      { 'accept-encoding': 'gzip, br', accept: 'text/html' },
      { 'x-request-id': 'mine', 'x-http-method-override': 'DELETE' },
      { cookie: 'a=b; c=d', 'if-none-match': '*', range: 'bytes=0-1' },
      { 'user-agent': '' },
      { 'content-encoding': 'br' },
    ),
  },
);

function strayPlan(operations: readonly Operation[]): fc.Arbitrary<Plan> {
  const known = fc.constantFrom(...operations.map((one) => one.path.replaceAll(/\{\w+\}/g, 'x')));
  const path = fc.oneof(
    known.map((one) => `${one}/`),
    known.map((one) => one.toUpperCase()),
    known.map((one) => `/${one}`),
    fc.string({ maxLength: 30 }).map((text) => `/${percentEncoded(text)}`),
    fc.constantFrom(
      '/',
      '',
      '/../healthz',
      '/..%2f..%2fmetrics',
      '/sdk',
      '/sdk/',
      '/sdk/x',
      '/admin',
      '/%',
      '//',
      `/${'a/'.repeat(500)}`,
    ),
  );
  const other = fc.record({
    method: fc.constantFrom('GET', 'POST', 'PATCH', 'DELETE'),
    target: path.map((one) => `${one}#stray`),
  });
  const wrongMethod = fc.record({ method: fc.constantFrom('PUT', 'HEAD', 'TRACE', 'QUERY', 'OPTIONS'), target: known });
  return fc
    .tuple(fc.oneof(other, wrongMethod), fc.constantFrom(...credentials))
    .map(([{ method, target }, credential]) => ({
      operation: null,
      method,
      target: target.replace('#stray', ''),
      credential,
      headers: {},
      body: method === 'POST' ? '{}' : null,
    }))
    .filter(({ method, target }) => !operations.some((one) => one.method === method && fits(one.path, target)));
}

/** Whether the address is the operation's after all. */
function fits(path: string, target: string): boolean {
  return new RegExp(`^${path.replaceAll(/\{\w+\}/g, '[^/]+')}$`).test(target);
}

/** Percent-encoded, except for the slots. An unpaired surrogate has no UTF-8 and becomes the replacement character. */
function percentEncoded(value: unknown): string {
  const text = typeof value === 'string' ? value : (JSON.stringify(value) ?? '');
  return text
    .split(/(\{\{\w+:\d+\}\})/)
    .map((part) => (/^\{\{\w+:\d+\}\}$/.test(part) ? part : encodeURIComponent(part.toWellFormed())))
    .join('');
}
