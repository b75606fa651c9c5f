/** Passwords of the local servers: generated at the first start, reused at later ones. */
import { randomBytes } from 'node:crypto';
import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';

const passwordBytes = 18;

/** Reads the password from the file (mode 600), or generates one if there is none. */
export function storedPassword(file: string): string {
  const kept = readPassword(file);
  if (kept !== '') return kept;
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
  const password = randomBytes(passwordBytes).toString('base64url');
  writeFileSync(`${file}.new`, `${password}\n`, { mode: 0o600 });
  renameSync(`${file}.new`, file);
  return password;
}

function readPassword(file: string): string {
  try {
    return readFileSync(file, 'utf8').trim();
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return '';
    throw error;
  }
}
