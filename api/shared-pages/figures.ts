/** Returns the figures of a shared page to a visitor. A request can choose only the period. */
import { Type } from 'typebox';
import type { ApiDeps } from '#api/deps.ts';
import { Rejection } from '#common/http/rejection.ts';
import { routesOf } from '#common/http/route.ts';
import { nullable } from '#common/links/link-fields.ts';
import { admitVisitor, noSuchPage } from './admission.ts';
import { tokenExample } from './shared-page.ts';

const publicRoute = routesOf<ApiDeps, null>();

const shownFields = {
  clicks: Type.Integer(),
  unique_clicks: Type.Integer(),
  installs: Type.Integer(),
  events: Type.Integer(),
  conversion_rate: Type.Number(),
  revenue: Type.Array(Type.Object({ currency: Type.String(), amount: Type.String() }), {
    description: 'Empty unless the page shows revenue.',
  }),
};
const shownExample = {
  clicks: 1200,
  unique_clicks: 911,
  installs: 84,
  events: 530,
  conversion_rate: 0.07,
  revenue: [{ currency: 'EUR', amount: '412.5' }],
};
const intervals = ['24h', '7d', '30d', '90d', '12mo', 'mtd', 'all'] as const;

const body = Type.Object(
  {
    token: Type.String({ minLength: 1, maxLength: 256, description: 'The part of the page’s address after #.' }),
    password: Type.Optional(Type.String({ minLength: 1, maxLength: 1024 })),
    ticket: Type.Optional(
      Type.String({ maxLength: 256, description: 'The pass from an earlier answer; use it instead of the password.' }),
    ),
    interval: Type.Optional(
      Type.Unsafe<(typeof intervals)[number]>({ type: 'string', enum: [...intervals], description: 'Default: 30d.' }),
    ),
    timezone: Type.Optional(Type.String({ maxLength: 64, description: 'IANA time zone name; default UTC.' })),
  },
  { additionalProperties: false, title: 'SharedFiguresRequest' },
);

export const readSharedFigures = publicRoute({
  method: 'POST',
  path: '/shared-figures',
  operationId: 'readSharedFigures',
  caller: 'public',
  isRead: true,
  limit: 'general',
  tag: 'Shared pages',
  summary: 'Read the figures of a shared page',
  description:
    'Needs no login. The token is sent in the body, so that it does not appear in access logs. Requests are rate-limited by IP address and by page. 403 with the reason password_required or password_wrong if the page has a password; 404 if the page was revoked or has expired, or its link was deleted.',
  body,
  bodyExample: { token: tokenExample, interval: '30d', timezone: 'Europe/Berlin' },
  answers: {
    200: {
      description: 'The figures. They include every record accepted up to `as_of`.',
      schema: Type.Object(
        {
          name: Type.String(),
          url: nullable(Type.String({ description: 'The short link; null for a campaign.' })),
          campaign: nullable(Type.String()),
          expires_at: nullable(Type.String({ format: 'date-time' })),
          ticket: nullable(
            Type.String({
              description: 'Replaces the password for the next 12 hours, if the page has one. Expires with the page.',
            }),
          ),
          start: Type.String(),
          end: Type.String(),
          timezone: Type.String(),
          granularity: Type.String(),
          totals: Type.Object(shownFields, { title: 'SharedMetrics' }),
          timeseries: Type.Array(Type.Object({ start: Type.String(), ...shownFields }, { title: 'SharedBucket' })),
          breakdowns: Type.Array(
            Type.Object(
              {
                by: Type.String(),
                data: Type.Array(Type.Object({ value: nullable(Type.String()), clicks: Type.Integer() })),
              },
              { title: 'SharedBreakdown' },
            ),
          ),
          as_of: Type.String(),
        },
        { title: 'SharedFigures' },
      ),
      example: {
        name: 'Spring sale',
        url: 'https://go.example.com/spring',
        campaign: null,
        expires_at: null,
        ticket: null,
        start: '2026-10-23T00:00:00.000Z',
        end: '2026-11-22T00:00:00.000Z',
        timezone: 'UTC',
        granularity: 'day',
        totals: shownExample,
        timeseries: [{ start: '2026-10-23T00:00:00.000Z', ...shownExample }],
        breakdowns: [{ by: 'country', data: [{ value: 'DE', clicks: 1200 }] }],
        as_of: '2026-11-21T12:00:00.000Z',
      },
    },
  },
  async handle(deps, { body: asked, ip }) {
    const admitted = await admitVisitor(deps, asked, ip);
    if (admitted instanceof Rejection) return admitted;
    const { page, ticket } = admitted;
    const figures = await deps.sharedFigures(page, asked);
    if (figures instanceof Rejection) return figures;
    if (figures === null) return noSuchPage();
    const { name, campaign, expires_at } = page;
    const about = { name, campaign, expires_at: expires_at?.toISOString() ?? null, ticket };
    return { status: 200, body: { ...about, ...figures } };
  },
});
