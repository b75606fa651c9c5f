/** Changes members by functions of Postgres, and creates invitation tokens. */
import { createHash, randomBytes } from 'node:crypto';
import { forbidden, invalid, notFound, type Rejection } from '#common/http/rejection.ts';
import type { Postgres, Queries } from '#common/stores/postgres.ts';
import type { Note } from './audit-trail.ts';
import type { ChangeAnswer } from './route.ts';

/**
 * Runs the function and notes the change in one transaction.
 * @param call the function, whose arguments are the values.
 */
export function changePeople(
  { db, note }: { readonly db: Postgres; readonly note: Note },
  call: string,
  values: readonly string[],
  { organization_id, id, body }: { readonly organization_id: string; readonly id: string; readonly body: object },
): Promise<ChangeAnswer | Rejection> {
  return db.transaction(async (queries: Queries) => {
    const [row] = await queries.query<{ outcome: string }>(`SELECT ${call} AS outcome`, values);
    const rejection = peopleRejection(row?.outcome);
    return rejection ?? { status: 200, body, noted: await note(queries, { organization_id, id }) };
  });
}

/** Null if the change was made. */
function peopleRejection(outcome: string | undefined): Rejection | null {
  switch (outcome) {
    case 'done':
      return null;
    case 'forbidden':
      return forbidden('Only owners of the organization may do this.');
    case 'absent':
      return notFound('This person is not a member of the organization.');
    case 'last_owner':
      return invalid('user_id', 'is the last owner who can log in: make another member an owner first');
    default:
      throw new Error(`Postgres answered ${outcome}`);
  }
}

/** The secret of an invitation: 256 random bits, so that a plain hash of it reveals nothing. */
export function newInvitationToken(): { readonly token: string; readonly hash: Buffer } {
  const token = randomBytes(32).toString('base64url');
  return { token, hash: hashOfInvitation(token) };
}

export function hashOfInvitation(token: string): Buffer {
  return createHash('sha256').update(token).digest();
}
