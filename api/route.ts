/** The API's route builder, typed with its dependencies and the caller from the guard. */
import { type Answer, type Method, type RouteKind, routesOf } from '#common/http/route.ts';
import type { Note, Noted } from './audit-trail.ts';
import type { ApiDeps } from './deps.ts';

export type Role = 'owner' | 'member' | 'viewer';

export interface Membership {
  readonly organization_id: string;
  readonly role: Role;
}

/** When a browser's login started, and when it ends if it is not used. */
export interface CallerSession {
  readonly id: string;
  readonly created_at: Date;
  readonly expires_at: Date;
  /** The only organization that the session may use; null: all of the user's. */
  readonly organization_id: string | null;
}

/** The server key of a request. */
export interface CallerKey {
  /** The only apps that the key may use; null: every app of its organization. */
  readonly app_ids: readonly string[] | null;
}

/** A dashboard user whose token or session was verified, with their current memberships. */
export interface UserCaller {
  readonly kind: 'user';
  /** The id of a server key if `key` is set. */
  readonly user_id: string;
  readonly memberships: readonly Membership[];
  /** Only if the request was authenticated by the dashboard's cookie. */
  readonly session?: CallerSession;
  /** Only if the request was authenticated by a server key; it has one membership. */
  readonly key?: CallerKey;
}

/** Routes that change nothing. */
export interface Reads extends RouteKind {
  readonly fields: { readonly method: 'GET' } | { readonly isRead: true };
}

/** The answer to a change: the change is in the audit log, in the same transaction. */
export type ChangeAnswer = Answer & { readonly noted: Noted };

/** Routes that change something. */
export interface Changes extends RouteKind {
  readonly fields: { readonly method: Exclude<Method, 'GET'>; readonly isRead?: never };
  readonly request: { readonly note: Note };
  readonly answer: ChangeAnswer;
}

/** Of the request for a change: what functions need that make the change. */
export interface ChangeRequest {
  readonly caller: UserCaller;
  readonly note: Note;
}

/** A route for dashboard users that changes nothing. */
export const route = routesOf<ApiDeps, UserCaller, Reads>();
/** A route for dashboard users that changes something. */
export const changingRoute = routesOf<ApiDeps, UserCaller, Changes>();
