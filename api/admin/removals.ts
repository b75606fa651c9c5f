/**
 * Removes users and organizations. Takes effect with the next request: every request looks its caller up in
 * Postgres, and the copies of apps in Redis are updated from the recorded change (api/outbox.ts).
 */
import { endSessions } from '#api/auth/sessions.ts';
import { plainEmail } from '#common/email-address.ts';
import { type AdminParts, findOrganization } from './accounts.ts';
import { lastOwner, lockUser, noUser, type Owned, ownedAlone } from './owners.ts';
import { type Refused, refused } from './refusal.ts';

export async function removeMember(
  { db }: AdminParts,
  email: string,
  organization: string,
): Promise<{ readonly kind: 'removed'; readonly organization_id: string } | Refused> {
  return db.transaction(async (queries) => {
    const found = await findOrganization(queries, organization);
    if (!found) return refused(`there is no organization ${organization}`);
    if (found.kind === 'refused') return found;
    const userId = await lockUser(queries, email);
    if (userId === undefined) return noUser(email);
    const alone = await ownedAlone(queries, userId, found.id);
    if (alone.length > 0) return lastOwner(email, alone);
    const removed = await queries.execute('DELETE FROM memberships WHERE user_id = $1 AND organization_id = $2', [
      userId,
      found.id,
    ]);
    return removed === 0
      ? refused(`${email} is not a member of ${found.id}`)
      : { kind: 'removed', organization_id: found.id };
  });
}

/** Blocks a user until `enableUser`. This includes the last owner: a stolen laptop can't wait for a successor. */
export async function disableUser(
  { db, clock }: AdminParts,
  email: string,
): Promise<{ readonly kind: 'disabled'; readonly ownerless: readonly Owned[] } | Refused> {
  const now = new Date(clock());
  return db.transaction(async (queries) => {
    const userId = await lockUser(queries, email);
    if (userId === undefined) return noUser(email);
    const ownerless = await ownedAlone(queries, userId, null);
    await queries.execute('UPDATE users SET disabled_at = coalesce(disabled_at, $2) WHERE id = $1', [userId, now]);
    await endSessions(queries, userId, now);
    return { kind: 'disabled', ownerless };
  });
}

export async function enableUser({ db }: AdminParts, email: string): Promise<{ readonly kind: 'enabled' } | Refused> {
  const enabled = await db.execute(
    'UPDATE users SET disabled_at = NULL WHERE email = $1 AND deleted_at IS NULL AND disabled_at IS NOT NULL',
    [plainEmail(email)],
  );
  return enabled === 0 ? refused(`there is no disabled user ${email}`) : { kind: 'enabled' };
}

/**
 * Deletes the account with its memberships, logins and provider identities. What the user created stays with their
 * organizations.
 */
export async function deleteUser({ db }: AdminParts, email: string): Promise<{ readonly kind: 'deleted' } | Refused> {
  return db.transaction(async (queries) => {
    const userId = await lockUser(queries, email);
    if (userId === undefined) return noUser(email);
    const alone = await ownedAlone(queries, userId, null);
    if (alone.length > 0) return lastOwner(email, alone);
    await queries.execute('DELETE FROM users WHERE id = $1', [userId]);
    return { kind: 'deleted' };
  });
}

export interface DeletedOrganization {
  readonly kind: 'deleted';
  readonly organization_id: string;
  readonly apps: number;
}

/**
 * Deletes an organization: it has no members, its links return 404 and its keys 401. Its records stay until the
 * retention ends.
 */
export async function deleteOrganization(
  { db, clock }: AdminParts,
  organization: string,
): Promise<DeletedOrganization | Refused> {
  const now = new Date(clock());
  return db.transaction(async (queries) => {
    const found = await findOrganization(queries, organization);
    if (!found) return refused(`there is no organization ${organization}`);
    if (found.kind === 'refused') return found;
    const gone = await queries.execute(
      'UPDATE organizations SET deleted_at = $2 WHERE id = $1 AND deleted_at IS NULL',
      [found.id, now],
    );
    if (gone === 0) return refused(`there is no organization ${organization}`);
    await queries.execute('DELETE FROM memberships WHERE organization_id = $1', [found.id]);
    await queries.execute('DELETE FROM server_keys WHERE organization_id = $1', [found.id]);
    await queries.execute('DELETE FROM shared_pages WHERE organization_id = $1', [found.id]);
    await queries.execute('DELETE FROM saved_views WHERE organization_id = $1', [found.id]);
    await queries.execute('DELETE FROM utm_templates WHERE organization_id = $1', [found.id]);
    await queries.execute('DELETE FROM campaign_costs WHERE organization_id = $1', [found.id]);
    await queries.execute('DELETE FROM webhook_endpoints WHERE organization_id = $1', [found.id]);
    const apps = await queries.execute(
      'UPDATE apps SET deleted_at = $2, updated_at = $2, version = version + 1 WHERE organization_id = $1 AND deleted_at IS NULL',
      [found.id, now],
    );
    return { kind: 'deleted', organization_id: found.id, apps };
  });
}
