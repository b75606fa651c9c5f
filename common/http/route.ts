/**
 * A route is data. One list is mounted on the server, compiled to validators and written to openapi.json,
 * so the three cannot disagree.
 */
import type { Static, TSchema } from 'typebox';
import type { RawBody } from './raw-body.ts';
import type { FieldError, Rejection } from './rejection.ts';

export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
/** Who may call: a dashboard user (bearer token), an app (API key), or anyone (public). */
export type CallerKind = 'user' | 'app' | 'public';
/** What a server key must be allowed to do to call a route. */
export const keyScopes = [
  'links:read',
  'links:write',
  'apps:read',
  'apps:write',
  'analytics:read',
  'analytics:write',
  'webhooks',
  'import',
] as const;
export type KeyScope = (typeof keyScopes)[number];
/** Every request is charged to exactly one of these. */
export type LimitClass = 'auth' | 'links' | 'match' | 'events' | 'general';

/** What a handler gets: all of it validated. */
export interface Request<Caller = unknown, Params = unknown, Query = unknown, Body = unknown> {
  readonly id: string;
  readonly caller: Caller;
  readonly params: Params;
  readonly query: Query;
  readonly body: Body;
  /** The body as received (decompressed); empty if there is none. */
  readonly rawBody: RawBody;
  /** The client's address, taking TRUSTED_PROXIES into account. */
  readonly ip: string;
  /** A header by its lower-case name; empty when absent. */
  readonly header: (name: string) => string;
  readonly receivedMs: number;
}

export type Answer =
  | {
      readonly status: number;
      readonly body: unknown;
      readonly headers?: Readonly<Record<string, string>>;
    }
  | {
      readonly status: number;
      readonly contentType: string;
      readonly bytes: Uint8Array | string;
      readonly headers?: Readonly<Record<string, string>>;
    }
  | {
      readonly status: number;
      readonly contentType: string;
      readonly stream: AsyncIterable<Uint8Array>;
      /** For a stream without an end of its own: the client is gone. Its request is timed until its first byte. */
      readonly onClosed?: () => void;
      readonly headers?: Readonly<Record<string, string>>;
    };

interface RouteBase {
  readonly method: Method;
  /** Below /v1, parameters in braces: `/links/{id}`. */
  readonly path: string;
  /** Other paths of the same operation, without parameters. The description of the API lists only `path`. */
  readonly alsoAt?: readonly string[];
  /** Name of the operation in OpenAPI, from which generators derive function names: a verb, `createLink`. */
  readonly operationId: string;
  readonly caller: CallerKind;
  /** The scope with which a server key may call the route; null for none. Every route for users states it. */
  readonly scope?: KeyScope | null;
  /** It changes nothing although it is no GET: viewers may call it. */
  readonly isRead?: true;
  /** Viewers may call it although it changes something: its handler decides who may do what. */
  readonly isForViewers?: true;
  readonly limit: LimitClass;
  readonly summary: string;
  readonly description?: string;
  readonly tag: string;
  /** The answer has a secret that is shown only once, so that it is not kept for a repeated request. */
  readonly showsSecret?: true;
  /** `raw`: the handler takes `rawBody` and parses itself; `body` then only documents. */
  readonly bodyMode?: 'json' | 'raw';
  /**
   * Rules that the body's schema can't express. It gets any JSON object, even one that the schema rejects, so that all
   * faults are reported together; wrong types are reported by the schema.
   */
  readonly bodyFaults?: (body: Readonly<Record<string, unknown>>) => readonly FieldError[];
  readonly bodyBytesMax?: number;
  /** A body must be sent although none of its fields is required on its own. */
  readonly needsBody?: boolean;
  /** Success answers by status; the error answers follow from the route itself. */
  readonly answers: Readonly<
    Record<
      number,
      {
        description: string;
        schema?: TSchema;
        contentType?: string;
        /** Other content types of the same answer, by the Accept header. */
        otherTypes?: readonly string[];
        example?: unknown;
      }
    >
  >;
  /** Unpacks forms of the body that no Content-Encoding names; its result is at most `bytesMax` long. */
  readonly unpackBody?: (body: RawBody, header: Request['header'], bytesMax: number) => Promise<RawBody | Rejection>;
  /** Of a raw body that is not JSON. */
  readonly bodyContentType?: string;
  readonly bodyExample?: unknown;
  /** The key may also be the user name of Basic authentication, or in the body, as other services' clients send it. */
  readonly takesForeignKeys?: boolean;
}

/** A route with its types erased, as the server, the validators and the printer use it. */
export interface Route<Deps> extends RouteBase {
  readonly params?: TSchema;
  readonly query?: TSchema;
  readonly body?: TSchema;
  /** Checked before the body is read: reasons to refuse that no body could fix. */
  readonly refuse?: (deps: Deps, params: never) => Rejection | null;
  readonly handle: (
    deps: Deps,
    request: Request<never, never, never, never>,
  ) => Promise<Answer | Rejection> | Answer | Rejection;
}

type Known<S> = S extends TSchema ? Static<S> : Record<string, never>;

/** What a room demands of some of its routes. */
export interface RouteKind {
  /** Fields of the route. */
  readonly fields: object;
  /** What the request has besides, for the handler. */
  readonly request: object;
  readonly answer: Answer;
}

interface TypedRoute<Deps, Caller, Kind extends RouteKind, P, Q, B> extends RouteBase {
  readonly params?: P;
  readonly query?: Q;
  readonly body?: B;
  readonly refuse?: (deps: Deps, params: Known<P>) => Rejection | null;
  readonly handle: (
    deps: Deps,
    request: Request<Caller, Known<P>, Known<Q>, Known<B>> & Kind['request'],
  ) => Promise<Kind['answer'] | Rejection> | Kind['answer'] | Rejection;
}

/** The function with which a room writes its routes: `const route = routesOf<Deps, UserCaller>()`. */
export function routesOf<Deps, Caller, Kind extends RouteKind = RouteKind>() {
  return <
    P extends TSchema | undefined = undefined,
    Q extends TSchema | undefined = undefined,
    B extends TSchema | undefined = undefined,
  >(
    spec: TypedRoute<Deps, Caller, Kind, P, Q, B> & Kind['fields'],
  ): Route<Deps> => spec as unknown as Route<Deps>;
}
