/** Deletes login.json once its password no longer logs in: because it was changed, or because the user is gone. */
import { rmSync } from 'node:fs';
import { verifyPassword } from '#api/auth/password.ts';
import { Postgres, PostgresUnavailable } from '#common/stores/postgres.ts';
import { loginFile, readLogin } from './made-once.ts';

const checkMs = 60_000;

export class FirstLoginWatch {
  readonly #db: Postgres;
  readonly #dataDir: string;
  #timer: NodeJS.Timeout | undefined;
  /** The hash that the password was last compared with: comparing takes 70 ms. */
  #compared = '';

  constructor(databaseUrl: string, dataDir: string) {
    this.#db = new Postgres({ url: databaseUrl, name: 'launcher', connectionsMax: 1 });
    this.#dataDir = dataDir;
  }

  start(): void {
    void this.check();
    this.#timer = setInterval(() => void this.check(), checkMs);
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer);
    await this.#db.close();
  }

  async check(): Promise<void> {
    const login = readLogin(this.#dataDir);
    if (login === undefined) return;
    try {
      const [user] = await this.#db.query<{ password_hash: string | null }>(
        'SELECT password_hash FROM users WHERE email = $1 AND deleted_at IS NULL',
        [login.email.trim().toLowerCase()],
      );
      const hash = user?.password_hash ?? '';
      if (hash !== '' && hash === this.#compared) return;
      if (hash === '' || !(await verifyPassword(hash, login.password)))
        rmSync(loginFile(this.#dataDir), { force: true });
      this.#compared = hash;
    } catch (error) {
      if (!(error instanceof PostgresUnavailable)) throw error;
    }
  }
}
