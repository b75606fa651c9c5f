/**
 * Recognizes a DATA_DIR that was restored or copied: a file in it names its own inode, which a copy of the file does not
 * have. Moving the folder within a file system keeps the inode; a snapshot of the whole disk does too.
 */
import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const fileOf = (dataDir: string) => join(dataDir, 'original');

export function isCopiedFolder(dataDir: string): boolean {
  const file = fileOf(dataDir);
  return existsSync(file) && readFileSync(file, 'utf8').trim() !== String(statSync(file).ino);
}

/** The next start finds a copy. */
export function markRestored(dataDir: string): void {
  writeFileSync(fileOf(dataDir), 'restored\n', { mode: 0o600 });
}

/** From now on, this folder is the original. */
export function markOriginal(dataDir: string): void {
  mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  const file = fileOf(dataDir);
  writeFileSync(file, '', { mode: 0o600 });
  writeFileSync(file, `${statSync(file).ino}\n`);
}
