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
  const key = await derived(normalizedPassword(password), salt, costLog2);
  return ['scrypt', costLog2, salt.toString('base64url'), key.toString('base64url')].join('$');
}

const hashShape = /^scrypt\$(1[0-6])\$([\w-]{22})\$([\w-]{43})$/;

/** False for anything that is not a hash: such a link stays locked. */
export async function isLinkPassword(hash: string, password: string): Promise<boolean> {
  const [, cost, salt = '', key = ''] = hashShape.exec(hash) ?? [];
  if (cost === undefined || password.length > LINK_PASSWORD_CHARACTERS_MAX) return false;
  const [ownSalt, ownKey] = [Buffer.from(salt, 'base64url'), Buffer.from(key, 'base64url')];
  const isKeyOf = async (text: string) => timingSafeEqual(await derived(text, ownSalt, Number(cost)), ownKey);
  const [normalized, before] = [normalizedPassword(password), password.normalize('NFC')];
  // A hash from before NFKC.
  return (await isKeyOf(normalized)) || (before !== normalized && (await isKeyOf(before)));
}

/** The same text for characters that differ between keyboards and systems: é in one or two code points, and １ for 1. */
export function normalizedPassword(password: string): string {
  return password.normalize('NFKC');
}

function derived(password: string, salt: Buffer, log2: number): Promise<Buffer> {
  return new Promise((settle, fail) => {
    const options = { N: 2 ** log2, r: 8, p: 1, maxmem: 128 * 1_048_576 };
    scrypt(password, salt, keyBytes, options, (error, key) => (error ? fail(error) : settle(key)));
  });
}
