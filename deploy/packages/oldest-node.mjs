// Refuses a Node that is older than package.json's `engines` allows: npm only warns of it.
import { readFileSync } from 'node:fs';

const { engines } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'));
const oldest = /^>=(\d+)\.(\d+)$/.exec(engines.node);
const [major, minor] = process.versions.node.split('.').map(Number);
if (major < Number(oldest[1]) || (major === Number(oldest[1]) && minor < Number(oldest[2]))) {
  console.error(
    `Signpost needs Node ${oldest[1]}.${oldest[2]} or later, and this is Node ${process.versions.node}: install Node 22.`,
  );
  process.exit(1);
}
