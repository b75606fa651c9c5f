/** Administration of users and organizations. Refusals are returned as values. */
import { hashPassword, PASSWORD_LENGTH } from '#api/auth/password.ts';
import { endSessions } from '#api/auth/sessions.ts';
import { passwordRule } from '#api/password-strength.ts';
import type { Role } from '#api/route.ts';
import type { Clock } from '#common/clock.ts';
import { EMAIL_CHARACTERS_MAX, isEmailAddress, plainEmail } from '#common/email-address.ts';
import { isId, newId } from '#common/ids.ts';
import type { Postgres, Queries } from '#common/stores/postgres.ts';
import { hasGlyph, isPlainLine } from '#common/visible-text.ts';
import { lastOwner, lockUser, noUser, ownedAlone } from './owners.ts';
import { type Refused, refused } from './refusal.ts';

const NAME_CHARACTERS_MAX = 100;

export interface AdminParts {
  readonly db: Postgres;
  readonly clock: Clock;
}

const notAnAddress = 'must be an e-mail address';

/** Null when an account may have the address: older ones have some that a new one may not have. */
export function emailFault(email: string): string | null {
  return /^[^\s@]+@[^\s@]+$/.test(email) && email.length <= EMAIL_CHARACTERS_MAX ? null : notAnAddress;
}

/** Null when a new account may have the address. */
export function newEmailFault(email: string): string | null {
  return isEmailAddress(email.trim()) ? null : notAnAddress;
}

/** Null when an organization may have the name: older ones have some that a new one may not have. */
export function nameFault(name: string): string | null {
  return name.trim() !== '' && name.length <= NAME_CHARACTERS_MAX
    ? null
    : `must have 1 to ${NAME_CHARACTERS_MAX} characters`;
}

export function newNameFault(name: string): string | null {
  const fault = nameFault(name) ?? lineFault(name);
  return fault ?? (hasGlyph(name) ? null : 'must have a visible character');
}

function lineFault(text: string): string | null {
  return isPlainLine(text) ? null : 'must not contain line breaks, or control, text-direction, or invisible characters';
}

/** Null when a user may have the full name, which may be empty. */
function fullNameFault(name: string): string | null {
  return name.trim() === '' ? null : newNameFault(name);
}

export interface NewUser {
  readonly email: string;
  readonly name: string;
  readonly password: string;
  /** Id or name of an existing organization, or the name of a new one. */
  readonly organization: string;
  /** Default: owner in a new organization, member in an existing one. */
  readonly role?: Role;
}

export interface CreatedUser {
  readonly kind: 'created';
  readonly user_id: string;
  readonly organization_id: string;
  readonly role: Role;
  /** Why this password would be rejected for any user but the first; null when it is strong enough. */
  readonly weakness: string | null;
}

/** Creates a user and, if it does not exist, the organization. */
export async function createUser(parts: AdminParts, user: NewUser): Promise<CreatedUser | Refused> {
  const outcome = await insertUser(parts, user, false);
  if (outcome.kind === 'exists') throw new Error('creating a user was refused for not being the first');
  return outcome;
}

/** Like createUser, but only if there is no user yet; otherwise `exists`. Two concurrent calls create one user. */
export async function createFirstUser(
  parts: AdminParts,
  user: NewUser,
): Promise<CreatedUser | Refused | { readonly kind: 'exists' }> {
  return insertUser(parts, user, true);
}

