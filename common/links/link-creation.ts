/** Creates links, for the dashboard and the SDK endpoints. */
import { randomBytes } from 'node:crypto';
import type { Clock } from '#common/clock.ts';
import type { FieldError } from '#common/http/rejection.ts';
import { newId } from '#common/ids.ts';
import { linkLoops } from '#common/redirect/loops.ts';
import { givenLink } from '#common/redirect/own-links.ts';
import { violatedConstraint } from '#common/stores/postgres.ts';
import { allApps, type Tenancy, type TenantQueries } from '#common/stores/tenancy.ts';
import { type LinkRow, linkColumns } from './link.ts';
import { type LinkToCreate, linkFieldNames, storedValue } from './link-fields.ts';
import { lowerCode } from './short-code.ts';

const base58 = '123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz';
const CODE_CHARACTERS = 7;
/** 58^7 codes: two consecutive collisions are next to impossible below a billion links of one app. */
const ATTEMPTS_MAX = 5;

/** Seven random base58 characters. */
export function newShortCode(): string {
  let code = '';
  while (code.length < CODE_CHARACTERS) {
    // 232 is the largest multiple of 58 in a byte; larger values are discarded, so that all characters are equally likely.
    for (const byte of randomBytes(12))
      if (byte < 232 && code.length < CODE_CHARACTERS) code += base58.charAt(byte % 58);
  }
  return code;
}

export interface LinkOwner {
  readonly organization_id: string;
  readonly app_id: string;
}

export type LinkCreation<Also> =
  | { readonly kind: 'created'; readonly link: LinkRow; readonly also: Also }
  /** Another link of the app has it; for a short code that may be a deleted link. */
  | { readonly kind: 'taken'; readonly field: 'short_code' | 'external_id' }
  /** Its destinations lead back to it. */
  | { readonly kind: 'loops'; readonly faults: readonly FieldError[] }
  /** The app was deleted in the meantime. */
  | { readonly kind: 'no_app' };

interface CreationParts<Also> {
  readonly tenancy: Tenancy;
  readonly clock: Clock;
  /** Part of the transaction that creates the link. */
  readonly also?: (tenant: TenantQueries, link: LinkRow) => Promise<Also>;
}

/** The fields must have been validated by `newLinkBody` and `linkFaults`. */
export async function createLink<Also = undefined>(
  parts: CreationParts<Also>,
  owner: LinkOwner,
  source: LinkRow['source'],
  fields: LinkToCreate,
): Promise<LinkCreation<Also>> {
  const { tenancy, clock } = parts;
  for (let attempt = 1; attempt <= ATTEMPTS_MAX; attempt++) {
    const nowMs = clock();
    const given = { ...fields, short_code: fields.short_code ?? newShortCode() };
    try {
      const created = await tenancy.within(allApps([owner.organization_id]), async (tenant) => {
        const [faults = []] = await linkLoops(
          tenant,
          [givenLink({ ...given, id: 'new', app_id: owner.app_id })],
          nowMs,
        );
        if (faults.length > 0) return { kind: 'loops' as const, faults };
        const link = await insert(tenant, owner, { ...given, source }, nowMs);
        return link && { kind: 'created' as const, link, also: (await parts.also?.(tenant, link)) as Also };
      });
      if (created) return created;
      if (!(await isFurtherCode(tenancy, owner, given.short_code))) return { kind: 'no_app' };
      if (fields.short_code !== undefined) return { kind: 'taken', field: 'short_code' };
    } catch (error) {
      const constraint = violatedConstraint(error);
      if (constraint === 'links_external_id_key') return { kind: 'taken', field: 'external_id' };
      if (constraint !== 'links_short_code_key') throw error;
      if (fields.short_code !== undefined) return { kind: 'taken', field: 'short_code' };
    }
  }
  throw new Error(`${ATTEMPTS_MAX} random short codes in a row were taken`);
}

/** Whether the code belongs to a link besides its own, so that the insert was skipped. */
async function isFurtherCode(tenancy: Tenancy, owner: LinkOwner, code: string): Promise<boolean> {
  const sql = `SELECT FROM link_codes WHERE organization_id = ANY ($1) AND app_id = $2 AND code = ANY ($3)`;
  const found = await tenancy.within(allApps([owner.organization_id]), (tenant) =>
    tenant.query(sql, [owner.app_id, [code, lowerCode(code)]]),
  );
  return found.length > 0;
}

async function insert(
  tenant: TenantQueries,
  owner: LinkOwner,
  { source, ...fields }: LinkToCreate & Pick<LinkRow, 'source'>,
  nowMs: number,
): Promise<LinkRow | undefined> {
  const names = linkFieldNames.filter((name) => fields[name] !== undefined);
  const columns = names.map((name) => `, ${name}`).join('');
  const places = names.map((_, at) => `, $${at + 6}`).join('');
  const sql = `
    WITH a AS (SELECT id, organization_id, host FROM apps
                WHERE id = $3 AND organization_id = ANY ($1) AND deleted_at IS NULL),
         l AS (INSERT INTO links (id, organization_id, app_id, source, created_at, updated_at${columns})
               SELECT $2, a.organization_id, a.id, $4, $5, $5${places} FROM a RETURNING *)
    SELECT ${linkColumns} FROM l JOIN a ON a.id = l.app_id`;
  const stored = names.map((name) => storedValue(name, fields[name]));
  const values = [newId('lnk', nowMs), owner.app_id, source, new Date(nowMs), ...stored];
  const [row] = await tenant.query<LinkRow>(sql, values);
  return row;
}
