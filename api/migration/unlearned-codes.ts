/** Codes that could not be learned from an old service, in Postgres. */
import type { LinkAsk } from '#common/links/link-asks.ts';
import { allApps, type Tenancy } from '#common/stores/tenancy.ts';
import type { Unlearned } from './old-provider.ts';

export const UNLEARNED_CODES_MAX = 1_000;
export const UNLEARNED_DAYS_MAX = 30;

const keep = `
  WITH a AS (SELECT id, organization_id FROM apps WHERE organization_id = ANY ($1) AND id = $2 AND deleted_at IS NULL),
       counted AS (INSERT INTO unlearned_counts AS c (organization_id, app_id, day, reason, asks)
                   SELECT a.organization_id, a.id, $6::date, $4, 1 FROM a
                   ON CONFLICT (app_id, day, reason) DO UPDATE SET asks = c.asks + 1)
  INSERT INTO unlearned_codes AS u (organization_id, app_id, short_code, reason, detail, asks, last_at)
  SELECT a.organization_id, a.id, $3, $4, $5, 1, $7 FROM a
  ON CONFLICT (app_id, short_code)
  DO UPDATE SET reason = EXCLUDED.reason, detail = EXCLUDED.detail, asks = u.asks + 1, last_at = EXCLUDED.last_at`;
const trimCodes = `
  DELETE FROM unlearned_codes WHERE organization_id = ANY ($1) AND app_id = $2 AND (last_at < (SELECT signpost_deletion_time()) - interval '${UNLEARNED_DAYS_MAX} days' OR short_code IN (
    SELECT short_code FROM unlearned_codes WHERE organization_id = ANY ($1) AND app_id = $2
     ORDER BY last_at DESC, short_code OFFSET ${UNLEARNED_CODES_MAX} FOR UPDATE SKIP LOCKED))`;
const trimCounts = `
  DELETE FROM unlearned_counts WHERE organization_id = ANY ($1) AND app_id = $2
     AND day < (signpost_deletion_time() AT TIME ZONE 'UTC')::date - ${UNLEARNED_DAYS_MAX}`;

export async function keepUnlearned(
  tenancy: Tenancy,
  { organization_id, app_id, code }: LinkAsk,
  { reason, detail }: Unlearned,
  nowMs: number,
): Promise<void> {
  const today = new Date(nowMs).toISOString().slice(0, 10);
  await tenancy.within(allApps([organization_id]), async (tenant) => {
    await tenant.query(keep, [app_id, code, reason, detail, today, new Date(nowMs)]);
    await tenant.query(trimCodes, [app_id]);
    await tenant.query(trimCounts, [app_id]);
  });
}
