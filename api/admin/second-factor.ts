/** Operator commands for second factors. */
import { removeFactor } from '#api/auth/second-factor.ts';
import { type AdminParts, findOrganization } from './accounts.ts';
import { lockUser, noUser } from './owners.ts';
import { type Refused, refused } from './refusal.ts';

/** Requires a second factor from an organization's members, or stops requiring it. */
export async function requireTotp(
  { db }: AdminParts,
  organization: string,
  isRequired: boolean,
): Promise<{ readonly kind: 'set'; readonly organization_id: string; readonly members_without: number } | Refused> {
  const found = await findOrganization(db, organization);
  if (!found) return refused(`there is no organization ${organization}`);
  if (found.kind === 'refused') return found;
  await db.execute('UPDATE organizations SET requires_totp = $2 WHERE id = $1', [found.id, isRequired]);
  const without = await db.query(
    `SELECT FROM memberships m WHERE m.organization_id = $1
        AND NOT EXISTS (SELECT FROM user_totp t WHERE t.user_id = m.user_id AND t.confirmed_at IS NOT NULL)`,
    [found.id],
  );
  return { kind: 'set', organization_id: found.id, members_without: without.length };
}

/** For a user who has lost the authenticator and the recovery codes. */
export async function resetTotp({ db }: AdminParts, email: string): Promise<{ readonly kind: 'reset' } | Refused> {
  return db.transaction(async (queries) => {
    const userId = await lockUser(queries, email);
    if (userId === undefined) return noUser(email);
    const removed = await removeFactor(queries, userId);
    return removed === 0 ? refused(`${email} has no second factor`) : { kind: 'reset' };
  });
}
