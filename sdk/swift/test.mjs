// Builds the Swift SDK, runs the vectors and the example device. Swift is on the PATH, or in the Debian of SWIFT_ROOT.
import { spawnSync } from 'node:child_process';
import { cpSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { join, resolve } from 'node:path';

const LINES_MAX = 1_500;
const home = import.meta.dirname;
const root = process.env['SWIFT_ROOT'];
/** A program of the toolchain. */
const command = (args) => (root ? ['chroot', root, ...args] : args);
const [program, ...version] = command(['swift', '--version']);
const hasSwift = spawnSync(program, version).status === 0;
if (!hasSwift) {
  console.log('skipped: Swift is not installed. CONTRIBUTING.md says how to get it.');
  process.exit(0);
}

const files = readdirSync(join(home, 'Sources'), { recursive: true }).filter((name) => name.endsWith('.swift'));
const text = files.map((name) => readFileSync(join(home, 'Sources', name), 'utf8')).join('\n');
const lines = text.split('\n').filter((line) => line.trim() !== '').length;
console.log(`${lines} lines without blank ones`);
if (lines > LINES_MAX) {
  console.error(`The Swift SDK has more than ${LINES_MAX} lines: make it shorter.`);
  process.exit(1);
}

/** Where Swift sees the package. A chroot sees a copy in its own /tmp. */
const inside = root ? '/tmp/signpost-sdk' : resolve(home, '..');
const scratch = root ? '/tmp/signpost-sdk/build' : resolve('node_modules/.cache/signpost-swift');
if (root)
  for (const name of ['swift', 'vectors']) {
    const copy = join(root, inside, name);
    rmSync(copy, { recursive: true, force: true });
    // With their times, so that Swift builds only what has changed.
    cpSync(join(home, '..', name), copy, { recursive: true, preserveTimestamps: true });
  }

function run([name, ...args]) {
  const { status, error } = spawnSync(name, args, { stdio: 'inherit' });
  if (error) console.error(`${name}: ${error.message}`);
  if (status !== 0) process.exit(status ?? 1);
}

const ofPackage = ['--package-path', `${inside}/swift`, '--scratch-path', scratch];
run(command(['swift', 'test', ...ofPackage]));
if (process.platform === 'linux') run(command([`${inside}/swift/testing/check-apple.sh`, `${scratch}/stubs`]));
run(command(['swift', 'build', ...ofPackage, '--product', 'device']));
run([
  process.execPath,
  'deploy/packages/run.mjs',
  'sdk/testing/native-device.ts',
  'ios',
  ...command([`${scratch}/debug/device`]),
]);
// A device in a chroot has written there.
if (root)
  for (const name of readdirSync(join(root, 'tmp')).filter((name) => name.startsWith('signpost-device-')))
    rmSync(join(root, 'tmp', name), { recursive: true });
