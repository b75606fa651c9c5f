import type { AdminParts } from './accounts.ts';

/** What the commands run on. Opened only when one needs it, so that --help works without a database. */
export interface AdminContext {
  /** @throws AdminError when no database is set and none runs on this machine. */
  readonly parts: () => AdminParts;
  readonly adminEmail: string;
  readonly adminPassword: string;
  /** SECRET_KEY. */
  readonly secretKey: string;
  readonly print: (line: string) => void;
  readonly warn: (line: string) => void;
}
