/** The links and apps of an organization as far as some destinations lead to them, read before the change is stored. */

import { ruleDestinations } from '#common/links/link-rule.ts';
import {
  type LinkedApp,
  type LinkedAppRow,
  type LinkSnapshot,
  type LinkSnapshotRow,
  linkedAppOf,
  linkSnapshotOf,
} from '#common/links/link-snapshot.ts';
import { isLongLink } from '#common/links/long-link.ts';
import { codeOfPath, lowerCode } from '#common/links/short-code.ts';

/** Bound to organizations: `$1`. */
export interface OwnQueries {
  query<Row extends object>(sql: string, values?: readonly unknown[]): Promise<readonly Row[]>;
}

/** A link as it will be; a new one has a made-up id. */
export interface GivenLink extends LinkSnapshot {
  readonly other_codes: readonly string[];
}

/** Lookups in a row, and links read at once. */
const DEPTH_MAX = 12;
const LINKS_MAX = 1_000;

const appColumns = 'id, organization_id, host, ios, android, fallback_url, settings';
const appsAt = `SELECT ${appColumns} FROM apps
  WHERE organization_id = ANY ($1) AND (host = ANY ($2) OR id = ANY ($3)) AND deleted_at IS NULL`;
const linkColumns = `l.id, l.app_id, l.short_code, l.archived, l.ios_url, l.android_url, l.fallback_url, l.expires_at, l.expired_url,
  l.rules, l.max_clicks`;
const linksAt = `
  SELECT k.code, ${linkColumns} FROM unnest($2::text[], $3::text[]) AS k (app_id, code)
    JOIN links l ON l.organization_id = ANY ($1) AND l.app_id = k.app_id AND l.short_code = k.code AND l.deleted_at IS NULL
  UNION ALL
  SELECT k.code, ${linkColumns} FROM unnest($2::text[], $3::text[]) AS k (app_id, code)
    JOIN link_codes c ON c.organization_id = ANY ($1) AND c.app_id = k.app_id AND c.code = k.code
    JOIN links l ON l.organization_id = ANY ($1) AND l.id = c.link_id AND l.deleted_at IS NULL`;

/** What no destination depends on. */
const noFields = {
  ...{ campaign: null, title: null, og_title: null, og_description: null, og_image_url: null, tap_page: null },
  ...{ utm_source: null, utm_medium: null, utm_campaign: null, utm_term: null, utm_content: null },
  password_hash: null,
};

/** A link that is about to be stored, as far as its destinations decide. @param link with its values as they will be stored. */
export function givenLink(
  link: Pick<LinkSnapshot, 'id' | 'app_id'> &
    Partial<Omit<LinkSnapshotRow, 'expires_at'>> & {
      readonly expires_at?: Date | string | null;
      readonly other_codes?: readonly string[];
    },
): GivenLink {
  const { id, app_id, short_code = '', archived = false, other_codes = [] } = link;
  const { ios_url, android_url, fallback_url, expired_url, rules, max_clicks, expires_at } = link;
  return {
    ...noFields,
    ...{ id, app_id, short_code, archived, other_codes },
    ios_url: ios_url ?? null,
    android_url: android_url ?? null,
    fallback_url: fallback_url ?? null,
    expired_url: expired_url ?? null,
    rules: rules ?? null,
    max_clicks: max_clicks ?? null,
    expires_at: expires_at == null ? null : new Date(expires_at).getTime(),
  };
}

export class OwnLinks {
  readonly #queries: OwnQueries;
  readonly #appsById = new Map<string, LinkedApp>();
  /** Null: no host of the organization. */
  readonly #appsByHost = new Map<string, LinkedApp | null>();
  /** By app and code; null: no link. */
  readonly #links = new Map<string, LinkSnapshot | null>();
  readonly #given: ReadonlySet<string>;

