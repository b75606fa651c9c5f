/** Creates many links with one statement. Each is created or rejected independently. */
import type { Note, Noted } from '#api/audit-trail.ts';
import { storedFields, typedLinkFields } from '#api/link-records.ts';
import type { Clock } from '#common/clock.ts';
import { toJson } from '#common/exact-json.ts';
import { invalidFields, Rejection, taken } from '#common/http/rejection.ts';
import { newId } from '#common/ids.ts';
import { type LinkRow, linkColumns, linkWithCode } from '#common/links/link.ts';
import { type LinkOwner, newShortCode } from '#common/links/link-creation.ts';
import { type LinkToCreate, linkFieldNames } from '#common/links/link-fields.ts';
import { asGiven, linkLoops } from '#common/redirect/loops.ts';
import { givenLink } from '#common/redirect/own-links.ts';
import { allApps, type Tenancy, type TenantQueries } from '#common/stores/tenancy.ts';
import { noteLinks } from './changed-links.ts';

/** Maximum attempts to replace a taken random code: see link-creation.ts. */
const ATTEMPTS_MAX = 5;

export interface BatchItem {
  readonly owner: LinkOwner;
  readonly fields: LinkToCreate;
  /** As the caller named them. */
  readonly given: Readonly<Record<string, unknown>>;
}

const columns = linkFieldNames.join(', ');
/** In the order of their unique keys, so that two batches with the same links cannot deadlock. */
const insertion = `
  WITH given AS (SELECT * FROM jsonb_to_recordset($2::jsonb) AS g (id text, app_id text, ${typedLinkFields})),
       l AS (INSERT INTO links (id, organization_id, app_id, source, created_at, updated_at, ${columns})
             SELECT g.id, a.organization_id, a.id, 'dashboard', $3, $3, ${linkFieldNames.map((name) => `g.${name}`).join(', ')}
               FROM given g JOIN apps a ON a.id = g.app_id AND a.organization_id = ANY ($1) AND a.deleted_at IS NULL
              ORDER BY a.id, g.external_id, g.short_code
             ON CONFLICT DO NOTHING RETURNING *)
  SELECT ${linkColumns} FROM l JOIN apps a ON a.id = l.app_id`;

/** Another link of the app that has the code or the external id, preferring links that are not deleted. */
const holders = `
  SELECT DISTINCT ON (at) at, id, field, is_live FROM (
    SELECT w.at, l.id, 'short_code' AS field, l.deleted_at IS NULL AS is_live
      FROM jsonb_to_recordset($2::jsonb) AS w (at integer, app_id text, short_code text)
      JOIN apps a ON a.id = w.app_id AND a.organization_id = ANY ($1)
     CROSS JOIN ${linkWithCode('w.short_code')} JOIN links l ON l.id = h.link_id
    UNION ALL
    SELECT w.at, l.id, 'external_id', true
      FROM jsonb_to_recordset($2::jsonb) AS w (at integer, app_id text, external_id text)
      JOIN links l ON l.organization_id = ANY ($1) AND l.app_id = w.app_id AND l.external_id = w.external_id AND l.deleted_at IS NULL
  ) AS held ORDER BY at, field DESC, is_live DESC`;

interface Holder {
  readonly at: number;
  readonly id: string;
  readonly field: 'short_code' | 'external_id';
  readonly is_live: boolean;
}

interface Pending extends BatchItem {
  readonly at: number;
}

/** The result for each item, in order. All links are created in one transaction, with their note. */
export async function createLinks(
  { tenancy, clock }: { readonly tenancy: Tenancy; readonly clock: Clock },
  items: readonly BatchItem[],
  note: Note,
): Promise<{ readonly outcomes: readonly (LinkRow | Rejection)[]; readonly noted: Noted }> {
  const organizations = [...new Set(items.map(({ owner }) => owner.organization_id))];
  return tenancy.within(allApps(organizations), async (tenant) => {
    const loops = await loopsOf(tenant, clock, items);
    const outcomes = await outcomesOf(tenant, clock, items, loops);
    const created = outcomes.filter((one): one is LinkRow => !(one instanceof Rejection));
    return { outcomes, noted: await noteLinks(note, tenant, created) };
  });
}

/** Items whose destinations lead back, by position; those of a loop within the batch are all rejected. */
async function loopsOf(
  tenant: TenantQueries,
  clock: Clock,
  items: readonly BatchItem[],
): Promise<Map<number, Rejection>> {
  const links = items.map(({ owner, fields }, at) => givenLink({ ...fields, id: `new ${at}`, app_id: owner.app_id }));
  const faults = await linkLoops(tenant, links, clock());
  return new Map(
    faults.flatMap((some, at) =>
      some.length === 0 ? [] : [[at, invalidFields(asGiven(some, items[at]?.given ?? {}))]],
    ),
  );
}

async function outcomesOf(
  tenant: TenantQueries,
  clock: Clock,
  items: readonly BatchItem[],
  loops: ReadonlyMap<number, Rejection>,
): Promise<(LinkRow | Rejection)[]> {
  const outcomes = new Map<number, LinkRow | Rejection>(loops);
  let pending: Pending[] = items.map((item, at) => ({ ...item, at })).filter(({ at }) => !loops.has(at));
  for (let attempt = 1; pending.length > 0; attempt++) {
    if (attempt > ATTEMPTS_MAX) throw new Error(`${ATTEMPTS_MAX} random short codes in a row were taken`);
    const left = await insert(tenant, clock, pending, outcomes);
    const refused = await refusals(tenant, left);
    for (const [at, rejection] of refused) outcomes.set(at, rejection);
    // Items without a conflict had a random code that was taken.
    pending = left.filter(({ at }) => !refused.has(at));
  }
  return items.map((_, at) => {
    const outcome = outcomes.get(at);
    if (!outcome) throw new Error('an item of a batch was neither created nor refused');
    return outcome;
  });
}

/** @returns the items that were not inserted. */
async function insert(
  tenant: TenantQueries,
  clock: Clock,
  items: readonly Pending[],
  outcomes: Map<number, LinkRow | Rejection>,
): Promise<Pending[]> {
  const nowMs = clock();
  const ids = new Map<string, number>();
  const rows = items.map(({ at, owner, fields }) => {
    const id = newId('lnk', nowMs);
    ids.set(id, at);
    return {
      id,
      app_id: owner.app_id,
      ...storedFields({ ...fields, short_code: fields.short_code ?? newShortCode() }),
    };
  });
  const created = await tenant.query<LinkRow>(insertion, [toJson(rows), new Date(nowMs)]);
  for (const row of created) outcomes.set(ids.get(row.id) ?? -1, row);
  return items.filter(({ at }) => !outcomes.has(at));
}

/**
 * Why items could not be inserted, by position. An item that repeats an earlier item of the batch conflicts with it.
 */
async function refusals(tenant: TenantQueries, items: readonly Pending[]): Promise<Map<number, Rejection>> {
  if (items.length === 0) return new Map();
  const wanted = items.map(({ at, owner, fields }) => {
    const { short_code = null, external_id = null } = fields;
    return { at, app_id: owner.app_id, short_code, external_id };
  });
  const found = await tenant.query<Holder>(holders, [JSON.stringify(wanted)]);
  return new Map(found.map(({ at, id, field, is_live }) => [at, taken(field, is_live ? id : null)]));
}
