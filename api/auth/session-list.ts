/** Lists the caller's logins, of browsers and programs, and ends them one by one. */
import { Type } from 'typebox';
import { listAnswer, listSchema, pageOf, pageQuery } from '#api/listing.ts';
import type { Changes, Reads, UserCaller } from '#api/route.ts';
import type { Clock } from '#common/clock.ts';
import { notFound } from '#common/http/rejection.ts';
import { routesOf } from '#common/http/route.ts';
import type { Postgres } from '#common/stores/postgres.ts';
import { tag } from './parts.ts';

interface SessionListDeps {
  readonly db: Postgres;
  readonly clock: Clock;
}

interface Row {
  readonly id: string;
  readonly kind: 'browser' | 'token';
  readonly created_at: Date;
  readonly renewed_at: Date | null;
  readonly expires_at: Date;
}

const route = routesOf<SessionListDeps, UserCaller, Reads>();
const changingRoute = routesOf<SessionListDeps, UserCaller, Changes>();

/** A family of refresh tokens is active while one of its tokens is neither used nor expired: see sessions.ts. */
const live = `
  SELECT id, 'browser' AS kind, created_at, NULL::timestamptz AS renewed_at, expires_at
    FROM browser_sessions WHERE user_id = $1 AND expires_at > $2
  UNION ALL
  SELECT root.id, 'token', root.created_at, nullif(token.created_at, root.created_at), token.expires_at
    FROM refresh_tokens token JOIN refresh_tokens root ON root.id = token.family_id
   WHERE token.user_id = $1 AND token.used_at IS NULL AND token.expires_at > $2
     AND token.revoked_at IS NULL AND root.revoked_at IS NULL`;
const count = `SELECT count(*) AS total FROM (${live}) AS s`;
const newest = `SELECT * FROM (${live}) AS s ORDER BY created_at DESC, id DESC LIMIT $3 OFFSET $4`;

const example = {
  id: '5f0c4e1a-8a52-4c5e-9a0e-1f3a8f0b6c2d',
  kind: 'browser',
  created_at: '2026-11-22T09:00:00.000Z',
  renewed_at: null,
  expires_at: '2026-11-23T09:00:00.000Z',
  is_current: true,
};

export const listSessions = route({
  method: 'GET',
  path: '/sessions',
  operationId: 'listSessions',
  caller: 'user',
  scope: null,
  limit: 'general',
  tag,
  summary: 'List your logins',
  description: 'Active logins, newest first.',
  query: Type.Object(pageQuery, { additionalProperties: false }),
  answers: {
    200: {
      description: 'A page of logins.',
      schema: listSchema(
        Type.Object(
          {
            id: Type.String(),
            kind: Type.Unsafe<Row['kind']>({
              type: 'string',
              enum: ['browser', 'token'],
              description:
                '`browser`: a login of the dashboard. `token`: a login that got an access and a refresh token.',
            }),
            created_at: Type.String({ format: 'date-time' }),
            renewed_at: Type.Union([Type.String({ format: 'date-time' }), Type.Null()], {
              description: 'When its refresh token was last used; null if never, and for browsers.',
            }),
            expires_at: Type.String({ format: 'date-time', description: 'When it expires if it is not used.' }),
            is_current: Type.Boolean({ description: 'Whether this login sent the request.' }),
          },
          { title: 'Login' },
        ),
      ),
      example: { data: [example], pagination: { total: 1, limit: 50, offset: 0, has_more: false } },
    },
  },
  async handle({ db, clock }, { caller, query }) {
    const page = pageOf(query);
    const values = [caller.user_id, new Date(clock())];
    const [counted] = await db.query<{ total: number }>(count, values, 'sessions_count');
    const rows = await db.query<Row>(newest, [...values, page.limit, page.offset], 'sessions_list');
    const data = rows.map(({ id, kind, created_at, renewed_at, expires_at }) => ({
      id,
      kind,
      created_at: created_at.toISOString(),
      renewed_at: renewed_at?.toISOString() ?? null,
      expires_at: expires_at.toISOString(),
      is_current: caller.session?.id === id,
    }));
    return listAnswer(data, counted?.total ?? 0, page);
  },
});

const end = `
  WITH browser AS (DELETE FROM browser_sessions WHERE id = $1 AND user_id = $2 RETURNING id),
       family AS (UPDATE refresh_tokens SET revoked_at = coalesce(revoked_at, $3)
                   WHERE id = $1 AND family_id = $1 AND user_id = $2 RETURNING id)
  SELECT id FROM browser UNION ALL SELECT id FROM family`;

export const deleteSession = changingRoute({
  method: 'DELETE',
  path: '/sessions/{session_id}',
  operationId: 'deleteSession',
  caller: 'user',
  scope: null,
  limit: 'general',
  tag,
  summary: 'End one of your logins',
  description: 'A dashboard is logged out at its next request. An access token stays valid until it expires.',
  params: Type.Object({ session_id: Type.String({ examples: [example.id] }) }),
  answers: {
    200: {
      description: 'The login has ended.',
      schema: Type.Object({ id: Type.String(), deleted: Type.Literal(true) }),
      example: { id: example.id, deleted: true },
    },
  },
  async handle({ db, clock }, { caller, note, params }) {
    const { session_id } = params;
    return db.transaction(async (queries) => {
      const ended = await queries.query(end, [session_id, caller.user_id, new Date(clock())], 'session_delete');
      if (ended.length === 0) return notFound('You have no login with this id.');
      const noted = await note(queries, { organization_id: null, id: session_id });
      return { status: 200, body: { id: session_id, deleted: true }, noted };
    });
  },
});
