import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { packageRoot } from './paths.ts';

interface Release {
  readonly version: string;
  /** The day on which it was released, or a day before: a clock that is behind it is wrong. */
  readonly released: string;
}

let release: Release | undefined;

/** This release, from package.json. */
function thisRelease(): Release {
  release ??= JSON.parse(readFileSync(join(packageRoot(), 'package.json'), 'utf8')) as Release;
  return release;
}

export const releaseVersion = (): string => thisRelease().version;

/** Epoch ms; no right clock is before it. */
export const releasedMs = (): number => Date.parse(thisRelease().released);
