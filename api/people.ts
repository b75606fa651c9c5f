/** Maps the results of Postgres functions that change members to responses, and creates invitation tokens. */
import { createHash, randomBytes } from 'node:crypto';
import { forbidden, invalid, notFound, type Rejection } from '#common/http/rejection.ts';

/** Null if the change was made. */
export function peopleRejection(outcome: string | undefined): Rejection | null {
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
