/**
 * The name under which a machine reports its progress. It belongs to the journals and not to the host: a container that is recreated
 * on the same volume has another host name, and the old name's progress would hold `as_of` back forever.
 */
import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';

/** The name stored next to the journals in `root`; if there is none yet, the current host name is stored. */
export function machineName(root: string, host = hostname()): string {
  const file = join(root, 'machine');
  const kept = existsSync(file) ? readFileSync(file, 'utf8').trim() : '';
  if (kept !== '') return kept;
  writeFileSync(`${file}.new`, `${host}\n`);
  renameSync(`${file}.new`, file);
  return host;
}
