/** The progress of a migration: taps on existing links, learned links, and codes that could not be learned. */
import { Type } from 'typebox';
import { absent, tenantOf } from '#api/access.ts';
import type { ApiDeps } from '#api/deps.ts';
import { route } from '#api/route.ts';
import { DAY_MS } from '#common/durations.ts';
import { Rejection } from '#common/http/rejection.ts';
import type { Route } from '#common/http/route.ts';
import { nullable } from '#common/links/link-fields.ts';
import type { TenantQueries } from '#common/stores/tenancy.ts';
import { type UnlearnedReason, unlearnedReasons } from './old-provider.ts';
import { UNLEARNED_CODES_MAX, UNLEARNED_DAYS_MAX } from './unlearned-codes.ts';

const DAYS_DEFAULT = 7;
const CODES_SHOWN_MAX = 100;

const movedApp = `
  SELECT id, organization_id, coalesce(jsonb_typeof(settings -> 'migration') = 'object', false) AS is_on FROM apps
   WHERE organization_id = ANY ($1) AND id = $2 AND deleted_at IS NULL`;
const learnedByDay = `
  SELECT to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD') AS day, count(*)::float8 AS count FROM links
   WHERE organization_id = ANY ($1) AND app_id = $2 AND created_at >= $3 AND source = 'learned' AND deleted_at IS NULL GROUP BY 1`;
/** Rejected long links have names that are not codes; the empty code sums the visits beyond the limit. */
const orphansByDay = `
  SELECT to_char(day, 'YYYY-MM-DD') AS day, sum(visits)::float8 AS count FROM orphan_visits
   WHERE organization_id = ANY ($1) AND app_id = $2 AND day >= $3::date AND short_code NOT LIKE '?%' GROUP BY 1`;
const reasonsAsked = `
  SELECT reason, sum(asks)::float8 AS asks FROM unlearned_counts
   WHERE organization_id = ANY ($1) AND app_id = $2 AND day >= $3::date GROUP BY reason ORDER BY asks DESC, reason`;
/** Codes that have a link by now are no longer missing. */
const missing = `
  FROM unlearned_codes u WHERE u.organization_id = ANY ($1) AND u.app_id = $2 AND u.last_at >= $3
   AND NOT EXISTS (SELECT FROM links l WHERE l.app_id = u.app_id AND l.short_code = u.short_code AND l.deleted_at IS NULL)
   AND NOT EXISTS (SELECT FROM link_codes c WHERE c.app_id = u.app_id AND c.code = u.short_code)`;
const missingTotal = `SELECT count(*)::integer AS total ${missing}`;
const missingCodes = `
  SELECT u.short_code, u.reason, u.detail, u.asks, u.last_at,
         (SELECT coalesce(sum(o.visits), 0)::float8 FROM orphan_visits o
           WHERE o.app_id = u.app_id AND o.day >= $3::date AND o.short_code = u.short_code) AS visits ${missing}
   ORDER BY visits DESC, u.last_at DESC, u.short_code LIMIT ${CODES_SHOWN_MAX}`;

interface CountOfDay {
  readonly day: string;
  readonly count: number;
}

interface MissingCode {
  readonly short_code: string;
  readonly reason: UnlearnedReason;
  readonly detail: string | null;
  readonly asks: number;
  readonly visits: number;
  readonly last_at: Date;
}

const reason = Type.Unsafe<UnlearnedReason>({
  type: 'string',
  enum: [...unlearnedReasons],
  description:
    'unknown: the old service has no such link, or answers every code in the same way. page: it shows a page instead of redirecting. refused: it returned another status, or its answers to codes that do not exist vary. no_location, bad_destination: it redirects to nothing that a link can lead to. foreign_host: it redirects to a host that is not in destination_hosts. own_host: it redirects back to the app’s host. deleted: a link with this code was deleted here. limit: too many codes in a minute or a day. timeout, address_not_allowed, name_not_resolved, tls_failed, connection_failed: it could not be reached.',
});
const count = Type.Integer();
const taps = {
  here: Type.Integer({ description: 'Clicks on links that already existed here.' }),
  learned: Type.Integer({
    description: 'Links learned from the old service at a first visit; each counts as one tap.',
  }),
  not_here: Type.Integer({ description: 'Visits to codes without a link.' }),
};

interface Report {
  readonly days: readonly { day: string; here: number; learned: number; not_here: number }[];
  readonly reasons: readonly { reason: UnlearnedReason; asks: number }[];
  readonly codes: readonly MissingCode[];
  readonly codes_total: number;
}

