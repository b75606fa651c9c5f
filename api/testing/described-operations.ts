/** The operations of docs/openapi.json as requests, with the ids of one tenant or of another in every place that takes one. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { isObject } from '#common/json-object.ts';
import { packageRoot } from '#common/process/paths.ts';

/** What belongs to a tenant, by what names it in paths, queries and bodies. */
export type Ids = Readonly<Record<string, string>>;

export interface Operation {
  readonly name: string;
  readonly method: string;
  readonly path: string;
  /** Whether its answer depends on who calls. */
  readonly isPublic: boolean;
  readonly query: Readonly<Record<string, string>>;
  /** Names of parameters of the query that take an id. */
  readonly queryIds: readonly string[];
  /** The example of the body: JSON, or a text. */
  readonly body: unknown;
  /** Places in the body that take an id, such as `filter.app_id`. */
  readonly bodyIds: readonly string[];
}

export interface Variant {
  readonly place: 'own' | 'path' | `query ${string}` | `body ${string}`;
  readonly path: string;
  readonly body: unknown;
}

type Json = Readonly<Record<string, unknown>>;

const document = JSON.parse(readFileSync(join(packageRoot(), 'docs', 'openapi.json'), 'utf8')) as Json;

function resolved(value: unknown): Json {
  if (!isObject(value)) return {};
  const reference = value['$ref'];
  if (typeof reference !== 'string') return value;
  const parts = reference.slice(2).split('/');
  return resolved(parts.reduce<unknown>((at, part) => (isObject(at) ? at[part] : undefined), document));
}

/** Names of fields and parameters whose value is an id that belongs to a tenant, and which of its ids that is. */
const idNames: Readonly<Record<string, string>> = {
  app_id: 'app',
  app_ids: 'app',
  link_id: 'link',
  ids: 'link',
  organization_id: 'organization',
  utm_template_id: 'template',
};

const pathNames: Readonly<Record<string, string>> = {
  ...idNames,
  import_id: 'import',
  invitation_id: 'invitation',
  page_id: 'page',
  postback_id: 'postback',
  session_id: 'session',
  template_id: 'template',
  user_id: 'user',
  view_id: 'view',
  webhook_id: 'webhook',
};

const fixed: Ids = {
  number: '2',
  provider: 'google',
  file: 'swagger-ui.css',
  match_id: 'mat_unknown',
  external_id: 'new',
};
/** Parameters of which an operation needs one, though each is optional. */
const oneOf: Readonly<Record<string, Ids>> = { lookUpLink: { external_id: 'known' } };
/** Of required parameters without an example. */
const given: Ids = { by: 'platform', events: 'opened', short_code: 'free', external_id: 'known', seconds: '0' };

function bodyIdsOf(schema: unknown, prefix = ''): string[] {
  const { properties, items } = resolved(schema);
  if (items !== undefined && prefix !== '') return bodyIdsOf(items, `${prefix}0.`);
  if (!isObject(properties)) return [];
  return Object.entries(properties).flatMap(([name, value]) =>
    name in idNames ? [`${prefix}${name}`] : bodyIdsOf(value, `${prefix}${name}.`),
  );
}

function operationOf(path: string, method: string, described: Json): Operation {
  const parameters = (Array.isArray(described['parameters']) ? described['parameters'] : []).map(resolved);
  const inQuery = parameters
    .filter((one) => one['in'] === 'query')
    .map((one) => ({ ...one, name: String(one['name']) }));
  const required = inQuery.filter((one) => Reflect.get(one, 'required') === true || one.name === 'seconds');
  const content = resolved(resolved(described['requestBody'])['content']);
  const [[, form] = []] = Object.entries(content);
  const { schema, example } = isObject(form) ? form : {};
  return {
    name: String(described['operationId']),
    method: method.toUpperCase(),
    path,
    isPublic: Array.isArray(described['security']) && described['security'].length === 0,
    query: {
      ...Object.fromEntries(required.map(({ name }) => [name, given[name] ?? 'x'])),
      ...oneOf[String(described['operationId'])],
    },
    queryIds: inQuery.map(({ name }) => name).filter((name) => name in idNames),
    // The times of examples are over.
    body: isObject(example) ? { ...example, expires_at: undefined } : example,
    bodyIds: bodyIdsOf(schema),
  };
}

