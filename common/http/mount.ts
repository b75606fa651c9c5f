/**
 * Mounts a list of routes: compiles schemas and attaches the guard.
 * Order for each request: guard (limit and caller), body, validation, handler. A request rejected at one step
 * costs nothing of the later ones.
 */
import { Type } from 'typebox';
import type { Quota } from './exchange.ts';
import { parseQuery, unpackBody } from './incoming.ts';
import { parseObject } from './json.ts';
import type { RawBody } from './raw-body.ts';
import { invalid, Rejection } from './rejection.ts';
import type { Answer, CallerKind, KeyScope, LimitClass, Method, Request, Route } from './route.ts';
import { bodyValidator, queryValidator, type Validator } from './validation.ts';

const BODY_BYTES_MAX = 65_536;
/** The schema for a route without fields. */
const nothing = Type.Object({}, { additionalProperties: false });

/** What a guard may read. */
export interface Incoming {
  readonly id: string;
  readonly ip: string;
  readonly receivedMs: number;
  readonly header: (name: string) => string;
  readonly queryText: string;
  /** The path below /v1 as requested; undefined for a preflight, which requests nothing itself. */
  readonly path?: string | undefined;
  /** The body, decompressed and bounded; for the few clients that put their key into it. */
  readonly readBody: () => Promise<RawBody | Rejection>;
}

export interface GuardedRoute {
  readonly method: Method;
  readonly path: string;
  readonly caller: CallerKind;
  readonly scope?: KeyScope | null;
  readonly isRead?: boolean;
  readonly isForViewers?: boolean;
  readonly limit: LimitClass;
}

/**
 * Authenticates the caller and charges the request to its one limit class. `route` is null for an unknown address. The
 * quota is what the X-RateLimit headers say; null only if the limit can't be determined.
 */
export type Guard = (
  route: GuardedRoute | null,
  incoming: Incoming,
) => Promise<
  | { readonly caller: unknown; readonly quota: Quota | null }
  | { readonly rejection: Rejection; readonly quota: Quota | null }
>;

/**
 * Runs the handler of a POST that a client may send again with the same Idempotency-Key, or answers what it answered
 * before. The request has been validated.
 */
export type Once = (
  route: { readonly name: string; readonly showsSecret: boolean },
  request: Request,
  handle: () => Promise<Answer | Rejection>,
) => Promise<Answer | Rejection>;

/** What the handler of a change notes it with, as `note` of its request. */
export type Trail = (operationId: string, request: Request) => unknown;

export interface Mount<Deps> {
  readonly once?: Once;
  readonly trail?: Trail;
  readonly routes: readonly Route<Deps>[];
  readonly deps: Deps;
  readonly guard: Guard;
  /** Whether a handler's error means that a store is unavailable, so that a retry makes sense. */
  readonly isOutage?: (error: unknown) => boolean;
}

/** A route without its types: what the server needs to serve it. */
export interface MountedRoute {
  /** Method and path, as logs and metrics name it. */
  readonly name: string;
  readonly method: Method;
  readonly paths: readonly string[];
  /** Matches these paths, as requested. */
  readonly shape: RegExp;
  readonly parameterNames: readonly string[];
  readonly hasBody: boolean;
  readonly bodyBytesMax: number;
  readonly guard: Guard;
  readonly guarded: GuardedRoute;
  readonly isOutage: (error: unknown) => boolean;
  readonly unpackBody: Route<never>['unpackBody'] | null;
  readonly run: (incoming: Incoming, caller: unknown, params: Record<string, string>) => Promise<Answer | Rejection>;
}

/** Whether its requests change something. */
export function isChange({ method, isRead }: { readonly method: Method; readonly isRead?: boolean }): boolean {
  return method !== 'GET' && isRead !== true;
}

export function mountRoutes<Deps>(mount: Mount<Deps>): MountedRoute[] {
  return mount.routes.map((route) => mountRoute(route, mount));
}

