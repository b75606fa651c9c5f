/**
 * Answers 500 with Retry-After instead of 401 while this process may have a wrong SECRET_KEY: clients take a 401 as
 * final.
 */
import type { InstallationState } from '#common/installation-state.ts';
import type { Guard } from './mount.ts';
import { unavailable } from './rejection.ts';

const refused = {
  rejection: unavailable('This server is not configured correctly. Try again later.', 30),
  quota: null,
};

export function secretGuard(state: Pick<InstallationState, 'secret' | 'look'>, guard: Guard): Guard {
  const guardUnsure: Guard = async (...request) => {
    // A key that Redis or Postgres knows was found with the right SECRET_KEY.
    const answer = await guard(...request);
    const isUnknown = 'rejection' in answer && answer.rejection.code === 'UNAUTHORIZED';
    return !isUnknown || (await state.look()) === 'right' ? answer : refused;
  };
  return (...request) => {
    if (state.secret === 'right') return guard(...request);
    return state.secret === 'wrong' ? Promise.resolve(refused) : guardUnsure(...request);
  };
}
