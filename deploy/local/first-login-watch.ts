/** Deletes login.json once its password no longer logs in: because it was changed, or because the user is gone. */
import { rmSync } from 'node:fs';
import { verifyPassword } from '#api/auth/password.ts';
import { MINUTE_MS } from '#common/durations.ts';
import { plainEmail } from '#common/email-address.ts';
import { Worker } from '#common/process/worker.ts';
import { Postgres } from '#common/stores/postgres.ts';
import { loginFile, readLogin } from './made-once.ts';

export class FirstLoginWatch {
  readonly #db: Postgres;
  readonly #dataDir: string;
  readonly #worker: Worker;
  /** The hash that the password was last compared with: comparing takes 70 ms. */
  #compared = '';

  constructor(databaseUrl: string, dataDir: string, note: (line: string) => void) {
    this.#db = new Postgres({ url: databaseUrl, name: 'launcher', connectionsMax: 1 });
    this.#dataDir = dataDir;
    const log = { warn: (_fields: object, line: string) => note(line) };
    this.#worker = new Worker({
      ...{ name: 'first login', pass: () => this.#pass(), everyMs: MINUTE_MS, log },
      ...{ failing: 'Whether the first password was changed is not known; trying again', working: '' },
    });
  }

  start(): void {
    this.#worker.start();
  }

  async stop(): Promise<void> {
    await this.#worker.stop();
    await this.#db.close();
  }

  /** @returns whether Postgres answered. */
  check(): Promise<boolean> {
    return this.#worker.run();
  }

  async #pass(): Promise<void> {
    const login = readLogin(this.#dataDir);
    if (login === undefined) return;
    const [user] = await this.#db.query<{ password_hash: string | null }>(
      'SELECT password_hash FROM users WHERE email = $1 AND deleted_at IS NULL',
      [plainEmail(login.email)],
    );
    const hash = user?.password_hash ?? '';
    if (hash !== '' && hash === this.#compared) return;
    if (hash === '' || !(await verifyPassword(hash, login.password))) rmSync(loginFile(this.#dataDir), { force: true });
    this.#compared = hash;
  }
}
