import { Type } from 'typebox';
import { absent, tenantOf } from '#api/access.ts';
import { readExplainedLink } from '#api/explained-link.ts';
import { type ExplainedRule, explainLink, type LinkExplanation, PLACEHOLDER_CLICK_ID } from '#api/link-explanation.ts';
import { route } from '#api/route.ts';
import { Rejection } from '#common/http/rejection.ts';
import { linkExample } from '#common/links/link.ts';
import type { RuleCondition } from '#common/redirect/compiled-rules.ts';
import { isStorableTime } from '#common/storable-time.ts';
import { linkParams } from './read.ts';

const rules: readonly ExplainedRule[] = [
  ...(['link.ios_url', 'link.android_url', 'link.fallback_url', 'app.fallback_url'] as const),
  ...(['app.ios.app_store_id', 'app.android.package_name', 'link.expired_url', 'link.expires_at'] as const),
  ...(['link.archived', 'link.og', 'link.rules', 'link.password', 'link.max_clicks'] as const),
  ...(['host_not_verified', 'none'] as const),
];
const conditions: readonly RuleCondition[] = [
  ...(['country', 'platform', 'os_version_min', 'os_version_max', 'browser', 'language'] as const),
  ...(['after', 'before', 'weekdays', 'variants'] as const),
];
const outcomes: readonly LinkExplanation['outcome'][] = [
  ...(['redirect', 'tap_page', 'preview', 'expired', 'gone', 'not_found', 'password'] as const),
];
const evidence: readonly LinkExplanation['match']['certain_by'][number][] = [
  ...(['url', 'click_id', 'install_referrer', 'clipboard_url'] as const),
];

function choiceOf<T extends string>(values: readonly T[], description: string) {
  return Type.Unsafe<T>({ type: 'string', enum: [...values], description });
}

const body = Type.Object(
  {
    user_agent: Type.String({
      maxLength: 2_048,
      description: 'User agent of the visitor. Empty: a visitor who sends none.',
    }),
    language: Type.Optional(Type.String({ maxLength: 256, description: 'The Accept-Language header.' })),
    country: Type.Optional(
      Type.String({
        maxLength: 64,
        description:
          'Country of the visitor (ISO 3166 alpha-2), for links with rules by country. It is not derived from the address.',
      }),
    ),
    ip: Type.Optional(
      Type.String({
        anyOf: [
          { type: 'string', format: 'ipv4' },
          { type: 'string', format: 'ipv6' },
        ],
        description:
          'IP address of the visitor, for links with variants: address and user agent together select the variant.',
      }),
    ),
    at: Type.Optional(
      Type.String({ format: 'date-time', description: 'The time of the visit, from 1970 to 9999. Default: now.' }),
    ),
    installed: Type.Optional(Type.Boolean({ description: 'Whether the app is on the device.' })),
    accept: Type.Optional(
      Type.String({ maxLength: 256, description: 'The Accept header; default: that of a browser.' }),
    ),
    query: Type.Optional(
      Type.String({
        maxLength: 2_048,
        pattern: '^[^?#]',
        description: 'Query parameters of the visit, without the question mark.',
      }),
    ),
  },
  { additionalProperties: false },
);

const explanation = Type.Object(
  {
    url: Type.String(),
    platform: choiceOf(
      ['ios', 'android', 'other'] as const,
      'The platform that decides the destination; other includes desktops.',
    ),
    is_bot: Type.Boolean(),
    outcome: choiceOf(outcomes, 'What the visitor gets.'),
    rule: choiceOf(rules, 'The field that decided the destination.'),
    rule_index: Type.Union([Type.Integer(), Type.Null()], { description: 'The link’s rule that decided.' }),
    variant: Type.Union([Type.Integer(), Type.Null()], { description: 'The variant of the rule.' }),
    rule_id: Type.Union([Type.String(), Type.Null()], {
      description:
        'The value of `rule` in statistics for such a visit, derived from the conditions and the destination.',
    }),
    rules_passed_over: Type.Array(
      Type.Object({
        index: Type.Integer(),
        condition: choiceOf(conditions, 'The first condition that does not hold.'),
      }),
      { description: 'The rules before the one that decided.' },
    ),
    status: Type.Integer(),
    location: Type.Union([Type.String(), Type.Null()], {
      description: `Where the visitor is redirected. ${PLACEHOLDER_CLICK_ID} stands for the id of a real click.`,
    }),
    headers: Type.Unsafe<Record<string, string>>({
      ...{ type: 'object', description: 'Of the answer.', additionalProperties: { type: 'string' } },
    }),
    association: Type.Object({
      file: Type.Union([Type.String(), Type.Null()], {
        description: 'The association file that the platform reads from this host.',
      }),
      status: Type.Union([Type.Integer(), Type.Null()]),
      opens_app: Type.Boolean({ description: 'Whether the platform opens the link in the app, if it is installed.' }),
    }),
    match: Type.Object({
      possible: Type.Boolean({ description: 'Whether a device can be matched to the click of such a visit later.' }),
      certain_by: Type.Array(choiceOf(evidence, 'Evidence that the app can send.')),
      by_signals_hours: Type.Integer({
        description: 'Hours after the click within which a device is matched without evidence; 0: never.',
      }),
    }),
    sentences: Type.Array(Type.String(), { description: 'The explanation as sentences.' }),
  },
  { title: 'LinkExplanation' },
);

export const explainLinkRoute = route({
  method: 'POST',
  path: '/links/{id}/explain',
  operationId: 'explainLink',
  caller: 'user',
  scope: 'links:read',
  isRead: true,
  limit: 'general',
  tag: 'Links',
  summary: 'Explain where a link leads a visitor, and why',
  description:
    'Simulates a visit with the same code that the redirector runs. Nothing is recorded. Uses the link as it is now; redirectors pick up changes within a second.',
  params: linkParams,
  body,
  bodyFaults: ({ at }) =>
    typeof at === 'string' && !isStorableTime(at) ? [{ field: 'at', message: 'must be a time from 1970 to 9999' }] : [],
  bodyExample: {
    user_agent: 'Mozilla/5.0 (Linux; Android 14; Pixel 8) AppleWebKit/537.36 Chrome/126.0 Mobile Safari/537.36',
    installed: false,
  },
  answers: {
    200: {
      description: 'The explanation.',
      schema: explanation,
      example: {
        url: linkExample.url,
        platform: 'other',
        is_bot: false,
        outcome: 'redirect',
        rule: 'link.fallback_url',
        rule_index: null,
        variant: null,
        rule_id: null,
        rules_passed_over: [{ index: 0, condition: 'country' }],
        status: 302,
        location: 'https://www.example.com/sale?utm_source=newsletter',
        headers: {
          Location: 'https://www.example.com/sale?utm_source=newsletter',
          'Cache-Control': 'private, no-store',
        },
        association: { file: null, status: null, opens_app: false },
        match: { possible: false, certain_by: [], by_signals_hours: 0 },
        sentences: ["No destination is specific to this platform, so the link's fallback_url decides."],
      },
    },
  },
  async handle({ tenancy, clock, shortUrl }, { caller, params, body: visit }) {
    const explained = await tenancy.within(
      tenantOf(caller),
      async (tenant) =>
        (await readExplainedLink(async (sql, values) => tenant.query(sql, values), params.id)) ??
        absent(tenant, 'link', params.id),
    );
    if (explained instanceof Rejection) return explained;
    const nowMs = visit.at === undefined ? clock() : Date.parse(visit.at);
    return { status: 200, body: explainLink(explained, visit, nowMs, shortUrl) };
  },
});
