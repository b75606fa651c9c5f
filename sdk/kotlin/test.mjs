// Builds the Kotlin SDK with the command-line compiler, runs the vectors and the example device.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, realpathSync } from 'node:fs';
import { delimiter, dirname, join } from 'node:path';

const LINES_MAX = 1_500;
const out = 'node_modules/.cache/signpost-kotlin';
const home = import.meta.dirname;

/** The `lib` folder of the compiler: KOTLIN_HOME, or that of the `kotlinc` on the PATH. */
function compiler() {
  const onPath = (process.env['PATH'] ?? '').split(delimiter).map((folder) => join(folder, 'kotlinc'));
  const found = onPath.find((file) => existsSync(file));
  const folders = [process.env['KOTLIN_HOME'], found && dirname(dirname(realpathSync(found)))];
  const libs = folders.filter(Boolean).map((folder) => join(folder, 'lib'));
  return libs.find((lib) => existsSync(join(lib, 'kotlin-compiler.jar')));
}

function run(program, args) {
  const { status, error } = spawnSync(program, args, { stdio: 'inherit' });
  if (error) console.error(`${program}: ${error.message}`);
  if (status !== 0) process.exit(status ?? 1);
}

const lib = compiler();
const hasJava = spawnSync('java', ['-version']).status === 0;
if (!lib || !hasJava) {
  console.log(
    `skipped: ${hasJava ? 'the Kotlin compiler' : 'java'} is not installed. CONTRIBUTING.md says how to get it.`,
  );
  process.exit(0);
}

const ofPackage = ['core', 'coroutines', 'android'].map((name) => join(home, name));
const texts = ofPackage.flatMap((folder) =>
  readdirSync(folder).map((name) => readFileSync(join(folder, name), 'utf8')),
);
const lines = texts
  .join('\n')
  .split('\n')
  .filter((line) => line.trim() !== '').length;
console.log(`${lines} lines without blank ones`);
if (lines > LINES_MAX) {
  console.error(`The Kotlin SDK has more than ${LINES_MAX} lines: make it shorter.`);
  process.exit(1);
}

const jar = (name) => join(lib, `${name}.jar`);
const jars = (...names) => names.map(jar).join(delimiter);
const libraries = jars('kotlin-stdlib', 'kotlinx-coroutines-core-jvm');
const compile = [
  '-cp',
  jars(
    'kotlin-compiler',
    'kotlin-stdlib',
    'kotlinx-coroutines-core-jvm',
    'kotlin-reflect',
    'kotlin-script-runtime',
    'annotations-13.0',
  ),
];
// The core with nothing but the standard library of Kotlin and Java 8, which Android 6 has.
const options = ['-no-stdlib', '-no-reflect', '-Xjdk-release=8', '-Werror'];
const kotlinc = (classes, folder, ...sources) =>
  run('java', [
    '-XX:+UseSerialGC',
    '-Xmx1g',
    ...compile,
    'org.jetbrains.kotlin.cli.jvm.K2JVMCompiler',
    ...options,
    '-cp',
    classes,
    '-d',
    join(out, folder),
    ...sources,
  ]);
mkdirSync(out, { recursive: true });
kotlinc(
  jar('kotlin-stdlib'),
  'core',
  join(home, 'core'),
  join(home, 'testing', 'VectorRun.kt'),
  join(home, 'testing', 'Vectors.kt'),
  join(home, 'testing', 'SimulatedDevice.kt'),
);
run('java', [
  '-cp',
  `${join(out, 'core')}${delimiter}${jar('kotlin-stdlib')}`,
  'signpost.VectorsKt',
  join(home, '..', 'vectors'),
]);
kotlinc(libraries, 'device', ...ofPackage, join(home, 'example'), join(home, 'testing', 'stubs'));
run(process.execPath, [
  'deploy/packages/run.mjs',
  'sdk/testing/native-device.ts',
  'android',
  'java',
  '-cp',
  `${join(out, 'device')}${delimiter}${libraries}`,
  'DeviceKt',
]);