async function insertUser(
  { db, clock }: AdminParts,
  user: NewUser,
  onlyFirst: boolean,
): Promise<CreatedUser | Refused | { readonly kind: 'exists' }> {
  const email = plainEmail(user.email);
  if (onlyFirst && (await hasUsers(db))) return { kind: 'exists' };
  const fieldRefused = namedFault('e-mail', newEmailFault(email)) ?? namedFault('name', fullNameFault(user.name));
  if (fieldRefused) return fieldRefused;
  const weakness = (await passwordRule())(user.password, [email, user.name, user.organization]);
  const fault = onlyFirst ? firstPasswordFault(user.password) : weakness;
  if (fault !== null) return refused(`the password ${fault}`);
  // Hashing is slow, so it happens before the transaction takes its lock.
  const hash = await hashPassword(user.password);
  return db.transaction(async (queries): Promise<CreatedUser | Refused | { kind: 'exists' }> => {
    await queries.execute('LOCK TABLE users IN SHARE ROW EXCLUSIVE MODE');
    if (onlyFirst && (await hasUsers(queries))) return { kind: 'exists' };
    const taken = await queries.query('SELECT FROM users WHERE email = $1 AND deleted_at IS NULL', [email]);
    if (taken.length > 0) return refused(`a user with the e-mail address ${email} already exists`);
    const organization = await findOrCreateOrganization(queries, user.organization, clock());
    if (organization.kind === 'refused') return organization;
    const role = user.role ?? (organization.isNew ? 'owner' : 'member');
    const id = newId('usr', clock());
    await queries.execute('INSERT INTO users (id, email, name, password_hash) VALUES ($1, $2, $3, $4)', [
      id,
      email,
      user.name.trim(),
      hash,
    ]);
    await queries.execute('INSERT INTO memberships (user_id, organization_id, role) VALUES ($1, $2, $3)', [
      id,
      organization.id,
      role,
    ]);
    return { kind: 'created', user_id: id, organization_id: organization.id, role, weakness };
  });
}

/** The operator may choose a weak password for the first user, and gets a warning. */
function firstPasswordFault(password: string): string | null {
  const { minOfFirst, max } = PASSWORD_LENGTH;
  const isUsable = password.length >= minOfFirst && password.length <= max;
  return isUsable ? null : `must have ${minOfFirst} to ${max} characters`;
}

function namedFault(what: string, fault: string | null): Refused | null {
  return fault === null ? null : refused(`the ${what} ${fault}`);
}

async function hasUsers(db: Queries): Promise<boolean> {
  return (await db.query('SELECT FROM users WHERE deleted_at IS NULL LIMIT 1')).length > 0;
}

interface FoundOrganization {
  readonly kind: 'found';
  readonly id: string;
  readonly isNew: boolean;
}

export async function findOrganization(db: Queries, idOrName: string): Promise<FoundOrganization | Refused | null> {
  const text = idOrName.trim();
  // A name that looks like an id does not stand for the organization: its owners choose it.
  const column = isId('org', text) ? 'id' : 'name';
  const rows = await db.query<{ id: string }>(
    `SELECT id FROM organizations WHERE ${column} = $1 AND deleted_at IS NULL LIMIT 2`,
    [text],
  );
  const [only, another] = rows;
  if (another)
    return refused(`several organizations are named ${idOrName}: give the id instead (the list command shows it)`);
  return only ? { kind: 'found', id: only.id, isNew: false } : null;
}

async function findOrCreateOrganization(
  db: Queries,
  idOrName: string,
  nowMs: number,
): Promise<FoundOrganization | Refused> {
  const found = await findOrganization(db, idOrName);
  if (found) return found;
  if (isId('org', idOrName)) return refused(`there is no organization ${idOrName}`);
  const fault = namedFault('name of the organization', newNameFault(idOrName));
  if (fault) return fault;
  const id = newId('org', nowMs);
  await db.execute('INSERT INTO organizations (id, name) VALUES ($1, $2)', [id, idOrName.trim()]);
  return { kind: 'found', id, isNew: true };
}

/** Creates an organization. Names must be unique, because commands accept a name in place of an id. */
export async function createOrganization(
  { db, clock }: AdminParts,
  name: string,
): Promise<{ readonly kind: 'created'; readonly organization_id: string } | Refused> {
  const fault = namedFault('name', newNameFault(name));
  if (fault) return fault;
  return db.transaction(async (queries) => {
    // The lock makes the second of two concurrent calls see the organization of the first.
    await queries.execute('LOCK TABLE organizations IN SHARE ROW EXCLUSIVE MODE');
    if (await findOrganization(queries, name)) return refused(`an organization named ${name.trim()} already exists`);
    const id = newId('org', clock());
    await queries.execute('INSERT INTO organizations (id, name) VALUES ($1, $2)', [id, name.trim()]);
    return { kind: 'created', organization_id: id };
  });
}

