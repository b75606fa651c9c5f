/** Roles, and errors of the API about them. */
import { ApiFailure } from './api.ts';
import { type Me, useMe } from './me.ts';
import { failureText } from './parts/feedback.tsx';
import { t } from './texts/text.ts';

export const roles = ['viewer', 'member', 'owner'] as const;
export type Role = (typeof roles)[number];

/** The organizations whose members the user manages. */
export function useOwned(): Me['organizations'] {
  return useMe().organizations.filter(({ role }) => role === 'owner');
}

export function peopleFault(error: unknown): string {
  const isLastOwner = error instanceof ApiFailure && error.fields.has('user_id');
  return isLastOwner ? t('members.last_owner') : failureText(error);
}
