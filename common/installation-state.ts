/**
 * What a process must know about its installation before it does harm, read from Postgres at start and every few
 * seconds: whether its SECRET_KEY is the right one, and whether outbound requests are held because this is a restored
 * copy (pg-migrations/0967_installation.sql). Until it knows, nothing is sent.
 */
import type { Registry } from 'prom-client';
import { ApiKeys } from './api-key.ts';
import { SECOND_MS } from './durations.ts';
import { Encryption, type SecretKey } from './encryption.ts';
import { exposeGauge } from './process/telemetry.ts';

const lookMs = 5 * SECOND_MS;
const secretContext = 'secret_check';
const knownText = 'signpost';

/** What Postgres stores, to be decrypted by every process. */
export function sealedSecretCheck(encryption: Encryption): string {
  return encryption.encrypt(knownText, secretContext);
}

/** Whether these keys include the one under which the installation stores its secrets. */
export function opensSecretCheck(encryption: Encryption, sealed: string): boolean {
  try {
    return encryption.decrypt(sealed, secretContext) === knownText;
  } catch {
    return false;
  }
}

export function exposeHeld(metrics: Registry, state: Pick<InstallationState, 'heldSince'>): void {
  const help = '1 while webhooks, postbacks and mail are held, because this is a restored copy.';
  exposeGauge(metrics, 'signpost_outbound_held', help, () => (state.heldSince === null ? 0 : 1));
}

interface StateDatabase {
  query<Row extends object>(sql: string, values?: readonly unknown[], name?: string): Promise<readonly Row[]>;
}

export interface InstallationStateParts {
  readonly db: StateDatabase;
  readonly secrets: readonly SecretKey[];
  readonly log: { warn(line: string): void; info(line: string): void };
  /** What this process sends; undefined if it sends nothing. */
  readonly sends?: string;
  /** Whether it writes the known text if there is none, as the API does. */
  readonly writesSecretCheck?: boolean;
}

type SecretState = 'unknown' | 'right' | 'wrong';

interface Stored {
  readonly secret_check: string | null;
  readonly outbound_held_since: Date | null;
}

export class InstallationState {
  readonly name = 'installation state';
  readonly #parts: InstallationStateParts;
  readonly #encryption: Encryption;
  #secret: SecretState = 'unknown';
  #heldSince: Date | null = null;
  #looking: Promise<SecretState> | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor(parts: InstallationStateParts) {
    this.#parts = parts;
    this.#encryption = new Encryption(parts.secrets);
  }

  get secret(): SecretState {
    return this.#secret;
  }

  get heldSince(): Date | null {
    return this.#heldSince;
  }

  /** Whether this process may send what leaves the installation. */
  readonly maySend = (): boolean => this.#secret === 'right' && this.#heldSince === null;

  /** For /readyz. */
  readonly check = (): true | string => this.#secret !== 'wrong' || 'SECRET_KEY is not the key of this installation';

  start(): void {
    this.#timer = setInterval(() => void this.look(), lookMs).unref();
    void this.look();
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer);
    await this.#looking;
  }

  /** Never rejects: while Postgres is unavailable, the last state holds. */
  look(): Promise<SecretState> {
    this.#looking ??= this.#look()
      .catch(() => undefined)
      .then(() => this.#secret)
      .finally(() => {
        this.#looking = undefined;
      });
    return this.#looking;
  }

  async #look(): Promise<void> {
    const sql = 'SELECT secret_check, outbound_held_since FROM signpost_installation()';
    const [stored] = await this.#parts.db.query<Stored>(sql, [], 'installation_state');
    if (stored === undefined) return;
    this.#onHeld(stored.outbound_held_since);
    const isRight =
      stored.secret_check === null ? await this.#begin() : opensSecretCheck(this.#encryption, stored.secret_check);
    this.#onSecret(isRight ? 'right' : 'wrong');
  }

  /** Nothing is known yet, so what is stored decides. */
  async #begin(): Promise<boolean> {
    const { db, secrets, writesSecretCheck } = this.#parts;
    if (writesSecretCheck !== true) return true;
    const [app] = await db.query<{ id: string; api_key_ciphertext: string }>('SELECT * FROM signpost_sealed_sample()');
    try {
      if (app !== undefined) new ApiKeys(secrets).show(app.api_key_ciphertext, app.id);
    } catch {
      return false;
    }
    await db.query('SELECT signpost_keep_secret_check($1)', [sealedSecretCheck(this.#encryption)]);
    return true;
  }

  #onSecret(secret: 'right' | 'wrong'): void {
    if (secret === this.#secret) return;
    if (secret === 'wrong')
      this.#parts.log.warn(
        'SECRET_KEY is not the key of this installation, so this process does nothing that needs it: set the SECRET_KEY that the other processes have, or that of the backup',
      );
    else if (this.#secret === 'wrong') this.#parts.log.info('SECRET_KEY is the key of this installation again');
    this.#secret = secret;
  }

  #onHeld(since: Date | null): void {
    const wasHeld = this.#heldSince !== null;
    this.#heldSince = since;
    const { sends, log } = this.#parts;
    if (sends === undefined || wasHeld === (since !== null)) return;
    if (since !== null)
      log.warn(
        `${sends} are held since ${since.toISOString()}: this is a restored copy. Once the original no longer sends them, run admin resume-outbound`,
      );
    else log.info(`${sends} are sent again`);
  }
}
