/** Ids of people who were erased, as they are kept while records of theirs may still be on the way: as salted hashes. */
import { hash } from 'node:crypto';

export const erasableKinds = ['device', 'install', 'user', 'click'] as const;
export type ErasableKind = (typeof erasableKinds)[number];

/** Longer than a record can be on its way: the log's age, and a journal that is brought back with its machine. */
export const erasureDays = 30;

export function erasedIdHash(salt: string, organizationId: string, kind: ErasableKind, id: string): string {
  return hash('sha256', `${salt}\n${organizationId}\n${kind}\n${id}`, 'base64url').slice(0, 32);
}
