/**
 * The query of a link list: tables, conditions, count, and one page. The cost of a page depends on its offset, not on
 * the number of links, because an organization's newest links are read from an index in order.
 */
import type { RankedLink } from '#api/deps.ts';
import type { Page } from '#api/listing.ts';
import type { ValueFilter } from '#api/value-filter.ts';
import { type LinkRow, linkColumns } from '#common/links/link.ts';
import type { TenantQueries } from '#common/stores/tenancy.ts';

export interface LinkFilters {
  readonly app_id?: string;
  readonly campaign?: string;
  readonly tag?: ValueFilter;
  readonly search?: string;
  readonly archived?: boolean;
  readonly created_after?: string;
  readonly created_before?: string;
}

/** Values of a statement; the first is `$2`, because `$1` is the organizations. */
class Values {
  readonly list: unknown[] = [];

  bind(value: unknown): string {
    this.list.push(value);
    return `$${this.list.length + 1}`;
  }
}

/** The source `l` and its conditions. It always has id, organization_id, app_id, archived and created_at. */
interface Source {
  readonly from: string;
  readonly where: string;
}

const tagged = '(SELECT link_id AS id, organization_id, app_id, archived, created_at, tag FROM link_tags) AS l';
/** Links with one of the tags, or with none of them. */
function hasTag({ values: tags, isExclusion }: ValueFilter, values: Values): string {
  const ids = `SELECT link_id FROM link_tags WHERE organization_id = ANY ($1) AND tag = ANY (${values.bind(tags)}::text[])`;
  return `l.id ${isExclusion ? 'NOT IN' : 'IN'} (${ids})`;
}
/** Links of a deleted app count as deleted, although their rows are not marked. */
const ofLiveApps =
  'l.app_id = ANY (ARRAY(SELECT id FROM apps WHERE organization_id = ANY ($1) AND deleted_at IS NULL))';

function sourceOf(filters: LinkFilters, values: Values): Source {
  const { app_id, campaign, tag, search, archived, created_after, created_before } = filters;
  const parts = [app_id === undefined ? ofLiveApps : `l.app_id = ${values.bind(app_id)}`];
  if (campaign !== undefined) parts.push(`l.campaign = ${values.bind(campaign)}`);
  if (archived !== undefined) parts.push(`l.archived = ${values.bind(archived)}`);
  if (created_after !== undefined) parts.push(`l.created_at >= ${values.bind(new Date(created_after))}::timestamptz`);
  if (created_before !== undefined) parts.push(`l.created_at < ${values.bind(new Date(created_before))}::timestamptz`);

  let from = 'links l';
  if (search !== undefined) {
    from = `signpost_links_matching(${values.bind(likePattern(search))}) AS l`;
    if (tag) parts.push(hasTag(tag, values));
  } else if (tag && !tag.isExclusion && tag.values.length === 1 && campaign === undefined) {
    from = tagged;
    parts.push(`l.tag = ${values.bind(tag.values[0])}`);
  } else {
    parts.push('l.deleted_at IS NULL');
    if (tag) parts.push(hasTag(tag, values));
  }
  return { from, where: parts.join(' AND ') };
}

/** Ids of the matching links, at most `max`. @param among the only links to look at; all by default. */
export async function matchingIds(
  tenant: TenantQueries,
  filters: LinkFilters,
  max: number,
  among?: readonly string[],
): Promise<string[]> {
  const values = new Values();
  const { from, where } = sourceOf(filters, values);
  const limited = among === undefined ? '' : ` AND l.id = ANY (${values.bind(among)}::text[])`;
  const sql = `SELECT l.id FROM ${from} WHERE l.organization_id = ANY ($1) AND ${where}${limited} LIMIT ${values.bind(max)}`;
  return (await tenant.query<{ id: string }>(sql, values.list)).map(({ id }) => id);
}

/** A LIKE pattern that matches the text anywhere. */
function likePattern(text: string): string {
  return `%${text.replaceAll(/[\\%_]/g, '\\$&')}%`;
}

/**
 * The exact number of matching links. With no filters but app and archived it is stored; otherwise they are counted.
 */
async function countLinks(tenant: TenantQueries, filters: LinkFilters): Promise<number> {
  const { app_id, archived, ...others } = filters;
  const isKept = Object.values(others).every((value) => value === undefined);
  const values = new Values();
  const sql = isKept ? keptCount(app_id, archived, values) : fullCount(sourceOf(filters, values));
  const [row] = await tenant.query<{ total: number }>(sql, values.list);
  return row?.total ?? 0;
}

function keptCount(appId: string | undefined, archived: boolean | undefined, values: Values): string {
  const counted = archived === undefined ? 'c.active + c.archived' : archived ? 'c.archived' : 'c.active';
  const app = appId === undefined ? '' : ` AND c.app_id = ${values.bind(appId)}`;
  return `SELECT coalesce(sum(${counted}), 0)::bigint AS total FROM link_counts c JOIN apps a ON a.id = c.app_id
           WHERE c.organization_id = ANY ($1) AND a.deleted_at IS NULL${app}`;
}

function fullCount({ from, where }: Source): string {
  return `SELECT count(*) AS total FROM ${from} WHERE l.organization_id = ANY ($1) AND ${where}`;
}

