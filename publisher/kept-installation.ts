/**
 * Stores, next to the journals in a folder, which installation they belong to. Segments are deleted once the ingest of
 * that installation has them, so a wrong NATS_URL must never send them to the log of another one.
 */
import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const fileIn = (root: string) => join(root, 'installation');

/** The id of the installation; empty before the first log was seen. */
export function keptInstallation(root: string): string {
  return existsSync(fileIn(root)) ? readFileSync(fileIn(root), 'utf8').trim() : '';
}

/** Stores an id, if none is stored yet. @returns the given id. */
export function keepInstallation(root: string, id: string): string {
  if (id === '' || keptInstallation(root) !== '') return id;
  writeFileSync(`${fileIn(root)}.new`, `${id}\n`);
  renameSync(`${fileIn(root)}.new`, fileIn(root));
  return id;
}