/** All operations; those that delete come last, and of these, what others are part of. */
export function describedOperations(): Operation[] {
  const paths = resolved(document['paths']);
  const operations = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(resolved(methods)).map(([method, described]) => operationOf(path, method, resolved(described))),
  );
  const rank = ({ method, path }: Operation) =>
    method !== 'DELETE' ? 0 : path === '/session' ? 3 : ['/apps/{id}', '/links/bulk'].includes(path) ? 2 : 1;
  const depth = ({ path }: Operation) => path.split('/').length;
  return operations.sort((one, other) => rank(one) - rank(other) || (rank(one) > 0 ? depth(other) - depth(one) : 0));
}

const kindOf = (operation: Operation, name: string) =>
  name === 'id' ? (operation.path.split('/')[1] ?? '').slice(0, -1) : (pathNames[name] ?? '');

/** A copy of the body in which the place has the id. */
function withId(body: unknown, place: string, id: string): unknown {
  const [first = '', ...rest] = place.split('.');
  if (Array.isArray(body)) return body.map((one, at) => (String(at) === first ? withId(one, rest.join('.'), id) : one));
  const before = isObject(body) ? body : {};
  if (rest.length > 0) return { ...before, [first]: withId(before[first], rest.join('.'), id) };
  return { ...before, [first]: first === 'ids' || first.endsWith('_ids') ? [id] : id };
}

/** The request with the caller's own ids, and one for each place that takes an id, with that of another tenant there. */
export function variantsOf(operation: Operation, own: Ids, foreign: Ids): Variant[] {
  const names = [...operation.path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name ?? '');
  const pathOf = (ids: Ids, query: Ids) => {
    const path = operation.path.replaceAll(/\{(\w+)\}/g, (_, name: string) => {
      return ids[kindOf(operation, name)] ?? fixed[name] ?? name;
    });
    const text = new URLSearchParams(query).toString();
    return text === '' ? path : `${path}?${text}`;
  };
  const idIn = (ids: Ids, place: string) => ids[idNames[place.split('.').at(-1) ?? ''] ?? ''] ?? '';
  const isNamed = (place: string) => ['organization_id', 'app_id'].includes(place);
  // A link or a filter that is optional would change what the request means.
  const ownBody = operation.bodyIds
    .filter((place) => isNamed(place) || hasPlace(operation.body, place))
    .reduce((body, place) => withId(body, place, idIn(own, place)), operation.body);
  const named = operation.queryIds.filter(isNamed).map((name) => [name, idIn(own, name)]);
  const query = { ...operation.query, ...Object.fromEntries(named) };
  const variants: Variant[] = [{ place: 'own', path: pathOf(own, query), body: ownBody }];
  if (names.some((name) => kindOf(operation, name) in foreign))
    variants.push({ place: 'path', path: pathOf(foreign, query), body: ownBody });
  for (const name of operation.queryIds)
    variants.push({
      place: `query ${name}`,
      path: pathOf(own, { ...query, [name]: idIn(foreign, name) }),
      body: ownBody,
    });
  for (const place of operation.bodyIds)
    variants.push({
      place: `body ${place}`,
      path: pathOf(own, query),
      body: withId(ownBody, place, idIn(foreign, place)),
    });
  return variants;
}

function hasPlace(body: unknown, place: string): boolean {
  const found = place.split('.').reduce<unknown>((at, part) => {
    if (Array.isArray(at)) return at[Number(part)];
    return isObject(at) ? at[part] : undefined;
  }, body);
  return found !== undefined && found !== null;
}
