/**
 * GET /analytics/match-quality: precision and recall of matching by score, measured with the app's own installs that
 * have a certain click.
 */
import { Type } from 'typebox';
import type { UserCaller } from '#api/route.ts';
import { knownTruths, matchQuality, type QualityRow, type TruthRow } from '#clickhouse/queries/match-quality.ts';
import type { Scope } from '#clickhouse/queries/scope.ts';
import { isoTime } from '#common/clock.ts';
import { DAY_MS } from '#common/durations.ts';
import { Rejection } from '#common/http/rejection.ts';
import { routesOf } from '#common/http/route.ts';
import { decideAgain, type OtherSettings } from '#common/match/decision-again.ts';
import type { QueryRunner } from './ask.ts';
import type { AnalyticsDeps } from './deps.ts';
import { detailOf } from './match-answer.ts';
import { oldestMatchMs } from './matches.ts';
import { commonQuery, querySchema } from './parameters.ts';
import { readQuestion } from './question.ts';

const route = routesOf<AnalyticsDeps, UserCaller>();
/** With fewer matches, a ratio is meaningless. */
const ratioCountMin = 20;
/** Maximum decisions to recompute; each parses a record of a few kilobytes. */
const decidedAgainMax = 5_000;
const decidedAtOnce = 250;
const whatIfDays = 30;

const ratio = Type.Union([Type.Number(), Type.Null()]);
const counts = {
  right: Type.Integer(),
  wrong: Type.Integer(),
  missed: Type.Integer(),
  precision: ratio,
  recall: ratio,
};

interface Counts {
  right: number;
  wrong: number;
  missed: number;
}

export const readMatchQuality = route({
  method: 'GET',
  path: '/analytics/match-quality',
  operationId: 'getMatchQuality',
  caller: 'user',
  scope: 'analytics:read',
  limit: 'general',
  tag: 'Analytics',
  summary: 'Measure the accuracy of matching by score',
  description:
    'Uses matches where the device named its click (click id, Play referrer, clipboard), and compares that click with what matching by score would have decided. `precision` is right / (right + wrong), `recall` is right / all, ' +
    `both null below ${ratioCountMin} matches. With window_hours or min_confidence, the decisions of the last ${whatIfDays} days are recomputed with these settings.`,
  query: querySchema({
    ...{ start: commonQuery.start, end: commonQuery.end, interval: commonQuery.interval },
    ...{ timezone: commonQuery.timezone, app_id: commonQuery.app_id, organization_id: commonQuery.organization_id },
    window_hours: Type.Optional(Type.Number({ minimum: 0, maximum: 168 })),
    min_confidence: Type.Optional(Type.Number({ minimum: 0, maximum: 1 })),
  }),
  answers: {
    200: {
      description: 'Counts, and ratios if there are enough matches.',
      schema: Type.Object(
        {
          start: Type.String(),
          end: Type.String(),
          totals: Type.Object(counts),
          by_confidence: Type.Array(
            Type.Object({ from: Type.Number(), right: Type.Integer(), wrong: Type.Integer(), precision: ratio }),
          ),
          by_platform: Type.Array(Type.Object({ platform: Type.String(), ...counts })),
          by_browser: Type.Array(Type.Object({ browser: Type.Union([Type.String(), Type.Null()]), ...counts })),
          what_if: Type.Union([
            Type.Object({ ...counts, unknown: Type.Integer(), is_sample: Type.Boolean() }),
            Type.Null(),
          ]),
        },
        { title: 'MatchQuality' },
      ),
    },
  },
  async handle(deps, { caller, query }) {
    const asked = await readQuestion(deps, caller, query);
    if (asked instanceof Rejection) return asked;
    const scope = { ...asked.scope, start_ms: Math.max(asked.scope.start_ms, oldestMatchMs(deps)) };
    const rows = await asked.queries.rows<QualityRow>(matchQuality(scope));
    if (rows instanceof Rejection) return rows;
    const { window_hours, min_confidence } = query;
    const other = {
      ...(window_hours === undefined ? {} : { window_hours }),
      ...(min_confidence === undefined ? {} : { min_confidence }),
    };
    const nowMs = deps.clock();
    const recent = {
      ...scope,
      start_ms: Math.max(scope.start_ms, nowMs - whatIfDays * DAY_MS),
      end_ms: nowMs + DAY_MS,
    };
    const what_if = Object.keys(other).length === 0 ? null : await whatIf(asked.queries, recent, other);
    if (what_if instanceof Rejection) return what_if;
    return {
      status: 200,
      body: {
        start: isoTime(scope.start_ms),
        end: isoTime(scope.end_ms),
        totals: withRatios(summed(rows)),
        by_confidence: grouped(
          rows.filter(({ band }) => band >= 0),
          ({ band }) => String(band),
        ).map(([band, sum]) => {
          const { right, wrong } = sum;
          return { from: Number(band) / 10, right, wrong, precision: ratioOf(right, right + wrong) };
        }),
        by_platform: grouped(rows, (row) => row.platform).map(([platform, sum]) => ({ platform, ...withRatios(sum) })),
        by_browser: grouped(rows, (row) => row.browser).map(([browser, sum]) => ({
          browser: browser === '' ? null : browser,
          ...withRatios(sum),
        })),
        what_if,
      },
    };
  },
});

async function whatIf(queries: QueryRunner, scope: Scope, other: OtherSettings): Promise<object | Rejection> {
  const rows = await queries.rows<TruthRow>(knownTruths(scope, decidedAgainMax + 1));
  if (rows instanceof Rejection) return rows;
  const sum = { right: 0, wrong: 0, missed: 0 };
  let unknown = 0;
  for (const [at, row] of rows.slice(0, decidedAgainMax).entries()) {
    // Yields to the event loop, so that other requests are answered in between.
    if (at % decidedAtOnce === 0) await new Promise((done) => setImmediate(done));
    const decision = decideAgain(detailOf(row), other);
    if (decision.state === 'unknown') unknown++;
    else if (decision.state === 'refused') sum.missed++;
    else if (decision.link_id === row.link_id) sum.right++;
    else sum.wrong++;
  }
  return { ...withRatios(sum), unknown, is_sample: rows.length > decidedAgainMax };
}

function summed(rows: readonly QualityRow[]): Counts {
  const sum = { right: 0, wrong: 0, missed: 0 };
  for (const { right, wrong, missed } of rows) {
    sum.right += Number(right);
    sum.wrong += Number(wrong);
    sum.missed += Number(missed);
  }
  return sum;
}

function grouped(rows: readonly QualityRow[], keyOf: (row: QualityRow) => string): [string, Counts][] {
  const groups = new Map<string, QualityRow[]>();
  for (const row of rows) groups.set(keyOf(row), [...(groups.get(keyOf(row)) ?? []), row]);
  return [...groups].map(([key, own]): [string, Counts] => [key, summed(own)]).sort(([a], [b]) => (a < b ? -1 : 1));
}

function withRatios(sum: Counts): object {
  const { right, wrong, missed } = sum;
  return { ...sum, precision: ratioOf(right, right + wrong), recall: ratioOf(right, right + wrong + missed) };
}

function ratioOf(part: number, whole: number): number | null {
  return whole < ratioCountMin ? null : Math.round((part / whole) * 1e4) / 1e4;
}
