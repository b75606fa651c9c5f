/** The logged-in user, and what they may do. */
import { createContext, useContext } from 'react';
import type { Answer } from './api.ts';

type Answered = Answer<'GET /me'>;

/** `organizations` are those that this browser uses, `all` are those to which the user belongs. */
export interface Me extends Answered {
  readonly all: Answered['organizations'];
}

export function meOf(answer: Answered): Me {
  const { organization_id: chosen, organizations: all } = answer;
  return { ...answer, all, organizations: all.filter(({ id }) => chosen === null || id === chosen) };
}

export const MeContext = createContext<Me | null>(null);

export function useMe(): Me {
  const me = useContext(MeContext);
  if (!me) throw new Error('used outside of a session');
  return me;
}

/** Whether the user may change anything in some organization; the API decides for each. */
export function useCanWrite(organizationId?: string): boolean {
  const { organizations } = useMe();
  return organizations.some(
    ({ id, role }) => role !== 'viewer' && (organizationId === undefined || organizationId === id),
  );
}
