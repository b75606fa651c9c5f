import type { AdminParts } from './accounts.ts';

/** The dependencies of the commands. Each is opened only when needed, so that --help works without a database. */
export interface AdminContext {
  /** @throws AdminError if no database is configured and none runs on this machine. */
  readonly parts: () => AdminParts;
  readonly adminEmail: string;
  readonly adminPassword: string;
  /** SECRET_KEY. */
  readonly secretKey: string;
  readonly print: (line: string) => void;
  readonly warn: (line: string) => void;
}
