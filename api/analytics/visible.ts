/**
 * Reads the links, apps and costs that the caller may see; all Postgres queries of the analytics on tenant data.
 * Deleted apps and links stay visible, because their statistics do. Row-level security protects every query here.
 */
import { absent } from '#api/access.ts';
import { notFound, type Rejection } from '#common/http/rejection.ts';
import { isId } from '#common/ids.ts';
import type { LinkRule } from '#common/links/link-rule.ts';
import type { Tenancy, TenantScope } from '#common/stores/tenancy.ts';

export interface LinkFace {
  readonly id: string;
  readonly organization_id: string;
  readonly app_id: string;
  readonly short_code: string;
  readonly host: string;
  readonly path: string;
  readonly title: string | null;
  readonly campaign: string | null;
  readonly deleted: boolean;
}

export interface DayCost {
  readonly day: string;
  readonly campaign: string;
  readonly currency: string;
  readonly amount: string;
}

const faces = `
  SELECT l.id, l.organization_id, l.app_id, l.short_code, a.host, l.path, l.title, l.campaign,
         (l.deleted_at IS NOT NULL OR a.deleted_at IS NOT NULL) AS deleted
    FROM links l JOIN apps a ON a.id = l.app_id
   WHERE l.organization_id = ANY ($1) AND l.id = ANY ($2)`;

export class VisibleLinks {
  readonly #tenancy: Tenancy;
  readonly #scope: TenantScope;

  constructor(tenancy: Tenancy, scope: TenantScope) {
    this.#tenancy = tenancy;
    this.#scope = scope;
  }

  /** Those of the links that belong to the caller, by id. */
  async links(ids: readonly string[]): Promise<Map<string, LinkFace>> {
    if (ids.length === 0) return new Map();
    const rows = await this.#tenancy.within(this.#scope, (tenant) => tenant.query<LinkFace>(faces, [[...ids]]));
    return new Map(rows.map((row) => [row.id, row]));
  }

  /** The rules of those links that belong to the caller and have rules. */
  rules(ids: readonly string[]): Promise<{ id: string; short_code: string; rules: readonly LinkRule[] }[]> {
    const sql =
      'SELECT id, short_code, rules FROM links WHERE organization_id = ANY ($1) AND id = ANY ($2) AND rules IS NOT NULL';
    return this.#tenancy.within(this.#scope, (tenant) => tenant.query(sql, [[...ids]]));
  }

  /** Names of those apps that belong to the caller, by id. */
  async appNames(ids: readonly string[]): Promise<Map<string, string>> {
    if (ids.length === 0) return new Map();
    const sql = 'SELECT id, name FROM apps WHERE organization_id = ANY ($1) AND id = ANY ($2)';
    const rows = await this.#tenancy.within(this.#scope, (tenant) =>
      tenant.query<{ id: string; name: string }>(sql, [[...ids]]),
    );
    return new Map(rows.map(({ id, name }) => [id, name]));
  }

  /** The caller's links that have one of these tags (any tag if null), at most `max`, each with those tags. */
  taggedLinks(tags: readonly string[] | null, max: number): Promise<{ link_id: string; tags: string[] }[]> {
    const sql = `SELECT link_id, array_agg(tag ORDER BY tag) AS tags FROM link_tags
      WHERE organization_id = ANY ($1) AND ($2::text[] IS NULL OR tag = ANY ($2)) GROUP BY link_id LIMIT $3`;
    return this.#tenancy.within(this.#scope, (tenant) => tenant.query(sql, [tags && [...tags], max]));
  }

  /** Costs of campaigns of the caller's organizations, from the first to the last day. */
  costs(firstDay: string, lastDay: string): Promise<DayCost[]> {
    const sql = `SELECT day::text, campaign, currency, trim_scale(sum(amount))::text AS amount FROM campaign_costs
      WHERE organization_id = ANY ($1) AND day >= $2 AND day <= $3 GROUP BY day, campaign, currency`;
    return this.#tenancy.within(this.#scope, (tenant) => tenant.query<DayCost>(sql, [firstDay, lastDay]));
  }

  /** Null if every id belongs to the caller; otherwise 403 for an id of another organization, or 404. */
  async refuse(kind: 'app' | 'link', ids: readonly string[]): Promise<Rejection | null> {
    const prefix = kind === 'app' ? 'app' : 'lnk';
    if (!ids.every((id) => isId(prefix, id))) return notFound(`There is no ${kind} with this id.`);
    return this.#tenancy.within(this.#scope, async (tenant) => {
      const table = kind === 'app' ? 'apps' : 'links';
      const mine = await tenant.query<{ id: string }>(
        `SELECT id FROM ${table} WHERE organization_id = ANY ($1) AND id = ANY ($2)`,
        [[...ids]],
      );
      const known = new Set(mine.map((row) => row.id));
      for (const id of ids) {
        if (known.has(id)) continue;
        return absent(tenant, kind, id);
      }
      return null;
    });
  }
}
