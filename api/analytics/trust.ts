/**
 * GET /trust: whether the statistics can be trusted: how current they are, what the hourly audits found, and what was
 * rejected.
 */
import { Type } from 'typebox';
import { organizationsOf } from '#api/access.ts';
import type { UserCaller } from '#api/route.ts';
import type { AuditFigures } from '#clickhouse/queries/audit.ts';
import { deadLettersOf, type RefusedRecords } from '#clickhouse/queries/dead-letters.ts';
import { DAY_MS, HOUR_MS } from '#common/durations.ts';
import { Rejection } from '#common/http/rejection.ts';
import { routesOf } from '#common/http/route.ts';
import { QueryRunner } from './ask.ts';
import type { AuditedHour } from './audit-turns.ts';
import type { AnalyticsDeps } from './deps.ts';
import { pipelineSchema } from './pipeline-state.ts';

const route = routesOf<AnalyticsDeps, UserCaller>();

/** Audit results are kept for the same time. */
const daysShown = 30;
const reasonsMax = 50;

const time = Type.String({ format: 'date-time' });
const nullableTime = Type.Unsafe<string | null>({ type: ['string', 'null'], format: 'date-time' });
const counts = {
  lost: Type.Integer({ description: 'Gaps in the sequence numbers of clicks: the minimum number of missing clicks.' }),
  duplicated: Type.Integer({ description: 'Records that are stored twice.' }),
  rollup_difference: Type.Integer({ description: 'Figures that differ from the sum of their records.' }),
};

export const trust = route({
  method: 'GET',
  path: '/trust',
  operationId: 'getTrust',
  caller: 'user',
  scope: null,
  limit: 'general',
  tag: 'Analytics',
  summary: 'Get the reliability of the statistics',
  description:
    'How current the statistics are, what the audits of the last 30 days found, which of your records were rejected, and the state of the pipeline from visit to statistics. Audits and the pipeline cover the whole installation.',
  answers: {
    200: {
      description: 'The reliability of the statistics.',
      schema: Type.Object(
        {
          as_of: time,
          lag_seconds: Type.Union([Type.Number(), Type.Null()], {
            description: 'How far behind the statistics are; null if nothing was stored yet.',
          }),
          audit: Type.Object(
            {
              ...counts,
              hours: Type.Integer({ description: 'Hours that were audited in the last 30 days.' }),
              hours_with_faults: Type.Integer(),
              audited_to: nullableTime,
              days: Type.Array(
                Type.Object(
                  { date: Type.String({ format: 'date' }), hours: Type.Integer(), faults: Type.Integer() },
                  { title: 'AuditedDay' },
                ),
                { description: 'The days (UTC) of the last 30 on which hours were audited, oldest first.' },
              ),
            },
            { title: 'AuditSummary' },
          ),
          refused: Type.Object(
            {
              records: Type.Integer({ description: 'Your records of the last 30 days that could not be stored.' }),
              reasons: Type.Array(
                Type.Object(
                  { kind: Type.String(), reason: Type.String(), records: Type.Integer(), last_at: time },
                  { title: 'RefusedRecords' },
                ),
              ),
            },
            { title: 'RefusedSummary' },
          ),
          countries_as_of: Type.Unsafe<string | null>({
            type: ['string', 'null'],
            format: 'date-time',
            description: 'When the data were made that say in which country a visitor is; null if they cannot be read.',
          }),
          pipeline: pipelineSchema,
        },
        { title: 'Trust' },
      ),
      example: {
        as_of: '2026-11-22T09:59:58.000Z',
        lag_seconds: 2,
        audit: {
          ...{ lost: 0, duplicated: 0, rollup_difference: 0, hours: 24, hours_with_faults: 0 },
          audited_to: '2026-11-22T09:00:00.000Z',
          days: [{ date: '2026-11-21', hours: 24, faults: 0 }],
        },
        refused: { records: 0, reasons: [] },
        countries_as_of: '2026-11-01T00:00:00.000Z',
        pipeline: {
          machines: { count: 2, silent: 0 },
          storing: { parts: 8, owned: 8, processes: 2 },
          log: { bytes: 1_200_000_000, bytes_max: 8_589_934_592, copies: 3, copies_current: 3 },
        },
      },
    },
  },
  async handle({ clock, analytics }, { caller }) {
    const nowMs = clock();
    const mine = organizationsOf(caller);
    const queries = new QueryRunner(analytics, mine[0] ?? caller.user_id);
    const asOfMs = await queries.asOf();
    const audits = await analytics.auditsSince(nowMs - daysShown * DAY_MS);
    const refused = await queries.rows<RefusedRecords>(deadLettersOf(mine, nowMs - daysShown * DAY_MS, reasonsMax));
    if (refused instanceof Rejection) return refused;
    const pipeline = await analytics.pipelineState();
    return {
      status: 200,
      body: {
        as_of: new Date(asOfMs).toISOString(),
        lag_seconds: asOfMs === 0 ? null : Math.max(0, nowMs - asOfMs) / 1000,
        audit: summaryOf(audits),
        refused: {
          records: refused.reduce((sum, { records }) => sum + Number(records), 0),
          reasons: refused.map(({ kind, reason, records, last_ms }) => ({
            kind,
            reason,
            records: Number(records),
            last_at: new Date(Number(last_ms)).toISOString(),
          })),
        },
        countries_as_of: analytics.countriesAsOf,
        pipeline,
      },
    };
  },
});

const faultsOf = ({ lost, duplicated, rollup_difference }: AuditFigures) => lost + duplicated + rollup_difference;

function summaryOf(audits: readonly AuditedHour[]) {
  const sum = (name: keyof AuditFigures) => audits.reduce((total, { figures }) => total + figures[name], 0);
  const days = new Map<string, { hours: number; faults: number }>();
  for (const { hour, figures } of audits) {
    const date = new Date(hour).toISOString().slice(0, 10);
    const day = days.get(date) ?? { hours: 0, faults: 0 };
    days.set(date, { hours: day.hours + 1, faults: day.faults + faultsOf(figures) });
  }
  const last = audits.at(-1);
  return {
    lost: sum('lost'),
    duplicated: sum('duplicated'),
    rollup_difference: sum('rollup_difference'),
    hours: audits.length,
    hours_with_faults: audits.filter(({ figures }) => faultsOf(figures) > 0).length,
    audited_to: last ? new Date(last.hour + HOUR_MS).toISOString() : null,
    days: [...days].map(([date, day]) => ({ date, ...day })),
  };
}
