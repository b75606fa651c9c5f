/**
 * The installation whose log the journals in a folder go to, kept beside them. What is in them is deleted once that one's ingest
 * has it, so they must never go to another one's by a wrong NATS_URL.
 */
import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const fileIn = (root: string) => join(root, 'installation');

/** Its id; empty before the first log was seen. */
export function keptInstallation(root: string): string {
  return existsSync(fileIn(root)) ? readFileSync(fileIn(root), 'utf8').trim() : '';
}

/** Keeps an id, if none is kept yet. @returns what it was given. */
export function keepInstallation(root: string, id: string): string {
  if (id === '' || keptInstallation(root) !== '') return id;
  writeFileSync(`${fileIn(root)}.new`, `${id}\n`);
  renameSync(`${fileIn(root)}.new`, fileIn(root));
  return id;
}
