/** The logged-in user, and what they may do. */
import { createContext, useContext } from 'react';
import type { Answer } from './api.ts';

export type Me = Answer<'GET /me'>;

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
