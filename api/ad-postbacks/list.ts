import { Type } from 'typebox';
import { refuseApp, tenantOf } from '#api/access.ts';
import type { ApiDeps } from '#api/deps.ts';
import { pageOf } from '#api/listing.ts';
import { route } from '#api/route.ts';
import { DAY_MS } from '#common/durations.ts';
import type { Encryption } from '#common/encryption.ts';
import { invalid, Rejection } from '#common/http/rejection.ts';
import type { Route } from '#common/http/route.ts';
import { nullable } from '#common/links/link-fields.ts';
import { isStorableTime, storableTimes } from '#common/storable-time.ts';
import {
  type AdPostbackRow,
  adPostbackAnswer,
  adPostbackColumns,
  adPostbackCountSchema,
  adPostbackExample,
  adPostbackSchema,
  countExample,
} from './ad-postback.ts';

/** Redirectors remove older postbacks. */
const KEPT_DAYS = 180;
const DAYS_DEFAULT = 30;
const COUNTS_MAX = 200;

const matching = `FROM ad_postbacks WHERE organization_id = ANY ($1) AND app_id = $2 AND received_at >= $3 AND received_at < $4
  AND ($5::integer IS NULL OR campaign_id = $5) AND ($6::text IS NULL OR source_identifier = $6)
  AND ($7::boolean IS NULL OR (unverified_reason IS NULL) = $7)`;
const page = `SELECT ${adPostbackColumns} ${matching} AND ($8::timestamptz IS NULL OR (received_at, id) < ($8, $9::bigint))
  ORDER BY received_at DESC, id DESC LIMIT $10`;
const dimensions =
  'ad_network_id, campaign_id, source_identifier, sequence_index, conversion_value, coarse_conversion_value';
const counted = `SELECT ${dimensions}, count(*)::integer AS postbacks ${matching}
  AND unverified_reason IS NULL AND did_win IS NOT FALSE
  GROUP BY ${dimensions} ORDER BY postbacks DESC, ${dimensions} LIMIT ${COUNTS_MAX}`;

interface Position {
  readonly at: Date;
  readonly id: string;
}

const time = (description: string) => Type.Optional(Type.String({ maxLength: 40, format: 'date-time', description }));

const query = Type.Object(
  {
    verified: Type.Optional(Type.Boolean()),
    source_identifier: Type.Optional(Type.String({ pattern: '^[0-9]{1,4}$', description: 'Compared exactly.' })),
    campaign_id: Type.Optional(Type.Integer({ minimum: 0, maximum: 9_999 })),
    received_after: time(`Inclusive; default ${DAYS_DEFAULT} days ago.`),
    received_before: time('Exclusive; default now.'),
    cursor: Type.Optional(Type.String({ maxLength: 200, description: 'The next_cursor of the previous page.' })),
    limit: Type.Optional(Type.Integer({ minimum: 1, description: 'Page size, at most 100; default 50.' })),
  },
  { additionalProperties: false },
);

const listAdPostbacks = route({
  method: 'GET',
  path: '/apps/{app_id}/ad-postbacks',
  operationId: 'listAdPostbacks',
  caller: 'user',
  scope: 'analytics:read',
  limit: 'general',
  tag: 'Analytics',
  summary: 'List Apple’s ad postbacks for an app',
  description: `Copies of winning postbacks from SKAdNetwork and AdAttributionKit, newest first. They are kept for ${KEPT_DAYS} days. Ignore copies that are not verified: anyone can send them.`,
  params: Type.Object({ app_id: Type.String({ examples: ['app_01j9z3k4m5n6p7q8r9s0t1v2w3'] }) }),
  query,
  answers: {
    200: {
      description: 'A page of postbacks.',
      schema: Type.Object(
        {
          data: Type.Array(adPostbackSchema),
          next_cursor: nullable(Type.String({ description: 'null on the last page.' })),
          counts: nullable(
            Type.Array(adPostbackCountSchema, {
              description: `On the first page: verified winning postbacks among all that match, by source and value, at most the ${COUNTS_MAX} most frequent. null on other pages.`,
            }),
          ),
        },
        { title: 'AdPostbackList' },
      ),
      example: { data: [adPostbackExample], next_cursor: null, counts: [countExample] },
    },
  },
  handle: ({ tenancy, clock, cursors }, { caller, params, query }) => {
    const period = periodOf(query, clock());
    if (period instanceof Rejection) return period;
    const after = query.cursor ? readCursor(cursors, params.app_id, query.cursor) : null;
    if (after instanceof Rejection) return after;
    const { limit } = pageOf(query);
    return tenancy.within(tenantOf(caller), async (tenant) => {
      const refused = await refuseApp(tenant, params.app_id);
      if (refused) return refused;
      const { campaign_id = null, source_identifier = null, verified = null } = query;
      const filters = [params.app_id, ...period, campaign_id, source_identifier, verified];
      const position = [after?.at ?? null, after?.id ?? null];
      const rows = await tenant.query<AdPostbackRow>(page, [...filters, ...position, limit + 1]);
      const counts = after === null ? await tenant.query(counted, filters) : null;
      const shown = rows.slice(0, limit);
      const last = shown.at(-1);
      const next_cursor = rows.length > limit && last ? cursorOf(cursors, params.app_id, last) : null;
      return { status: 200, body: { data: shown.map(adPostbackAnswer), next_cursor, counts } };
    });
  },
});

function periodOf(
  { received_after, received_before }: { readonly received_after?: string; readonly received_before?: string },
  nowMs: number,
): readonly [Date, Date] | Rejection {
  for (const [name, text] of Object.entries({ received_after, received_before }))
    if (text !== undefined && !isStorableTime(text)) return invalid(name, storableTimes);
  const oldestMs = nowMs - KEPT_DAYS * DAY_MS;
  const fromMs = received_after === undefined ? nowMs - DAYS_DEFAULT * DAY_MS : Date.parse(received_after);
  // If the clock of Postgres is slightly ahead, the newest postbacks must still be listed.
  const toMs = received_before === undefined ? nowMs + DAY_MS : Date.parse(received_before);
  return [new Date(Math.max(fromMs, oldestMs)), new Date(toMs)];
}

const contextOf = (appId: string) => `cursor in the ad postbacks of ${appId}`;

/** Encrypted, because the numbers of all organizations' postbacks tell how many the others have. */
function cursorOf(cursors: Encryption, appId: string, { received_at, id }: AdPostbackRow): string {
  return cursors.encrypt(`${received_at.getTime()}.${id}`, contextOf(appId));
}

function readCursor(cursors: Encryption, appId: string, text: string): Position | Rejection {
  try {
    const [ms, id = ''] = cursors.decrypt(text, contextOf(appId)).split('.');
    return { at: new Date(Number(ms)), id };
  } catch {
    return invalid('cursor', 'is not a cursor returned by this list');
  }
}

export const adPostbackRoutes: readonly Route<ApiDeps>[] = [listAdPostbacks];
