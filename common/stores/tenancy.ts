/**
 * The only access to tenants' rows. Every query is bound to organizations twice: `$1` is always their ids, and the
 * transaction runs as a role restricted to them by row-level security (pg-migrations, tenancy), which also restricts
 * it to the apps of a server key.
 */
import type { Postgres } from './postgres.ts';

/** Whose rows may be accessed. */
export interface TenantScope {
  readonly organizationIds: readonly string[];
  /** The only apps, with their links; null: all of the organizations' apps. */
  readonly appIds: readonly string[] | null;
}

/** Access to everything of these organizations. */
export function allApps(organizationIds: readonly string[]): TenantScope {
  return { organizationIds, appIds: null };
}

/**
 * Queries for one tenant (or for the several to which one user belongs). In each statement `$1` is the organization
 * ids.
 */
export interface TenantQueries {
  readonly scope: TenantScope;
  /** Rows of the result; `values` start at `$2`. */
  query<Row extends object>(sql: string, values?: readonly unknown[]): Promise<Row[]>;
  /** The organization that owns an app or a link, to distinguish 403 from 404; null if it does not exist. */
  ownerOf(kind: 'app' | 'link', id: string): Promise<string | null>;
}

const owners = {
  app: 'SELECT signpost_owner_of_app($1) AS owner',
  link: 'SELECT signpost_owner_of_link($1) AS owner',
} as const;

/** The gateway's role is already restricted by row-level security; every other role switches to signpost_api. */
const enter = `SELECT set_config('role', CASE session_user WHEN 'signpost_gateway' THEN 'signpost_gateway' ELSE 'signpost_api' END, true),
                      set_config('signpost.organization_ids', $1, true), set_config('signpost.app_ids', $2, true)`;
/** An empty setting means no restriction; this value is not the id of any app and restricts to no app. */
const NO_APP = '-';
/** Organizations of one caller. */
const ORGANIZATIONS_MAX = 1_000;

export class Tenancy {
  readonly #db: Pick<Postgres, 'transaction'>;

  constructor(db: Pick<Postgres, 'transaction'>) {
    this.#db = db;
  }

  /** Runs the work in one transaction: commits when it returns, rolls back when it throws. */
  within<T>(scope: TenantScope, work: (tenant: TenantQueries) => Promise<T>): Promise<T> {
    const { organizationIds, appIds } = scope;
    if (organizationIds.length > ORGANIZATIONS_MAX)
      throw new Error(`more than ${ORGANIZATIONS_MAX} organizations at once`);
    return this.#db.transaction(async (queries) => {
      // The settings end with the transaction, so that a pooled connection carries nothing over to its next user.
      const apps = appIds === null ? '' : appIds.join(',') || NO_APP;
      await queries.query(enter, [organizationIds.join(','), apps], 'enter_tenant');
      return work({
        scope,
        query: (sql, values = []) => {
          if (!sql.includes('$1')) throw new Error("a query on a tenant's rows must use $1, its organizations");
          return queries.query(sql, [organizationIds, ...values]);
        },
        ownerOf: async (kind, id) => {
          const [row] = await queries.query<{ owner: string | null }>(owners[kind], [id]);
          return row?.owner ?? null;
        },
      });
    });
  }
}
