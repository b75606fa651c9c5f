/**
 * Puts the temporary files of a run into memory, where that is possible: servers in tests create and delete so many small
 * files that a disk's file system takes a quarter of the run's CPU time. What a process has written survives its death
 * there as on a disk.
 */
import { accessSync, chmodSync, constants, existsSync, mkdirSync, readdirSync, rmSync, statfsSync } from 'node:fs';
import { freemem } from 'node:os';
import { join } from 'node:path';
import { isAlive } from '#deploy/local/ancestry.ts';

const place = '/dev/shm';
const prefix = 'signpost-tests-';
const gibibyte = 1024 ** 3;
/** A run needs about a tenth of this, `npm run test:all` more. */
const freeBytesMin = 4 * gibibyte;

function hasRoom(): boolean {
  if (process.platform !== 'linux' || !existsSync(place)) return false;
  try {
    accessSync(place, constants.W_OK | constants.X_OK);
  } catch {
    return false;
  }
  const { bavail, bsize } = statfsSync(place);
  return bavail * bsize >= freeBytesMin && freemem() >= 2 * freeBytesMin;
}

/** A run that was killed left its folder. */
function removeLeftovers(): void {
  for (const name of readdirSync(place)) {
    if (!name.startsWith(prefix) || isAlive(Number(name.slice(prefix.length)))) continue;
    try {
      rmSync(join(place, name), { recursive: true, force: true });
    } catch (error) {
      // A file system that a test of the killed run mounted there: it does not concern this run.
      console.error(`not removed: ${error instanceof Error ? error.message : String(error)}`);
    }
  }
}

export default function setup(): void {
  // The other projects of this run share the folder; a folder that was asked for is used.
  if (process.env['TMPDIR'] !== undefined || !hasRoom()) return;
  removeLeftovers();
  const folder = join(place, `${prefix}${process.pid}`);
  mkdirSync(folder);
  // As /tmp: some tests run programs as other users.
  chmodSync(folder, 0o1777);
  process.env['TMPDIR'] = folder;
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }));
}
