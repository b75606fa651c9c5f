/** Password hashes of links, created by the API and compared by redirectors. */
import { randomBytes, scrypt, timingSafeEqual } from 'node:crypto';

export const LINK_PASSWORD_CHARACTERS_MAX = 200;

/** About 40 ms and 16 MiB (RFC 7914). */
const costLog2 = 14;
const keyBytes = 32;
const saltBytes = 16;

/** `scrypt$14$<salt>$<key>`, the last two in base64url. */
export async function hashLinkPassword(password: string): Promise<string> {
  const salt = randomBytes(saltBytes);
  const key = await derived(password, salt, costLog2);
  return ['scrypt', costLog2, salt.toString('base64url'), key.toString('base64url')].join('$');
}

const hashShape = /^scrypt\$(1[0-6])\$([\w-]{22})\$([\w-]{43})$/;

/** False for anything that is not a hash: such a link stays locked. */
export async function isLinkPassword(hash: string, password: string): Promise<boolean> {
  const [, cost, salt = '', key = ''] = hashShape.exec(hash) ?? [];
  if (cost === undefined || password.length > LINK_PASSWORD_CHARACTERS_MAX) return false;
  const found = await derived(password, Buffer.from(salt, 'base64url'), Number(cost));
  return timingSafeEqual(found, Buffer.from(key, 'base64url'));
}

/** Normalizes characters that differ between keyboards. */
function derived(password: string, salt: Buffer, log2: number): Promise<Buffer> {
  return new Promise((settle, fail) => {
    const options = { N: 2 ** log2, r: 8, p: 1, maxmem: 128 * 1_048_576 };
    scrypt(password.normalize('NFC'), salt, keyBytes, options, (error, key) => (error ? fail(error) : settle(key)));
  });
}
