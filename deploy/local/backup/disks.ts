import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { systemEnvironment } from '#common/process/config.ts';

/** Syncs everything that was copied to disk, so that it survives a power loss. */
export async function flushDisks(): Promise<void> {
  await promisify(execFile)('sync', [], { env: systemEnvironment() });
}
