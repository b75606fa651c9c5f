/** The owners of an organization. The last one cannot be removed. */
import { plainEmail } from '#common/email-address.ts';
import type { Queries } from '#common/stores/postgres.ts';
import { type Refused, refused } from './refusal.ts';

export interface Owned {
  readonly id: string;
  readonly name: string;
}

/**
 * Organizations whose only owner who can log in is this user. Locks all the user's organizations (or the given one), so
 * that when two owners are removed concurrently, the second one is recognized as the last.
 */
export async function ownedAlone(queries: Queries, userId: string, organizationId: string | null): Promise<Owned[]> {
  await queries.query(
    `SELECT FROM organizations WHERE id IN (SELECT organization_id FROM memberships WHERE user_id = $1)
        AND ($2::text IS NULL OR id = $2) ORDER BY id FOR UPDATE`,
    [userId, organizationId],
  );
  return queries.query<Owned>(
    `SELECT o.id, o.name FROM memberships m JOIN organizations o ON o.id = m.organization_id AND o.deleted_at IS NULL
      WHERE m.user_id = $1 AND m.role = 'owner' AND ($2::text IS NULL OR o.id = $2)
        AND NOT EXISTS (SELECT FROM memberships other JOIN users u ON u.id = other.user_id
                         WHERE other.organization_id = o.id AND other.role = 'owner' AND other.user_id <> $1
                           AND u.deleted_at IS NULL AND u.disabled_at IS NULL)
      ORDER BY o.id`,
    [userId, organizationId],
  );
}

export function lastOwner(email: string, [organization]: readonly Owned[]): Refused {
  return refused(
    `${email} is the last owner of ${organization?.name} (${organization?.id}): make another member its owner first (add-member --role owner), or delete the organization`,
  );
}

/** The id of a user, with the row locked until the transaction ends; undefined if there is none. */
export async function lockUser(queries: Queries, email: string): Promise<string | undefined> {
  const [user] = await queries.query<{ id: string }>(
    'SELECT id FROM users WHERE email = $1 AND deleted_at IS NULL FOR UPDATE',
    [plainEmail(email)],
  );
  return user?.id;
}

export const noUser = (email: string) => refused(`user ${email} does not exist`);
