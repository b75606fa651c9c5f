/** GET /matches and /matches/{match_id}: match decisions and their reasons, for example why an install was organic. */
import { Type } from 'typebox';
import { listAnswer, listSchema, pageOf, pageQuery } from '#api/listing.ts';
import type { UserCaller } from '#api/route.ts';
import { matchById, matchCount, matchPage, type StoredMatch } from '#clickhouse/queries/matches.ts';
import { DAY_MS } from '#common/durations.ts';
import { notFound, Rejection } from '#common/http/rejection.ts';
import { routesOf } from '#common/http/route.ts';
import { isId } from '#common/ids.ts';
import { matchRetentionDaysMax } from '#common/log/match-record.ts';
import { QueryRunner } from './ask.ts';
import type { AnalyticsDeps } from './deps.ts';
import {
  explainedFields,
  matchFields,
  matchInBrief,
  matchInFull,
  matchOutcomes,
  matchTypesShown,
} from './match-answer.ts';
import { commonQuery, oneOf, querySchema } from './parameters.ts';
import { filtersWithin, readQuestion } from './question.ts';

const route = routesOf<AnalyticsDeps, UserCaller>();

const { start, end, interval, timezone, app_id, link_id, platform, organization_id } = commonQuery;

const exampleMatch = {
  match_id: 'mat_01kzg3v5k2e4z9n7q8w6r5t4y3',
  app_id: 'app_01kzg3v5k2e4z9n7q8w6r5t4y3',
  time: '2026-11-20T17:04:05.678Z',
  platform: 'ios',
  outcome: 'low_confidence',
  explanation: 'Refused: the best click has a confidence of 0.52, but the app requires 0.60.',
  match_type: 'none',
  confidence: 0,
  competing_links: 0,
  click_id: null,
  link_id: null,
  device_id: 'device-7',
  install_id: null,
  browser: null,
};

export const listMatches = route({
  method: 'GET',
  path: '/matches',
  operationId: 'listMatches',
  caller: 'user',
  scope: 'analytics:read',
  limit: 'general',
  tag: 'Analytics',
  summary: 'List match decisions',
  description:
    `Every match request of the last ${matchRetentionDaysMax} days with its outcome, including refusals, newest first. ` +
    'Set `end` to keep pages stable while new requests arrive.',
  query: querySchema({
    ...{ start, end, interval, timezone, app_id, link_id, platform, organization_id },
    ...pageQuery,
    outcome: Type.Optional(oneOf(matchOutcomes, 'Only this outcome; `matched` means that a link was matched.')),
    match_type: Type.Optional(oneOf(matchTypesShown, 'Only this type.')),
    device_id: Type.Optional(Type.String({ maxLength: 256, description: 'Requests of one device.' })),
    install_id: Type.Optional(
      Type.String({
        maxLength: 128,
        description: 'Requests of one install, including the match that it referred to.',
      }),
    ),
  }),
  answers: {
    200: {
      description: 'One page.',
      schema: listSchema(Type.Object(matchFields, { title: 'MatchRecord' })),
      example: { data: [exampleMatch], pagination: { total: 1, limit: 50, offset: 0, has_more: false } },
    },
  },
  async handle(deps, { caller, query }) {
    const asked = await readQuestion(deps, caller, query);
    if (asked instanceof Rejection) return asked;
    const scope = { ...asked.scope, start_ms: Math.max(asked.scope.start_ms, oldestMatchMs(deps)) };
    const page = pageOf(query);
    const { outcome, match_type, device_id, install_id } = query;
    const filter = {
      ...(outcome === undefined ? {} : { outcome }),
      ...(match_type === undefined ? {} : { match_type }),
      ...(device_id === undefined ? {} : { device_id }),
      ...(install_id === undefined ? {} : { install_id }),
    };
    const [counted] = rowsOf(await asked.queries.rows<{ n: number }>(matchCount(scope, filter)));
    if (counted instanceof Rejection) return counted;
    const rows = await asked.queries.rows<StoredMatch>(matchPage(scope, filter, page.limit, page.offset));
    if (rows instanceof Rejection) return rows;
    return listAnswer(rows.map(matchInBrief), Number(counted?.n ?? 0), page);
  },
});

function rowsOf<Row>(rows: readonly Row[] | Rejection): readonly (Row | Rejection)[] {
  return rows instanceof Rejection ? [rows] : rows;
}

export const readMatch = route({
  method: 'GET',
  path: '/matches/{match_id}',
  operationId: 'getMatch',
  caller: 'user',
  scope: 'analytics:read',
  limit: 'general',
  tag: 'Analytics',
  summary: 'Explain a match decision',
  description:
    'What the device reported, each click that it was compared with, which factors agreed and disagreed, the settings, and the decision. ' +
    'Available a few seconds after the match.',
  params: Type.Object({ match_id: Type.String() }),
  answers: {
    200: {
      description: 'The match.',
      schema: Type.Object(explainedFields, { title: 'ExplainedMatch' }),
      example: {
        ...exampleMatch,
        ip: '203.0.113.0',
        duration_ms: 2.4,
        settings: {
          attribution_window_hours: 168,
          probabilistic_window_hours: 6,
          min_confidence: 0.6,
          privacy_mode: 'anonymize_ip',
        },
        device: { system: 'ios', os_version: '17.5.1', device_model: 'iphone15,2', languages: ['en-us'] },
        named_clicks: [],
        candidates: [
          {
            click_id: 'clk_01kzg3v5k2e4z9n7q8w6r5t4y3',
            link_id: 'lnk_01kzg3v5k2e4z9n7q8w6r5t4y3',
            clicked_at: '2026-11-20T13:54:05.678Z',
            age_ms: 11_400_000,
            browser: 'Instagram',
            explanation: 'Confidence 0.52 after 3.1 h: address and language agree; OS version differs.',
            gate: null,
            confidence: 0.52,
            factors: [{ factor: 'ip', agreement: 1, points: 40, of: 40 }],
            signals: { system: 'ios', os_version: '17.4', languages: ['en-us'] },
          },
        ],
        candidates_total: 1,
        without_evidence: null,
      },
    },
  },
  async handle(deps, { caller, params }) {
    const absent = notFound('There is no match with this id, it is older than the retention, or it is not stored yet.');
    const organization_ids = caller.memberships.map((membership) => membership.organization_id);
    if (!isId('mat', params.match_id)) return absent;
    const end_ms = deps.clock() + DAY_MS;
    const scope = {
      organization_ids,
      start_ms: oldestMatchMs(deps),
      end_ms,
      filters: filtersWithin(caller, {}),
      include_bots: true,
    };
    const queries = new QueryRunner(deps.analytics, organization_ids[0] ?? caller.user_id);
    const rows = await queries.rows<StoredMatch>(matchById(scope, params.match_id));
    if (rows instanceof Rejection) return rows;
    const [match] = rows;
    return match ? { status: 200, body: matchInFull(match) } : absent;
  },
});

/** Start of the oldest day to show; older matches may not have been dropped yet. */
export function oldestMatchMs({ clock, analytics }: AnalyticsDeps): number {
  const days = Math.min(analytics.retentionDays, matchRetentionDaysMax);
  return Math.max(0, Math.ceil(clock() / DAY_MS - days) * DAY_MS);
}