/** Adds a member, or changes a member's role. The last owner keeps the owner role. */
export async function addMember(
  { db }: AdminParts,
  email: string,
  organization: string,
  role: Role,
): Promise<{ readonly kind: 'added'; readonly organization_id: string } | Refused> {
  return db.transaction(async (queries) => {
    const found = await findOrganization(queries, organization);
    if (!found) return refused(`there is no organization ${organization}`);
    if (found.kind === 'refused') return found;
    const userId = await lockUser(queries, email);
    if (userId === undefined) return noUser(email);
    const unverified = 'SELECT FROM users WHERE id = $1 AND unverified_since IS NOT NULL';
    if ((await queries.query(unverified, [userId])).length > 0)
      return refused(
        `the address of ${email} is unverified, so another person may have created the account: run reset-password first, and give the new password to the person`,
      );
    const living = 'SELECT FROM organizations WHERE id = $1 AND deleted_at IS NULL FOR UPDATE';
    if ((await queries.query(living, [found.id])).length === 0)
      return refused(`there is no organization ${organization}`);
    const alone = role === 'owner' ? [] : await ownedAlone(queries, userId, found.id);
    if (alone.length > 0) return lastOwner(email, alone);
    await queries.execute(
      `INSERT INTO memberships (user_id, organization_id, role) VALUES ($1, $2, $3)
       ON CONFLICT (user_id, organization_id) DO UPDATE SET role = EXCLUDED.role`,
      [userId, found.id, role],
    );
    return { kind: 'added', organization_id: found.id };
  });
}

/**
 * Sets a new password. All earlier sessions end with the next request. The operator hands the password over, so an
 * unverified address counts as verified, without the second factor that was set up before.
 */
export async function resetPassword(
  { db, clock }: AdminParts,
  email: string,
  password: string,
): Promise<{ readonly kind: 'reset' } | Refused> {
  const fault = (await passwordRule())(password, [email]);
  if (fault !== null) return refused(`the password ${fault}`);
  const hash = await hashPassword(password);
  const changed = await db.transaction(async (queries) => {
    const [user] = await queries.query<{ id: string }>(
      'SELECT id FROM users WHERE email = $1 AND deleted_at IS NULL FOR UPDATE',
      [plainEmail(email)],
    );
    if (!user) return undefined;
    await queries.query('SELECT signpost_prove_address($1)', [user.id]);
    await queries.execute('UPDATE users SET password_hash = $2 WHERE id = $1', [user.id, hash]);
    await endSessions(queries, user.id, new Date(clock()));
    return user;
  });
  return changed === undefined ? refused(`there is no user ${email}`) : { kind: 'reset' };
}

export interface ListedOrganization {
  readonly id: string;
  readonly name: string;
  readonly apps: number;
  readonly members: readonly { readonly email: string; readonly role: Role; readonly disabled?: true }[];
}

/** Every organization with its members, oldest first. Users without an organization are listed under an empty id. */
export function listAccounts({ db }: AdminParts): Promise<ListedOrganization[]> {
  return db.query<ListedOrganization>(`
    SELECT o.id, o.name, (SELECT count(*) FROM apps a WHERE a.organization_id = o.id AND a.deleted_at IS NULL) AS apps,
           coalesce((SELECT json_agg(json_strip_nulls(json_build_object('email', u.email, 'role', m.role,
                                          'disabled', CASE WHEN u.disabled_at IS NOT NULL THEN true END)) ORDER BY u.email)
                       FROM memberships m JOIN users u ON u.id = m.user_id
                      WHERE m.organization_id = o.id AND u.deleted_at IS NULL), '[]'::json) AS members
      FROM organizations o WHERE o.deleted_at IS NULL
    UNION ALL
    SELECT '', '', 0, json_agg(json_build_object('email', u.email, 'role', 'none') ORDER BY u.email)
      FROM users u
     WHERE u.deleted_at IS NULL AND NOT EXISTS (SELECT FROM memberships m WHERE m.user_id = u.id) HAVING count(*) > 0
     ORDER BY 1`);
}
