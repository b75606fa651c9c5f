/** The live feed as server-sent events: https://html.spec.whatwg.org/multipage/server-sent-events.html. */
import { Type } from 'typebox';
import { absent, refuseOrganization, rightsOf, tenantOf } from '#api/access.ts';
import type { ApiDeps } from '#api/deps.ts';
import { route, type UserCaller } from '#api/route.ts';
import { invalid, Rejection, rateLimited, unavailable } from '#common/http/rejection.ts';
import type { Route } from '#common/http/route.ts';
import { replayMsMax, streamsMax, streamsPerCallerMax, streamsPerOrganizationMax } from './live-feed.ts';
import { type LiveFilter, type RecordPosition, readPosition, recordsPerSecondMax } from './live-stream.ts';

const secondsMax = 3_600;
const fullRetrySeconds = 10;

const query = Type.Object(
  {
    organization_id: Type.Optional(Type.String({ description: 'Default: all of your organizations.' })),
    app_id: Type.Optional(Type.String({ description: 'Only records of this app.' })),
    link_id: Type.Optional(
      Type.String({
        description:
          'Only records that name this link. Most events do not: they are assigned a link later, through their install.',
      }),
    ),
    device_id: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 256,
        description: 'Only records that name this device. Clicks never do.',
      }),
    ),
    seconds: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: secondsMax,
        description: `The stream ends after this time; default ${secondsMax}. 0: it ends after sending the records since Last-Event-ID.`,
      }),
    ),
  },
  { additionalProperties: false },
);

const example = `retry: 2000
id: 1768469400000-0-0
event: hello
data: {"records_per_second_max":${recordsPerSecondMax}}

id: 1768469400123-4711-0
event: click
data: {"app_id":"app_01kzg3v5k2e4z9n7q8w6r5t4y4","link_id":"lnk_01kzg3v5k2e4z9n7q8w6r5t4y5","click_id":"clk_01kzg3v5k2e4z9n7q8w6r5t4y6","time":"2026-01-15T09:30:00.123Z","trigger":"link","platform":"ios","is_bot":false,"campaign":"spring"}

`;

const watchLive = route({
  method: 'GET',
  path: '/live',
  operationId: 'watchLive',
  caller: 'user',
  scope: 'analytics:read',
  limit: 'general',
  tag: 'Live',
  summary: 'Stream records as they arrive',
  description: `Server-sent events of the types \`click\`, \`install\`, \`open\`, \`event\` and \`match\`, each within about a second, before the record appears in statistics. A \`platform\` of \`other\` includes desktops.

Above ${recordsPerSecondMax} records a second, the stream is sampled: an event \`sampled\` says how many records there were (\`seen\`), how many were sent (\`sent\`), and the ratio (\`rate\`).
To resume, send the last id as \`Last-Event-ID\`, as browsers do automatically. Records older than ${replayMsMax / 60_000} minutes are skipped, and an event \`gap\` says from when to when. A record may be sent twice.

A client that reads too slowly is disconnected. The stream also ends when the login or key expires or is revoked, or when its permissions change. At most ${streamsPerCallerMax} streams per user or key, ${streamsPerOrganizationMax} per organization, and ${streamsMax} per process; beyond that, the answer is 429.`,
  query,
  answers: {
    200: { description: 'The stream.', contentType: 'text/event-stream', schema: Type.String(), example },
  },
  async handle(deps, { caller, query, header }) {
    const after = positionOf(header('last-event-id'));
    if (after instanceof Rejection) return after;
    const filter = await filterOf(deps, caller, query);
    if (filter instanceof Rejection) return filter;
    const rights = rightsOf(caller);
    const stream = await deps.live.open({
      ...{ callerId: caller.user_id, filter, after, seconds: query.seconds ?? secondsMax },
      mayWatch: async () => (await deps.rightsNow(watchLive, header)) === rights,
    });
    if (stream === 'full') return rateLimited(fullRetrySeconds);
    if (stream === 'unavailable') {
      return deps.live.isConfigured
        ? unavailable()
        : unavailable('This installation has no live feed: NATS_URL is not set.');
    }
    return {
      status: 200,
      contentType: 'text/event-stream; charset=utf-8',
      // Without this, proxies would buffer the stream.
      headers: { 'X-Accel-Buffering': 'no' },
      stream,
      onClosed: () => stream.end(),
    };
  },
});

function positionOf(text: string): RecordPosition | null | Rejection {
  if (text === '') return null;
  return readPosition(text) ?? invalid('last-event-id', 'is not an id of this stream');
}

async function filterOf(
  { db, tenancy }: ApiDeps,
  caller: UserCaller,
  asked: Partial<Record<'organization_id' | 'app_id' | 'link_id' | 'device_id', string>>,
): Promise<LiveFilter | Rejection> {
  const { organization_id, app_id, link_id, device_id } = asked;
  if (organization_id !== undefined) {
    const refused = await refuseOrganization(db, caller, organization_id);
    if (refused) return refused;
  }
  const scope = tenantOf(caller, organization_id === undefined ? undefined : [organization_id]);
  const refused = await tenancy.within(scope, async (tenant) => {
    for (const [kind, id] of [['app', app_id] as const, ['link', link_id] as const]) {
      if (id === undefined) continue;
      const found = `SELECT FROM ${kind}s WHERE organization_id = ANY ($1) AND id = $2`;
      if ((await tenant.query(found, [id])).length === 0) return absent(tenant, kind, id);
    }
    return null;
  });
  if (refused) return refused;
  return {
    organizationIds: scope.organizationIds,
    appIds: app_id === undefined ? scope.appIds : [app_id],
    linkIds: link_id === undefined ? null : [link_id],
    deviceIds: device_id === undefined ? null : [device_id],
  };
}

export const liveRoutes: readonly Route<ApiDeps>[] = [watchLive];
