import { readFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';

/**
 * The name of this machine as its publisher reports it, which `admin retire-machine` takes: journals keep the one that they began
 * with. @param root the folder of the journals.
 */
export function machineName(root: string, configured: string): string {
  try {
    return readFileSync(join(root, 'machine'), 'utf8').trim() || configured || hostname();
  } catch {
    return configured || hostname();
  }
}
