import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { packageRoot } from './paths.ts';

let version: string | undefined;

/** The version of this release, from package.json. */
export function releaseVersion(): string {
  if (version === undefined) {
    const read = JSON.parse(readFileSync(join(packageRoot(), 'package.json'), 'utf8')) as { version: string };
    version = read.version;
  }
  return version;
}
