/** The machine name under which this redirector registers its shares of limited links. */
import { readFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';

/**
 * The name under which this machine's publisher reports it, and which `admin retire-machine` expects: journals keep the
 * name that they started with.
 * @param root the folder of the journals.
 */
export function machineName(root: string, configured: string): string {
  try {
    return readFileSync(join(root, 'machine'), 'utf8').trim() || configured || hostname();
  } catch {
    return configured || hostname();
  }
}
