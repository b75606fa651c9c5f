import { randomBytes, scrypt, timingSafeEqual } from 'node:crypto';
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { releaseVersion } from './release.ts';
import type { Setting } from './setting-kinds.ts';
import { type Config, settings } from './settings.ts';

/**
 * Whether a process was ever ready with this release and these secrets. A wrong password then gets no visitors, while a
 * process that restarts during an outage of a store serves from its caches, as it did before. It is kept in DATA_DIR, as a salted
 * hash because it includes passwords.
 */
export class ReadyOnce {
  readonly #file: string;
  readonly #text: string;
  #isReached = false;

  constructor(role: string, config: Pick<Config, 'DATA_DIR' | 'INSTANCE'>) {
    const name = config.INSTANCE === '' ? role : `${role}-${config.INSTANCE}`;
    this.#file = join(config.DATA_DIR, 'ready', name);
    const secrets = Object.entries<Setting<unknown>>(settings).filter(([, { isSecret }]) => isSecret);
    this.#text = JSON.stringify([releaseVersion(), ...secrets.map(([name]) => Reflect.get(config, name))]);
  }

  async isReached(): Promise<boolean> {
    if (this.#isReached) return true;
    let kept: Buffer;
    try {
      kept = readFileSync(this.#file);
    } catch {
      return false;
    }
    const hash = await this.#hashWith(kept.subarray(0, saltBytes));
    this.#isReached = hash.length === kept.length - saltBytes && timingSafeEqual(hash, kept.subarray(saltBytes));
    return this.#isReached;
  }

  /** Without a writable folder it is remembered as long as the process lives. */
  async reached(): Promise<void> {
    this.#isReached = true;
    const salt = randomBytes(saltBytes);
    const hash = await this.#hashWith(salt);
    try {
      mkdirSync(join(this.#file, '..'), { recursive: true });
      writeFileSync(this.#file, Buffer.concat([salt, hash]), { mode: 0o600 });
      // One of an earlier release has another mode.
      chmodSync(this.#file, 0o600);
    } catch {}
  }

  async #hashWith(salt: Buffer): Promise<Buffer> {
    return await promisify<string, Buffer, number, Buffer>(scrypt)(this.#text, salt, hashBytes);
  }
}

const [saltBytes, hashBytes] = [16, 32];
