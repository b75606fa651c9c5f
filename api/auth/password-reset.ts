/** Password reset: sets a new password with a link that is sent by mail. */
import { createHash, randomBytes } from 'node:crypto';
import { Type } from 'typebox';
import { addMail, KNOWN, type MailParts } from '#api/mail-outbox.ts';
import { type MailLanguage, mailLanguages } from '#api/mail-texts.ts';
import { passwordRule } from '#api/password-strength.ts';
import type { Changes } from '#api/route.ts';
import { HOUR_MS } from '#common/durations.ts';
import { plainEmail } from '#common/email-address.ts';
import { invalid, notFound, Rejection, rateLimited } from '#common/http/rejection.ts';
import { routesOf } from '#common/http/route.ts';
import { newId } from '#common/ids.ts';
import type { PeopleDeps } from './invitations.ts';
import { tag } from './parts.ts';
import { endSessions } from './sessions.ts';

export interface PasswordResetDeps extends PeopleDeps {
  readonly mail: MailParts;
  readonly dashboardUrl: string;
}

const route = routesOf<PasswordResetDeps, null>();
const changingRoute = routesOf<PasswordResetDeps, null, Changes>();
const RESET_MS = HOUR_MS;
/** Every request takes this long, so that the time does not tell whether the address has an account. */
const answerMs = 300;
const exampleToken = 'Zk3n0Vb2yJ8m4m0rYF2o9tq1xQb7n3uK5s6a0cWdEgA';
const language = Type.Optional(
  Type.Unsafe<MailLanguage>({
    type: 'string',
    enum: [...mailLanguages],
    description: 'Language of the mail; default en.',
  }),
);

const noMail = () =>
  new Rejection(
    'NOT_FOUND',
    'This installation does not send mail. Ask its operator to set a new password with npm run admin -- reset-password.',
    { reason: 'mail_not_configured' },
  );
const gone = () =>
  notFound(
    'This link no longer works: it was used, is older than an hour, or the password has changed since. Request a new one.',
  );

export const requestPasswordReset = route({
  method: 'POST',
  path: '/auth/password-reset',
  operationId: 'requestPasswordReset',
  caller: 'public',
  limit: 'auth',
  tag,
  summary: 'Request a password reset',
  description:
    'Sends a mail with a link that works once, for an hour, unless the password changes first. The answer is the same whether or not the address has an account. An address gets at most five of these mails an hour because of requests from one network, and fifteen because of strangers; beyond that, the link in the last mail keeps working. Without a mail server (SMTP_URL), the answer is 404 with details.reason mail_not_configured.',
  body: Type.Object(
    { email: Type.String({ minLength: 1, maxLength: 320 }), language },
    { additionalProperties: false },
  ),
  bodyExample: { email: 'ada@example.com' },
  answers: {
    202: {
      description: 'If the address has an account, a mail is sent to it.',
      schema: Type.Object({ accepted: Type.Literal(true) }),
      example: { accepted: true },
    },
  },
  async handle({ auth, db, clock, mail, dashboardUrl }, { body, ip }) {
    if (!mail.isConfigured) return noMail();
    const over = new Promise((done) => setTimeout(done, answerMs));
    const email = plainEmail(body.email);
    const nowMs = clock();
    const { network, isKnown } = await auth.throttle.requester(email, ip);
    const id = newId('rst', nowMs);
    const token = randomBytes(32).toString('base64url');
    const [now, expiresAt] = [new Date(nowMs), new Date(nowMs + RESET_MS)];
    const beginning = db.transaction(async (queries) => {
      const sql = 'SELECT signpost_begin_password_reset($1, $2, $3, $4, $5) AS is_begun';
      const values = [id, email, hashOf(token), now, expiresAt];
      const [begun] = await queries.query<{ is_begun: boolean }>(sql, values, 'password_reset_begin');
      if (begun?.is_begun !== true) return;
      const url = `${dashboardUrl}/password-reset#${token}`;
      const content = { kind: 'password_reset', language: body.language ?? 'en', url } as const;
      const requester = `${isKnown ? KNOWN : ''}${network}`;
      const outgoing = { recipient: email, senderId: '', subjectId: id, content, expiresAt, requester };
      if (!(await addMail(queries, mail.encryption, outgoing))) throw new TooManyMails();
    });
    await beginning.catch(async (error: unknown) => {
      if (!(error instanceof TooManyMails)) throw error;
      mail.countLimited();
      await db.query('SELECT signpost_keep_password_reset($1, $2, $3)', [email, now, expiresAt], 'password_reset_keep');
    });
    await over;
    mail.wake();
    return { status: 202, body: { accepted: true } };
  },
});

export const resetPassword = changingRoute({
  method: 'POST',
  path: '/auth/password-reset/confirm',
  operationId: 'resetPassword',
  caller: 'public',
  limit: 'auth',
  tag,
  summary: 'Set a new password with a password-reset link',
  description:
    'Ends all logins of the account. Log in as usual afterwards, with the second factor if the account has one. The token works once. It proves the address: if that was unverified, the second factor is removed.',
  body: Type.Object(
    {
      token: Type.String({ minLength: 1, maxLength: 256, description: 'The token from the link in the mail.' }),
      password: Type.String({
        minLength: 1,
        maxLength: 1024,
        description: 'At least 12 characters that are hard to guess.',
      }),
    },
    { additionalProperties: false },
  ),
  bodyExample: { token: exampleToken, password: 'seven unrelated heavy words' },
  answers: {
    200: {
      description: 'The password is changed.',
      schema: Type.Object({ changed: Type.Literal(true), email: Type.String() }),
      example: { changed: true, email: 'ada@example.com' },
    },
  },
  async handle({ auth, db, clock }, { note, body, ip }) {
    const token = hashOf(body.token);
    const now = new Date(clock());
    const sql = 'SELECT user_id, email FROM signpost_password_reset_of($1, $2)';
    const [found] = await db.query<{ user_id: string; email: string }>(sql, [token, now], 'password_reset_of');
    if (!found) return gone();
    const weakness = (await passwordRule())(body.password, [found.email]);
    if (weakness !== null) return invalid('password', weakness);
    const hash = await auth.passwords.hash(body.password, ip);
    if (hash === null) return rateLimited(2);
    const noted = await db.transaction(async (queries) => {
      const reset = 'SELECT signpost_reset_password($1, $2, $3) AS account';
      const [row] = await queries.query<{ account: string | null }>(reset, [token, now, hash], 'password_reset');
      if (!row?.account) return null;
      await endSessions(queries, row.account, new Date(clock()));
      return note(queries, { organization_id: null, id: row.account, actor: row.account });
    });
    // Another request has used the token in the meantime.
    if (noted === null) return gone();
    return { status: 200, body: { changed: true, email: found.email }, noted };
  },
});

/** Deletes the new link, because no mail will deliver it; the last one that was mailed works for longer. */
class TooManyMails extends Error {}

/** 256 random bits need no slow hash: they cannot be guessed. */
function hashOf(token: string): Buffer {
  return createHash('sha256').update(token).digest();
}
