/** Ids of erased people, stored as salted hashes while their records may still be in flight. */
import { hash } from 'node:crypto';

export const erasableKinds = ['device', 'install', 'user', 'click'] as const;
export type ErasableKind = (typeof erasableKinds)[number];

/** Longer than a record can be in flight, including the age of the log and a journal that returns with its machine. */
export const erasureDays = 30;

export function erasedIdHash(salt: string, organizationId: string, kind: ErasableKind, id: string): string {
  return hash('sha256', `${salt}\n${organizationId}\n${kind}\n${id}`, 'base64url').slice(0, 32);
}