  static async load(queries: OwnQueries, links: readonly GivenLink[], apps: readonly LinkedApp[]): Promise<OwnLinks> {
    const own = new OwnLinks(queries, links, apps);
    const owners = [...new Set(links.map(({ app_id }) => app_id))];
    let urls = [...links.flatMap(urlsOf), ...apps.flatMap(({ fallback_url }) => fallback_url ?? [])];
    for (let depth = 0; depth < DEPTH_MAX; depth++) {
      const added = await own.#loadApps(urls, depth === 0 ? owners : []);
      if (depth === 0) for (const link of links) own.#addGiven(link);
      urls = [
        ...added.flatMap(({ fallback_url }) => fallback_url ?? []),
        ...(await own.#loadLinks(urls)).flatMap(urlsOf),
      ];
      if (urls.length === 0 || own.#links.size > LINKS_MAX + links.length) break;
    }
    return own;
  }

  private constructor(queries: OwnQueries, links: readonly GivenLink[], apps: readonly LinkedApp[]) {
    this.#queries = queries;
    this.#given = new Set(links.map(({ id }) => id));
    for (const app of apps) this.#addApp(app);
  }

  appOf(id: string): LinkedApp | undefined {
    return this.#appsById.get(id);
  }

  /** Where a URL leads on one of these hosts; null if it leads elsewhere, or nowhere. */
  at(url: string): { readonly link: LinkSnapshot | null; readonly app: LinkedApp } | null {
    const { hostname, pathname, search } = new URL(url);
    const app = this.#appsByHost.get(hostname) ?? null;
    // The link of a long link may not exist yet.
    if (app === null || isLongLink(app, pathname, search.slice(1))) return null;
    if (pathname === '/') return { link: null, app };
    const key = keyOf(app, pathname);
    const link = key === null ? null : (this.#links.get(key) ?? null);
    return link && { link, app };
  }

  #addGiven(link: GivenLink): void {
    const app = this.#appsById.get(link.app_id);
    if (app === undefined) return;
    for (const code of [link.short_code, ...link.other_codes])
      if (code !== '') this.#links.set(keyOfCode(app, code), link);
  }

  #addApp(app: LinkedApp): void {
    this.#appsById.set(app.id, app);
    this.#appsByHost.set(app.host, app);
  }

  async #loadApps(urls: readonly string[], ids: readonly string[]): Promise<LinkedApp[]> {
    const hosts = [...new Set(urls.map((url) => new URL(url).hostname))].filter((host) => !this.#appsByHost.has(host));
    const missing = ids.filter((id) => !this.#appsById.has(id));
    if (hosts.length + missing.length === 0) return [];
    const rows = await this.#queries.query<Omit<LinkedAppRow, 'pages'>>(appsAt, [hosts, missing]);
    const apps = rows.map((row) => linkedAppOf({ ...row, pages: null })).filter(({ id }) => !this.#appsById.has(id));
    for (const app of apps) this.#addApp(app);
    for (const host of hosts) if (!this.#appsByHost.has(host)) this.#appsByHost.set(host, null);
    return apps;
  }

  async #loadLinks(urls: readonly string[]): Promise<LinkSnapshot[]> {
    const wanted = new Map<string, readonly [appId: string, code: string]>();
    for (const url of urls) {
      const { hostname, pathname } = new URL(url);
      const app = this.#appsByHost.get(hostname) ?? null;
      const key = app && keyOf(app, pathname);
      if (app && key && !this.#links.has(key)) wanted.set(key, [app.id, key.slice(app.id.length + 1)]);
    }
    if (wanted.size === 0) return [];
    const places = [...wanted.values()];
    const rows = await this.#queries.query<LinkSnapshotRow & { readonly code: string }>(linksAt, [
      places.map(([appId]) => appId),
      places.map(([, code]) => code),
    ]);
    // A given link has its codes already, and may lose one.
    const others = rows.filter(({ id }) => !this.#given.has(id));
    const found = new Map(
      others.map(({ code, ...row }) => [`${row.app_id} ${code}`, linkSnapshotOf({ ...noFields, ...row })]),
    );
    for (const key of wanted.keys()) this.#links.set(key, found.get(key) ?? null);
    return [...found.values()];
  }
}

function keyOf(app: LinkedApp, path: string): string | null {
  const code = codeOfPath(path);
  return code === null ? null : keyOfCode(app, code);
}

function keyOfCode(app: LinkedApp, code: string): string {
  return `${app.id} ${app.codes_ignore_case ? lowerCode(code) : code}`;
}

function urlsOf({ ios_url, android_url, fallback_url, expired_url, rules }: LinkSnapshot): string[] {
  const urls = [ios_url, android_url, fallback_url, expired_url, ...ruleDestinations(rules).map(({ url }) => url)];
  return urls.filter((url): url is string => url !== null && URL.canParse(url));
}
