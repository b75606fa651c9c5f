/** The API's route builder, typed with its dependencies and the caller from the guard. */
import { routesOf } from '#common/http/route.ts';
import type { ApiDeps } from './deps.ts';

export type Role = 'owner' | 'member' | 'viewer';

export interface Membership {
  readonly organization_id: string;
  readonly role: Role;
}

/** A dashboard user whose token was verified, with their current memberships. */
export interface UserCaller {
  readonly kind: 'user';
  readonly user_id: string;
  readonly memberships: readonly Membership[];
}

/** A route for dashboard users. */
export const route = routesOf<ApiDeps, UserCaller>();