export const readMigration = route({
  method: 'GET',
  path: '/apps/{app_id}/migration',
  operationId: 'getMigration',
  caller: 'user',
  scope: 'analytics:read',
  limit: 'general',
  tag: 'Apps',
  summary: 'Get the progress of a migration from another service',
  description: `Counts visits by people (not bots), by day in UTC. Redirectors report visits to unknown codes every ten seconds. Of the last ${UNLEARNED_CODES_MAX} codes that could not be learned and still have no link, the ${CODES_SHOWN_MAX} most visited are shown.`,
  params: Type.Object({ app_id: Type.String({ examples: ['app_01j9z3k4m5n6p7q8r9s0t1v2w3'] }) }),
  query: Type.Object(
    {
      days: Type.Optional(
        Type.Integer({
          minimum: 1,
          maximum: UNLEARNED_DAYS_MAX,
          description: `Number of days, including today; default ${DAYS_DEFAULT}.`,
        }),
      ),
    },
    { additionalProperties: false },
  ),
  answers: {
    200: {
      description: 'Taps by day, and the codes that are still missing.',
      schema: Type.Object(
        {
          app_id: Type.String(),
          is_on: Type.Boolean({ description: 'Whether unknown codes are currently looked up at the old service.' }),
          taps: Type.Object({
            ...taps,
            share_here: nullable(Type.Number({ description: 'here / (here + learned + not_here). null: no taps.' })),
          }),
          days: Type.Array(Type.Object({ day: Type.String(), ...taps })),
          reasons: Type.Array(Type.Object({ reason, asks: count })),
          codes: Type.Array(
            Type.Object({
              short_code: Type.String(),
              reason,
              detail: nullable(Type.String({ description: 'The status, the host, or what went wrong.' })),
              asks: Type.Integer({ description: 'Number of requests to the old service.' }),
              visits: count,
              last_at: Type.String({ format: 'date-time' }),
            }),
          ),
          codes_total: count,
        },
        { title: 'Migration' },
      ),
      example: {
        app_id: 'app_01j9z3k4m5n6p7q8r9s0t1v2w3',
        is_on: true,
        taps: { here: 9_500, learned: 300, not_here: 200, share_here: 0.95 },
        days: [{ day: '2026-01-15', here: 9_500, learned: 300, not_here: 200 }],
        reasons: [{ reason: 'foreign_host', asks: 3 }],
        codes: [
          {
            ...{ short_code: 'sumer', reason: 'foreign_host', detail: 'blog.example.com', asks: 3, visits: 120 },
            last_at: '2026-01-15T09:30:00.000Z',
          },
        ],
        codes_total: 1,
      },
    },
  },
  async handle(deps, { caller, params, query }) {
    const days = lastDays(deps.clock(), query.days ?? DAYS_DEFAULT);
    const app = await deps.tenancy.within(tenantOf(caller), (tenant) => findMoved(tenant, params.app_id));
    if (app instanceof Rejection) return app;
    const clicks = await deps.clicksOfApp(app, days);
    if (clicks instanceof Rejection) return clicks;
    const { codes, ...report } = await deps.tenancy.within(tenantOf(caller), (tenant) =>
      reportOf(tenant, app.id, days, clicks),
    );
    const sum = (name: keyof typeof taps) => report.days.reduce((all, day) => all + day[name], 0);
    const [here, learned, not_here] = [sum('here'), sum('learned'), sum('not_here')];
    const total = here + learned + not_here;
    return {
      status: 200,
      body: {
        app_id: app.id,
        is_on: app.is_on,
        taps: { here, learned, not_here, share_here: total === 0 ? null : here / total },
        ...report,
        codes: codes.map((code) => ({ ...code, last_at: code.last_at.toISOString() })),
      },
    };
  },
});

/** Starts of days in UTC, epoch milliseconds, oldest first. */
function lastDays(nowMs: number, days: number): number[] {
  const today = Math.floor(nowMs / DAY_MS);
  return Array.from({ length: days }, (_, at) => (today - days + 1 + at) * DAY_MS);
}

const nameOfDay = (ms: number) => new Date(ms).toISOString().slice(0, 10);

interface MovedApp {
  readonly id: string;
  readonly organization_id: string;
  readonly is_on: boolean;
}

async function findMoved(tenant: TenantQueries, id: string): Promise<MovedApp | Rejection> {
  const [app] = await tenant.query<MovedApp>(movedApp, [id]);
  return app ?? absent(tenant, 'app', id);
}

/** @param clicks clicks of people, by the start of their day. */
async function reportOf(
  tenant: TenantQueries,
  appId: string,
  days: readonly number[],
  clicks: ReadonlyMap<number, number>,
): Promise<Report> {
  const since = new Date(days[0] ?? 0);
  const byDay = async (sql: string) =>
    new Map((await tenant.query<CountOfDay>(sql, [appId, since])).map(({ day, count }) => [day, count]));
  const learned = await byDay(learnedByDay);
  const orphans = await byDay(orphansByDay);
  const [all] = await tenant.query<{ total: number }>(missingTotal, [appId, since]);
  return {
    days: days.map((ms) => {
      const day = nameOfDay(ms);
      const ofDay = learned.get(day) ?? 0;
      // The click of a first visit may not be stored yet.
      const here = Math.max((clicks.get(ms) ?? 0) - ofDay, 0);
      return { day, here, learned: ofDay, not_here: orphans.get(day) ?? 0 };
    }),
    reasons: await tenant.query(reasonsAsked, [appId, since]),
    codes: await tenant.query<MissingCode>(missingCodes, [appId, since]),
    codes_total: all?.total ?? 0,
  };
}

export const migrationRoutes: readonly Route<ApiDeps>[] = [readMigration];
