// After `npm ci`: installs packages that exist only for some platforms, each from its own lock file, so that npm
// accepts the project's lock file everywhere. A production install (--omit=dev) gets none of them.
import { spawnSync } from 'node:child_process';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { hasPinnedNode, loadsHere, pinnedVersion, platform } from './binding.mjs';

const here = dirname(fileURLToPath(import.meta.url));

function add(folder, what) {
  const npm = process.env.npm_execpath;
  const [command, ...args] = npm === undefined ? ['npm'] : [process.execPath, npm];
  const flags = ['ci', '--no-audit', '--no-fund', '--loglevel=error'];
  const { status } = spawnSync(command, [...args, ...flags], { cwd: join(here, folder), stdio: ['ignore', 2, 2] });
  if (status !== 0) {
    console.error(
      `${what} could not be installed in deploy/packages/${folder}: see npm's message above, then run 'npm ci' again.`,
    );
    process.exit(1);
  }
  console.log(`added ${what}`);
}

const omitted = (process.env.npm_config_omit ?? '').split(/[\s,]+/);
const isProduction = omitted.includes('dev') || process.env.NODE_ENV === 'production';
if (!isProduction) {
  if (platform === 'linux x64') add('nats-server', 'the NATS server');
  if (hasPinnedNode && !(await loadsHere())) {
    add('node', `Node ${pinnedVersion}, since uWebSockets.js has no binary for ${process.version}`);
  }
}
