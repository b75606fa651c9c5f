import { Type } from 'typebox';
import { passwordRule } from '#api/password-strength.ts';
import type { Changes, UserCaller } from '#api/route.ts';
import { invalid, Rejection, rateLimited, unauthorized } from '#common/http/rejection.ts';
import { routesOf } from '#common/http/route.ts';
import { SESSION_MS } from './browser-sessions.ts';
import type { PeopleDeps } from './invitations.ts';
import { TokenPairSchema, tag, tokenPairExample } from './parts.ts';
import { attempted } from './second-step.ts';
import { setCookie } from './session-cookie.ts';
import { endSessions } from './sessions.ts';

const changingRoute = routesOf<PeopleDeps, UserCaller, Changes>();
const password = { minLength: 1, maxLength: 1024 } as const;

export const changePassword = changingRoute({
  method: 'POST',
  path: '/me/password',
  operationId: 'changePassword',
  showsSecret: true,
  caller: 'user',
  scope: null,
  limit: 'general',
  tag,
  summary: 'Change your password',
  description:
    'Ends all your logins, in browsers and programs. The answer starts a new login of the same kind: the dashboard gets a new cookie, limited to the same organization as before, a program gets a token pair. Server keys stay valid. A wrong current password counts as a failed login.',
  body: Type.Object(
    {
      present_password: Type.String(password),
      new_password: Type.String({ ...password, description: 'At least 12 characters that are hard to guess.' }),
    },
    { additionalProperties: false },
  ),
  bodyExample: { present_password: 'the present password', new_password: 'seven unrelated heavy words' },
  answers: {
    200: {
      description: 'The password is changed.',
      schema: Type.Object({ changed: Type.Literal(true), tokens: Type.Optional(TokenPairSchema) }),
      example: { changed: true, tokens: tokenPairExample },
    },
  },
  async handle(deps, { caller, note, body, ip }) {
    const { auth, db, clock } = deps;
    const account = await auth.accounts.byId(caller.user_id);
    if (!account) return unauthorized();
    const present = account.password_hash;
    if (present === null)
      return invalid('present_password', 'your account has no password: it logs in through a provider');
    const isRight = await attempted(auth, account.email, ip, async () => {
      const verdict = await auth.passwords.check(present, body.present_password, ip);
      return verdict === 'busy' ? 'busy' : verdict === 'right';
    });
    if (isRight instanceof Rejection) return isRight;
    if (!isRight) return invalid('present_password', 'is wrong');
    const weakness = (await passwordRule())(body.new_password, [account.email]);
    if (weakness !== null) return invalid('new_password', weakness);
    const hash = await auth.passwords.hash(body.new_password, ip);
    if (hash === null) return rateLimited(2);
    const noted = await db.transaction(async (queries) => {
      const sql = 'SELECT signpost_change_password($1, $2, $3) AS is_changed';
      const [row] = await queries.query<{ is_changed: boolean }>(sql, [account.id, present, hash]);
      if (row?.is_changed !== true) return null;
      await endSessions(queries, account.id, new Date(clock()));
      return note(queries, { organization_id: null, id: account.id });
    });
    // Another request has changed the password since it was compared.
    if (noted === null) return invalid('present_password', 'is wrong');
    return { ...(await newLogin(deps, caller, hash)), noted };
  },
});

async function newLogin({ auth }: PeopleDeps, caller: UserCaller, passwordHash: string) {
  const { user_id } = caller;
  if (caller.session) {
    const { value, hash } = auth.cookies.issue(user_id);
    const { organization_id } = caller.session;
    const session = await auth.browserSessions.begin(user_id, passwordHash, hash, { organization_id });
    const headers: Record<string, string> = session ? { 'Set-Cookie': setCookie(value, SESSION_MS / 1000) } : {};
    return { status: 200, body: { changed: true }, headers };
  }
  const tokens = await auth.sessions.begin(user_id, passwordHash);
  return { status: 200, body: { changed: true, ...(tokens ? { tokens } : {}) } };
}