function mountRoute<Deps>(route: Route<Deps>, mount: Mount<Deps>): MountedRoute {
  const checkParams = route.params ? bodyValidator(route.params) : null;
  const checkQuery = route.query ? queryValidator(route.query) : null;
  const hasBody = route.method !== 'GET';
  const checkBody = hasBody && route.bodyMode !== 'raw' ? bodyValidator(route.body ?? nothing) : null;

  const name = `${route.method} ${route.path}`;
  const once = { name, showsSecret: route.showsSecret === true };
  const paths = [route.path, ...(route.alsoAt ?? [])];
  // The validators ensure the types, which were erased when the route was added to the list.
  const handleTyped = (request: Request) => route.handle(mount.deps, request as Request<never, never, never, never>);
  const run: MountedRoute['run'] = async (incoming, caller, params) => {
    const query = readQuery(incoming.queryText, checkQuery);
    if (query instanceof Rejection) return query;
    const faultyParams = checkParams?.(params);
    if (faultyParams) return faultyParams;
    const refused = route.refuse?.(mount.deps, params as never);
    if (refused) return refused;
    const rawBody = await incoming.readBody();
    if (rawBody instanceof Rejection) return rawBody;
    const body = checkBody ? readBody(rawBody, incoming.header('content-type'), checkBody, route) : null;
    if (body instanceof Rejection) return body;
    const request = {
      id: incoming.id,
      caller,
      params,
      query,
      body,
      rawBody,
      ip: incoming.ip,
      header: incoming.header,
      receivedMs: incoming.receivedMs,
    };
    const handle = async () => {
      const note = isChange(route) ? mount.trail?.(route.operationId, request) : undefined;
      return handleTyped(note === undefined ? request : Object.assign(request, { note }));
    };
    return mount.once && route.method === 'POST' ? mount.once(once, request, handle) : handle();
  };

  return {
    name,
    method: route.method,
    paths,
    shape: new RegExp(`^(${paths.map(patternOf).join('|')})$`),
    parameterNames: [...route.path.matchAll(/\{(\w+)\}/g)].map((match) => match[1] ?? ''),
    hasBody,
    bodyBytesMax: route.bodyBytesMax ?? BODY_BYTES_MAX,
    guard: mount.guard,
    guarded: {
      method: route.method,
      path: route.path,
      caller: route.caller,
      scope: route.scope ?? null,
      isRead: route.isRead ?? false,
      isForViewers: route.isForViewers ?? false,
      limit: route.limit,
    },
    isOutage: mount.isOutage ?? (() => false),
    unpackBody: route.unpackBody ?? null,
    run,
  };
}

function patternOf(path: string): string {
  return path.replaceAll('.', '\\.').replaceAll(/\{\w+\}/g, '[^/]+');
}

function readQuery(text: string, check: Validator | null): Record<string, string> | Rejection {
  if (text === '' && check === null) return {};
  const query = parseQuery(text);
  if (query instanceof Rejection) return query;
  if (check) return check(query) ?? query;
  const [unknown] = Object.keys(query);
  return unknown === undefined ? query : invalid(unknown, 'is not a known parameter');
}

function readBody<Deps>(body: RawBody, contentType: string, check: Validator, route: Route<Deps>): unknown {
  // A body that may be omitted is then an empty object.
  if (body.byteLength === 0 && isOptional(route)) return {};
  if (!/^application\/json\s*(;|$)/i.test(contentType)) {
    return invalid('content-type', 'the header must be application/json');
  }
  const parsed = parseObject(body);
  if ('rejection' in parsed) return parsed.rejection;
  return check(parsed.value, route.bodyFaults?.(parsed.value)) ?? parsed.value;
}

function isOptional<Deps>(route: Route<Deps>): boolean {
  const required: unknown = route.body && 'required' in route.body ? route.body.required : undefined;
  const needsOne = route.needsBody === true || (route.body !== undefined && 'minProperties' in route.body);
  return !needsOne && !(Array.isArray(required) && required.length > 0);
}

/** Decompresses what was collected, to the same maximum as on the wire. */
export async function finishBody(
  collected: Promise<RawBody | Rejection>,
  header: Incoming['header'],
  route: MountedRoute | null,
): Promise<RawBody | Rejection> {
  const body = await collected;
  if (body instanceof Rejection || !route) return body;
  const coding = header('content-encoding');
  const unpacked = coding === '' ? body : await unpackBody(body, coding, route.bodyBytesMax);
  if (unpacked instanceof Rejection || !route.unpackBody) return unpacked;
  return route.unpackBody(unpacked, header, route.bodyBytesMax);
}
