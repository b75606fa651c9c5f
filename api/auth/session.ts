/** The dashboard's login: a cookie that only pages of this origin can use. Programs use POST /auth/login. */
import { Type } from 'typebox';
import type { UserCaller } from '#api/route.ts';
import { forbidden, notFound } from '#common/http/rejection.ts';
import { routesOf } from '#common/http/route.ts';
import { type BrowserSession, SESSION_MS } from './browser-sessions.ts';
import { type AuthDeps, authRoute, tag } from './parts.ts';
import { PasswordLoginBody, passwordLogin, passwordLoginExample } from './password-login.ts';
import { clearedCookie, isFromOwnPage, setCookie } from './session-cookie.ts';

const route = routesOf<AuthDeps, UserCaller>();
const path = '/session';

const notOwnPage = () =>
  forbidden(
    'Sessions are for pages of this origin, which send X-Signpost-Session. Programs log in with POST /auth/login.',
  );

const SessionSchema = Type.Object({
  user_id: Type.String(),
  created_at: Type.String({ format: 'date-time' }),
  expires_at: Type.String({ format: 'date-time', description: 'When the session expires if it is not used.' }),
  ends_at: Type.String({ format: 'date-time', description: 'When the session expires even if it is used.' }),
});

const sessionExample = {
  user_id: 'usr_01kzg3v5k2e4z9n7q8w6r5t4y3',
  created_at: '2026-11-22T09:00:00.000Z',
  expires_at: '2026-11-23T09:00:00.000Z',
  ends_at: '2026-12-22T09:00:00.000Z',
};

function sessionBody(user_id: string, { created_at, expires_at }: BrowserSession): object {
  const ends_at = new Date(created_at.getTime() + SESSION_MS);
  return {
    user_id,
    created_at: created_at.toISOString(),
    expires_at: expires_at.toISOString(),
    ends_at: ends_at.toISOString(),
  };
}

export const beginSession = authRoute({
  method: 'POST',
  path,
  operationId: 'startSession',
  caller: 'public',
  limit: 'auth',
  tag,
  summary: 'Log in to the dashboard',
  description:
    'Sets the cookie __Host-signpost. Only pages of this origin can call it: the browser must send Sec-Fetch-Site: same-origin, and the page must send X-Signpost-Session. Ends an earlier session in the same browser. Errors, the second factor and delays work as in POST /auth/login.',
  body: PasswordLoginBody,
  bodyExample: passwordLoginExample,
  answers: { 201: { description: 'The session; the cookie is set.', schema: SessionSchema, example: sessionExample } },
  async handle({ auth }, { body, ip, header }) {
    if (!isFromOwnPage(header, true)) return notOwnPage();
    const replaced = auth.cookies.read(header('cookie'));
    return passwordLogin(auth, body, ip, async (userId, passwordHash) => {
      const { value, hash } = auth.cookies.issue(userId);
      const session = await auth.browserSessions.begin(userId, passwordHash, hash, { replaced });
      if (!session) return null;
      const headers = { 'Set-Cookie': setCookie(value, SESSION_MS / 1000) };
      return { status: 201, body: sessionBody(userId, session), headers };
    });
  },
});

export const readSession = route({
  method: 'GET',
  path,
  operationId: 'getSession',
  caller: 'user',
  scope: null,
  limit: 'general',
  tag,
  summary: 'Get the current session of the dashboard',
  answers: { 200: { description: 'The session.', schema: SessionSchema, example: sessionExample } },
  handle(_, { caller }) {
    if (!caller.session) return notFound('This request has an access token, not a session.');
    return { status: 200, body: sessionBody(caller.user_id, caller.session) };
  },
});

export const endSession = authRoute({
  method: 'DELETE',
  path,
  operationId: 'endSession',
  caller: 'public',
  limit: 'general',
  tag,
  summary: 'Log out of the dashboard',
  description: 'Ends the session, if there is one, and deletes the cookie. Safe to repeat.',
  answers: {
    200: {
      description: 'The session has ended.',
      schema: Type.Object({ ended: Type.Literal(true) }),
      example: { ended: true },
    },
  },
  async handle({ auth }, { header }) {
    if (!isFromOwnPage(header, true)) return notOwnPage();
    const token = auth.cookies.read(header('cookie'));
    if (token) await auth.browserSessions.end(token);
    return { status: 200, body: { ended: true }, headers: { 'Set-Cookie': clearedCookie } };
  },
});
