/**
 * The name under which a machine reports its progress. It belongs to the journals and not to the host: a container that
 * is recreated on the same volume has another host name, and the progress of the old name would hold `as_of` back
 * forever.
 */
import { randomUUID } from 'node:crypto';
import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';

export interface MachineIdentity {
  readonly name: string;
  /** Created with the journals' folder, so that two machines with one name are distinguished. */
  readonly holder: string;
}

/**
 * The name stored next to the journals in `root`; if there is none yet, the configured name, or the current host name,
 * is stored. @throws Error if the journals belong to a machine with a name other than the configured one.
 */
export function machineIdentity(root: string, configured = '', host = hostname()): MachineIdentity {
  const name = kept(join(root, 'machine'), () => configured || host);
  if (configured !== '' && configured !== name) {
    throw new Error(
      `The journals in ${root} belong to the machine ${name}, and MACHINE_NAME is ${configured}: ` +
        `set it to ${name}, or give ${configured} its own DATA_DIR.`,
    );
  }
  return { name, holder: kept(join(root, 'machine-id'), randomUUID) };
}

function kept(file: string, make: () => string): string {
  const known = existsSync(file) ? readFileSync(file, 'utf8').trim() : '';
  if (known !== '') return known;
  const made = make();
  writeFileSync(`${file}.new`, `${made}\n`);
  renameSync(`${file}.new`, file);
  return made;
}
