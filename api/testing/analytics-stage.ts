/** The analytics endpoints over real stores, called through their own validation but without a socket. */
import { auditsFrom } from '#api/analytics/audit-turns.ts';
import { analyticsParts } from '#api/analytics/deps.ts';
import { exchangeRatesFrom } from '#api/analytics/exchange-rates.ts';
import { pipelineStateFrom } from '#api/analytics/pipeline-state.ts';
import { analyticsRoutes } from '#api/analytics/routes.ts';
import type { UserCaller } from '#api/route.ts';
import { ClickHouse, type Settings } from '#clickhouse/client.ts';
import { dateOfCountries } from '#common/country-database.ts';
import { type MountedRoute, mountRoutes } from '#common/http/mount.ts';
import { emptyBody } from '#common/http/raw-body.ts';
import { Rejection, statusOf } from '#common/http/rejection.ts';
import { shortUrlWith } from '#common/links/short-url.ts';
import { Postgres } from '#common/stores/postgres.ts';
import { Tenancy } from '#common/stores/tenancy.ts';
import { clickhouseForTest, postgresForTest } from '#testing/servers.ts';
import type { Tenant } from './records.ts';

export interface Reply {
  readonly status: number;
  // biome-ignore lint/suspicious/noExplicitAny: tests inspect responses whose shape is under test
  readonly body: any;
  readonly text: () => Promise<string>;
  /** Of an answer that is not JSON. */
  readonly headers?: Readonly<Record<string, string>>;
}

type Ask = (caller: UserCaller, path: string) => Promise<Reply>;

export interface Stage {
  readonly clickhouse: ClickHouse;
  readonly db: Postgres;
  readonly asOfMs: number;
  /** Path with query, below /v1. */
  readonly get: Ask;
  /** The same stores behind a separate API with an empty cache; with another ClickHouse if given. */
  again(clickhouse?: ClickHouse): Ask;
  stop(): Promise<void>;
}

export const readLimits = { executionSecondsMax: 10, rowsToReadMax: 1_000_000_000, resultRowsMax: 1_000_000 };

export function memberOf(...organizationIds: string[]): UserCaller {
  return {
    kind: 'user',
    user_id: 'usr_00000000000000000000000000',
    memberships: organizationIds.map((organization_id) => ({ organization_id, role: 'viewer' as const })),
  };
}

export async function startStage(nowMs: number, retentionDays = 36_500, limits: Settings = {}): Promise<Stage> {
  const [postgres, store] = await Promise.all([postgresForTest(), clickhouseForTest()]);
  const clickhouse = new ClickHouse({ url: store.url });
  const reader = new ClickHouse({ url: store.url, reads: readLimits });
  const db = new Postgres({ url: postgres.url, name: 'analytics-test' });
  const asOfMs = nowMs - 1_500;
  const tenancy = new Tenancy(db);
  const again = (clickhouse = reader): Ask => {
    const parts = analyticsParts({
      clickhouse,
      asOf: async () => asOfMs,
      auditsSince: auditsFrom(db),
      countriesAsOf: dateOfCountries(''),
      pipelineState: pipelineStateFrom(db, async () => null),
      exchangeRates: exchangeRatesFrom(db),
      retentionDays,
    });
    const routes = mountRoutes({
      routes: analyticsRoutes,
      deps: {
        db,
        tenancy,
        clock: () => nowMs,
        analytics: { ...parts, limits: { ...parts.limits, ...limits } },
        shortUrl: shortUrlWith({ SHORT_LINK_SCHEME: 'http', SHORT_LINK_PORT: 8080 }),
      },
      guard: async () => ({ caller: null, quota: null }),
    });
    return (caller, path) => get(routes, caller, path);
  };
  return {
    clickhouse,
    db,
    asOfMs,
    get: again(),
    again,
    stop: async () => {
      await Promise.all([clickhouse.close(), reader.close(), db.close()]);
      await Promise.all([postgres.stop(), store.stop()]);
    },
  };
}

async function get(routes: readonly MountedRoute[], caller: UserCaller, path: string): Promise<Reply> {
  const [bare = '', queryText = ''] = path.split('?');
  for (const route of routes) {
    const names = route.parameterNames;
    const match = new RegExp(`^${route.guarded.path.replaceAll(/\{\w+\}/g, '([^/]+)')}$`).exec(bare);
    if (!match) continue;
    const params = Object.fromEntries(names.map((name, at) => [name, decodeURIComponent(match[at + 1] ?? '')]));
    const incoming = {
      id: 'req_test',
      ip: '127.0.0.1',
      receivedMs: 0,
      header: () => '',
      queryText,
      readBody: async () => emptyBody,
    };
    const answer = await route.run(incoming, caller, params);
    if (answer instanceof Rejection) {
      return { status: statusOf[answer.code], body: answer.body, text: async () => JSON.stringify(answer.body) };
    }
    if ('body' in answer) {
      const text = JSON.stringify(answer.body);
      return { status: answer.status, body: JSON.parse(text), text: async () => text };
    }
    const text = async () => {
      if ('bytes' in answer) return Buffer.from(answer.bytes).toString();
      const parts: Uint8Array[] = [];
      for await (const part of answer.stream) parts.push(part);
      return Buffer.concat(parts).toString();
    };
    return { status: answer.status, body: null, text, headers: answer.headers ?? {} };
  }
  throw new Error(`there is no route ${bare}`);
}

/** Inserts a tenant's organization, apps and links into Postgres. */
export async function storeTenant(db: Postgres, tenant: Tenant): Promise<void> {
  const { organization_id } = tenant;
  await db.execute('INSERT INTO organizations (id, name) VALUES ($1, $1)', [organization_id]);
  for (const app of tenant.apps) {
    await db.execute(
      `INSERT INTO apps (id, organization_id, name, host, settings, api_key_ciphertext, api_key_hash, api_key_preview, created_at, updated_at)
       VALUES ($1, $2, 'App', $3, '{}', '', $4, '', now(), now())`,
      [app.id, organization_id, `${app.id.slice(4)}.localhost`, Buffer.from(app.id)],
    );
    for (const [at, link] of app.links.entries()) {
      await db.execute(
        `INSERT INTO links (id, organization_id, app_id, short_code, path, campaign, source, title, created_at, updated_at)
         VALUES ($1, $2, $3, $4, '/p', nullif($5, ''), 'dashboard', 'A link', now(), now())`,
        [link.id, organization_id, app.id, `code${at}`, link.campaign],
      );
    }
  }
}
