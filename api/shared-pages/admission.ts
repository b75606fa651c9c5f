/** Decides whether a visitor may see a shared page: checks its token, its limit and its password. */
import type { ApiDeps, SharedSubject } from '#api/deps.ts';
import { forbidden, notFound, type Rejection, rateLimited, unavailable } from '#common/http/rejection.ts';
import { hashOfPageToken } from './shared-page.ts';

const BUSY_SECONDS = 2;

interface VisitedPage extends SharedSubject {
  readonly name: string;
  readonly password_hash: string | null;
  readonly expires_at: Date | null;
}

interface Asked {
  readonly token: string;
  readonly password?: string;
  readonly ticket?: string;
}

interface Admission {
  readonly page: VisitedPage;
  /** Replaces the password in the next request; null for a page without a password. */
  readonly ticket: string | null;
}

const find = `SELECT p.id, p.organization_id, p.link_id, p.campaign, p.name, p.password_hash, p.shows_revenue, p.expires_at
  FROM shared_pages p JOIN organizations o ON o.id = p.organization_id
 WHERE p.token_hash = $1 AND (p.expires_at IS NULL OR p.expires_at > $2) AND o.deleted_at IS NULL`;

/** The same response for every cause, so that it reveals nothing about pages that once existed. */
export const noSuchPage = () =>
  notFound('This page does not exist: it was revoked, has expired, or its address is incomplete.');

export async function admitVisitor(deps: ApiDeps, asked: Asked, ip: string): Promise<Admission | Rejection> {
  const { db, clock, sharedPages } = deps;
  const hash = hashOfPageToken(asked.token);
  const [page] = hash ? await db.query<VisitedPage>(find, [hash, new Date(clock())], 'shared_page') : [];
  if (!page) return noSuchPage();
  const exhausted = await sharedPages.charge(page.id);
  if (exhausted) return exhausted;
  const { id, password_hash } = page;
  if (password_hash === null) return { page, ticket: null };
  const locked = { id, password_hash };
  if (asked.ticket !== undefined && sharedPages.isTicket(locked, asked.ticket, clock())) {
    return { page, ticket: asked.ticket };
  }
  if (asked.password === undefined) return forbidden('This page needs a password.', 'password_required');
  const refused = await refusePassword(deps, locked, asked.password, ip);
  return refused ?? { page, ticket: sharedPages.newTicket(locked, clock()) };
}

/** Guesses are throttled for each page, as logins are for each account. */
async function refusePassword(
  { auth, sharedPages }: ApiDeps,
  page: { readonly id: string; readonly password_hash: string },
  password: string,
  ip: string,
): Promise<Rejection | null> {
  const attempt = await auth.throttle.begin(page.id, ip).catch(() => null);
  if (attempt === null) return unavailable();
  if ('retryAfterSeconds' in attempt) return rateLimited(attempt.retryAfterSeconds);
  const verdict = await sharedPages.passwords.check(page.password_hash, password, ip);
  if (verdict === 'busy') {
    await attempt.takeBack().catch(() => undefined);
    return rateLimited(BUSY_SECONDS);
  }
  if (verdict === 'wrong') return forbidden('The password is wrong.', 'password_wrong');
  await attempt.succeeded().catch(() => undefined);
  return null;
}
