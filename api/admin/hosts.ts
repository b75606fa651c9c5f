/** Commands for hosts: verify one without a DNS record, or release one from its owner. */
import { violatedConstraint } from '#common/stores/postgres.ts';
import type { AdminParts } from './accounts.ts';
import { type Refused, refused } from './refusal.ts';

/** Null when the text is a well-formed host name. Whether an app has it is checked in the database. */
export function hostNameFault(host: string): string | null {
  return host.length <= 253 && /^[^\s/:]+\.[^\s/:]+$/.test(host) ? null : 'must be a host name such as go.example.com';
}

/** Verifies a host for the app that claims it. `appId` selects one of several apps. */
export async function verifyHost(
  { db, clock }: AdminParts,
  host: string,
  appId?: string,
): Promise<{ readonly kind: 'verified'; readonly app_id: string } | Refused> {
  const claims = await db.query<{ id: string; is_verified: boolean }>(
    `SELECT id, host_verified_at IS NOT NULL AS is_verified FROM apps
      WHERE host = $1 AND deleted_at IS NULL AND ($2::text IS NULL OR id = $2) ORDER BY id`,
    [host.toLowerCase(), appId ?? null],
  );
  const served = claims.find((one) => one.is_verified);
  if (served) return refused(`${host} is already verified, for ${served.id}`);
  const [claim, another] = claims;
  if (!claim) return refused(`no app ${appId ? `${appId} ` : ''}has claimed the host ${host}`);
  if (another)
    return refused(
      `several apps claim the host ${host}: choose one with --app (${claims.map(({ id }) => id).join(', ')})`,
    );
  try {
    await db.execute('UPDATE apps SET host_verified_at = $2 WHERE id = $1 AND host = $3 AND deleted_at IS NULL', [
      claim.id,
      new Date(clock()),
      host.toLowerCase(),
    ]);
  } catch (error) {
    if (violatedConstraint(error) !== 'apps_host_key') throw error;
    return refused(`${host} belongs to another app: run release-host first`);
  }
  return { kind: 'verified', app_id: claim.id };
}

export interface ReleasedHost {
  readonly kind: 'released';
  /** Apps (not deleted) whose links are no longer served on the host. */
  readonly app_ids: readonly string[];
}

/**
 * Releases a host from all its holders: organizations that gave it up, deleted apps, and the app that is served on it,
 * which must verify it again.
 */
export async function releaseHost({ db }: AdminParts, host: string): Promise<ReleasedHost | Refused> {
  return db.transaction(async (queries) => {
    const left = await queries.execute('DELETE FROM released_hosts WHERE host = $1', [host.toLowerCase()]);
    const apps = await queries.query<{ id: string; is_living: boolean }>(
      `UPDATE apps SET host_verified_at = NULL WHERE host = $1 AND host_verified_at IS NOT NULL
       RETURNING id, deleted_at IS NULL AS is_living`,
      [host.toLowerCase()],
    );
    if (left === 0 && apps.length === 0) return refused(`no organization owns the host ${host}`);
    return { kind: 'released', app_ids: apps.filter((app) => app.is_living).map(({ id }) => id) };
  });
}