const whole = (page: string) => `
  SELECT ${linkColumns} FROM (${page}) AS p JOIN links l ON l.id = p.id JOIN apps a ON a.id = l.app_id
   WHERE l.organization_id = ANY ($1)`;

/** Ids and times of the newest matching links, `limit` for each organization. */
const newest = ({ from, where }: Source, limit: string) => `
  SELECT n.id, n.created_at FROM unnest($1::text[]) AS o (organization_id) CROSS JOIN LATERAL (
    SELECT l.id, l.created_at FROM ${from}
     WHERE l.organization_id = o.organization_id AND ${where}
     ORDER BY l.created_at DESC, l.id DESC LIMIT ${limit}) AS n`;

/** The links after this one in a newest-first list. */
export interface LinkPosition {
  readonly created_at: Date;
  readonly id: string;
}

/** The source, starting at a cursor. */
function sourceAfter(filters: LinkFilters, after: LinkPosition | undefined, values: Values): Source {
  const source = sourceOf(filters, values);
  if (!after) return source;
  const position = `(${values.bind(after.created_at)}::timestamptz, ${values.bind(after.id)}::text)`;
  return { ...source, where: `${source.where} AND (l.created_at, l.id) < ${position}` };
}

export interface LinkPage {
  readonly total: number;
  readonly rows: readonly LinkRow[];
}

/** A page of the newest links. */
export async function timedPage(
  tenant: TenantQueries,
  filters: LinkFilters,
  page: Page,
  after?: LinkPosition,
): Promise<LinkPage> {
  // Searching text is the expensive part: both the number and the page come from one search.
  if (filters.search !== undefined) return searchedPage(tenant, filters, page, after);
  const total = await countLinks(tenant, filters);
  if (page.offset >= total) return { total, rows: [] };
  const values = new Values();
  const limit = values.bind(page.limit);
  const offset = values.bind(page.offset);
  const ids = `${newest(sourceAfter(filters, after, values), `${limit}::bigint + ${offset}::bigint`)}
   ORDER BY n.created_at DESC, n.id DESC LIMIT ${limit} OFFSET ${offset}`;
  const rows = await tenant.query<LinkRow>(`${whole(ids)} ORDER BY l.created_at DESC, l.id DESC`, values.list);
  return { total, rows };
}

async function searchedPage(
  tenant: TenantQueries,
  filters: LinkFilters,
  page: Page,
  after?: LinkPosition,
): Promise<LinkPage> {
  const values = new Values();
  const limit = values.bind(page.limit);
  const offset = values.bind(page.offset);
  const { from, where } = sourceOf(filters, values);
  const position = after
    ? ` WHERE (created_at, id) < (${values.bind(after.created_at)}::timestamptz, ${values.bind(after.id)}::text)`
    : '';
  const sql = `
    WITH found AS MATERIALIZED (
      SELECT l.id, l.created_at FROM ${from} WHERE l.organization_id = ANY ($1) AND ${where})
    SELECT (SELECT count(*) FROM found) AS total,
           ARRAY(SELECT id FROM found${position} ORDER BY created_at DESC, id DESC LIMIT ${limit} OFFSET ${offset}) AS ids`;
  const [found] = await tenant.query<{ total: number; ids: string[] }>(sql, values.list);
  if (!found || found.ids.length === 0) return { total: found?.total ?? 0, rows: [] };
  const ids = `SELECT unnest($2::text[]) AS id`;
  const rows = await tenant.query<LinkRow>(`${whole(ids)} ORDER BY l.created_at DESC, l.id DESC`, [found.ids]);
  return { total: found.total, rows };
}

/** A page of links by clicks: ranked links first, then the newest of the others. */
export async function linksByClicks(
  tenant: TenantQueries,
  filters: LinkFilters,
  page: Page,
  ranking: readonly RankedLink[],
): Promise<LinkPage> {
  const total = await countLinks(tenant, filters);
  if (page.offset >= total) return { total, rows: [] };
  const values = new Values();
  const limit = values.bind(page.limit);
  const offset = values.bind(page.offset);
  const linkIds = values.bind(ranking.map((link) => link.link_id));
  const clicks = values.bind(ranking.map((link) => link.clicks));
  const source = sourceOf(filters, values);
  const left = `greatest(0, ${limit}::bigint + ${offset}::bigint - (SELECT count(*) FROM ranked))`;
  const others = { ...source, where: `${source.where} AND l.id NOT IN (SELECT id FROM ranked)` };
  const ids = `
    WITH ranked AS MATERIALIZED (
      SELECT l.id, r.clicks, l.created_at FROM unnest(${linkIds}::text[], ${clicks}::bigint[]) AS r (id, clicks)
        JOIN ${source.from} ON l.id = r.id
       WHERE l.organization_id = ANY ($1) AND ${source.where}),
    others AS (${newest(others, left)})
    SELECT id, clicks FROM (SELECT id, clicks, created_at FROM ranked
                            UNION ALL SELECT id, 0, created_at FROM others) AS together
     ORDER BY clicks DESC, created_at DESC, id DESC LIMIT ${limit} OFFSET ${offset}`;
  const ordered = `${whole(ids)} ORDER BY p.clicks DESC, l.created_at DESC, l.id DESC`;
  return { total, rows: await tenant.query<LinkRow>(ordered, values.list) };
}
