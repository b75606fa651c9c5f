/**
 * The links that a list shows. Its filters become conditions on `links l`; an organization's newest links are read from
 * an index in order, so that a page costs its offset and not the number of links.
 */
import type { RankedLink } from '#api/deps.ts';
import type { Page } from '#api/listing.ts';
import { type LinkRow, linkColumns } from '#common/link/link.ts';
import type { TenantQueries } from '#common/tenancy.ts';

export interface LinkFilters {
  readonly app_id?: string;
  readonly campaign?: string;
  readonly tag?: string;
  readonly search?: string;
  readonly archived?: boolean;
  readonly created_after?: string;
  readonly created_before?: string;
}

/** Values of a statement; the first is `$2`, since `$1` is the organizations. */
class Values {
  readonly list: unknown[] = [];

  bind(value: unknown): string {
    this.list.push(value);
    return `$${this.list.length + 1}`;
  }
}

/** The conditions after `l.organization_id`. Links of a deleted app are gone, although their rows are not marked. */
function conditions(filters: LinkFilters, values: Values): string {
  const parts = ['l.deleted_at IS NULL'];
  if (filters.app_id !== undefined) parts.push(`l.app_id = ${values.bind(filters.app_id)}`);
  else
    parts.push('l.app_id = ANY (ARRAY(SELECT id FROM apps WHERE organization_id = ANY ($1) AND deleted_at IS NULL))');
  if (filters.campaign !== undefined) parts.push(`l.campaign = ${values.bind(filters.campaign)}`);
  if (filters.archived !== undefined) parts.push(`l.archived = ${values.bind(filters.archived)}`);
  if (filters.created_after !== undefined)
    parts.push(`l.created_at >= ${values.bind(filters.created_after)}::timestamptz`);
  if (filters.created_before !== undefined)
    parts.push(`l.created_at < ${values.bind(filters.created_before)}::timestamptz`);
  if (filters.tag !== undefined) {
    const tag = values.bind(filters.tag);
    parts.push(`l.id IN (SELECT link_id FROM link_tags WHERE organization_id = ANY ($1) AND tag = ${tag})`);
  }
  if (filters.search !== undefined) {
    parts.push(`l.id IN (SELECT signpost_links_matching(${values.bind(likePattern(filters.search))}))`);
  }
  return parts.join(' AND ');
}

/** A pattern for LIKE that finds the text anywhere. */
export function likePattern(text: string): string {
  return `%${text.replaceAll(/[\\%_]/g, '\\$&')}%`;
}

/** How many links pass, exactly. With no filter but app and archived the answer is kept; otherwise they are counted. */
export async function countLinks(tenant: TenantQueries, filters: LinkFilters): Promise<number> {
  const { app_id, archived, ...others } = filters;
  const isKept = Object.values(others).every((value) => value === undefined);
  const values = new Values();
  const sql = isKept ? keptCount(app_id, archived, values) : fullCount(filters, values);
  const [row] = await tenant.query<{ total: number }>(sql, values.list);
  return row?.total ?? 0;
}

function keptCount(appId: string | undefined, archived: boolean | undefined, values: Values): string {
  const counted = archived === undefined ? 'c.active + c.archived' : archived ? 'c.archived' : 'c.active';
  const app = appId === undefined ? '' : ` AND c.app_id = ${values.bind(appId)}`;
  return `SELECT coalesce(sum(${counted}), 0)::bigint AS total FROM link_counts c JOIN apps a ON a.id = c.app_id
           WHERE c.organization_id = ANY ($1) AND a.deleted_at IS NULL${app}`;
}

function fullCount(filters: LinkFilters, values: Values): string {
  return `SELECT count(*) AS total FROM links l WHERE l.organization_id = ANY ($1) AND ${conditions(filters, values)}`;
}

const whole = (page: string) => `
  SELECT ${linkColumns} FROM (${page}) AS p JOIN links l ON l.id = p.id JOIN apps a ON a.id = l.app_id
   WHERE l.organization_id = ANY ($1)`;

/** Ids and times of the newest links that pass, `limit` of each organization. */
const newest = (filters: string, limit: string) => `
  SELECT n.id, n.created_at FROM unnest($1::text[]) AS o (organization_id) CROSS JOIN LATERAL (
    SELECT l.id, l.created_at FROM links l
     WHERE l.organization_id = o.organization_id AND ${filters}
     ORDER BY l.created_at DESC, l.id DESC LIMIT ${limit}) AS n`;

/** A page of the newest links. */
export function timedPage(tenant: TenantQueries, filters: LinkFilters, page: Page): Promise<LinkRow[]> {
  const values = new Values();
  const limit = values.bind(page.limit);
  const offset = values.bind(page.offset);
  const ids = `${newest(conditions(filters, values), `${limit}::bigint + ${offset}::bigint`)}
   ORDER BY n.created_at DESC, n.id DESC LIMIT ${limit} OFFSET ${offset}`;
  return tenant.query<LinkRow>(`${whole(ids)} ORDER BY l.created_at DESC, l.id DESC`, values.list);
}

/** A page of the links by clicks: those of the ranking first, then the newest of the others. */
export function rankedPage(
  tenant: TenantQueries,
  filters: LinkFilters,
  page: Page,
  ranking: readonly RankedLink[],
): Promise<LinkRow[]> {
  const values = new Values();
  const limit = values.bind(page.limit);
  const offset = values.bind(page.offset);
  const linkIds = values.bind(ranking.map((link) => link.link_id));
  const clicks = values.bind(ranking.map((link) => link.clicks));
  const filter = conditions(filters, values);
  const left = `greatest(0, ${limit}::bigint + ${offset}::bigint - (SELECT count(*) FROM ranked))`;
  const ids = `
    WITH ranked AS MATERIALIZED (
      SELECT l.id, r.clicks, l.created_at FROM unnest(${linkIds}::text[], ${clicks}::bigint[]) AS r (id, clicks)
        JOIN links l ON l.id = r.id
       WHERE l.organization_id = ANY ($1) AND ${filter}),
    others AS (${newest(`${filter} AND l.id NOT IN (SELECT id FROM ranked)`, left)})
    SELECT id, clicks FROM (SELECT id, clicks, created_at FROM ranked
                            UNION ALL SELECT id, 0, created_at FROM others) AS together
     ORDER BY clicks DESC, created_at DESC, id DESC LIMIT ${limit} OFFSET ${offset}`;
  return tenant.query<LinkRow>(`${whole(ids)} ORDER BY p.clicks DESC, l.created_at DESC, l.id DESC`, values.list);
}
