// What run.mjs does on a Node that is new enough. The current Node runs the program if the binary of uWebSockets.js loads in it, else
// the pinned one. It loads a file in TypeScript with tsx.
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { hasPinnedNode, loadsHere, loadsIn, pinnedNode, pinnedVersion, platform, root } from './binding.mjs';

const [name = '', ...args] = process.argv.slice(2);
const file = name.includes('.') ? join(root, name) : join(root, 'node_modules', '.bin', name);
const isTypeScript = file.endsWith('.ts');

// Both caches are of code, and are in the folder for temporary files: what another user has put there would run as this one.
process.env.TSX_DISABLE_CACHE = '1';
process.env.NODE_DISABLE_COMPILE_CACHE = '1';

function fail(remedy) {
  console.error(`uWebSockets.js has no binary that loads in Node ${process.version} on ${platform}: ${remedy}`);
  process.exit(1);
}

if (await loadsHere()) {
  process.argv.splice(1, 2, file);
  if (isTypeScript) await import('tsx');
  await import(pathToFileURL(file).href);
} else {
  const node = pinnedNode();
  if (!hasPinnedNode || process.execve === undefined) fail('install Node 22.');
  else if (node === undefined)
    fail(`run 'npm ci' with this Node, which adds Node ${pinnedVersion}, or install Node 22.`);
  else if (!loadsIn(node))
    fail(`nor in the packages' own Node (${node}). Install Node 22; on Linux it needs glibc 2.28.`);
  // The process itself becomes the other Node, which saves a process that would have to forward signals.
  else {
    const flags = isTypeScript ? [...process.execArgv, '--import', import.meta.resolve('tsx')] : process.execArgv;
    process.execve(node, [node, ...flags, file, ...args], process.env);
  }
}
