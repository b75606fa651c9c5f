import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterEach, beforeEach, expect, test } from 'vitest';
import own from '#package.json' with { type: 'json' };
import nodes from './node/package.json' with { type: 'json' };

/** A project whose uWebSockets.js only loads where BINDING_LOADS is set, to simulate a Node without a binary. */
let project = '';

beforeEach(() => {
  project = mkdtempSync(join(tmpdir(), 'signpost-packages-'));
  cpSync(import.meta.dirname, join(project, 'deploy', 'packages'), {
    recursive: true,
    filter: (file) => !file.includes('node_modules'),
  });
  write('package.json', '{"type":"module","engines":{"node":">=20.19"}}');
  write('node_modules/uWebSockets.js/package.json', '{"name":"uWebSockets.js","main":"binding.js"}');
  write('node_modules/uWebSockets.js/binding.js', "if (!process.env.BINDING_LOADS) throw new Error('no binary');");
  write('program.mjs', "console.log(process.argv.slice(2).join(' '), process.env.PINNED ?? 'at hand');");
});
afterEach(() => rmSync(project, { recursive: true, force: true }));

function write(file: string, text: string): void {
  mkdirSync(join(project, file, '..'), { recursive: true });
  writeFileSync(join(project, file), text);
}

/** Puts a program at the path of the pinned Node, on any platform. */
function pin(script: string): void {
  for (const name of Object.keys(nodes.optionalDependencies)) {
    const file = `deploy/packages/node/node_modules/${name}/bin/node`;
    write(file, `#!/bin/sh\n${script}\n`);
    chmodSync(join(project, file), 0o755);
  }
}

function run(env: Record<string, string> = {}, flags: readonly string[] = [], program = 'program.mjs') {
  const words = [...flags, join(project, 'deploy/packages/run.mjs'), program, 'a', 'b'];
  return spawnSync(process.execPath, words, { encoding: 'utf8', env: { PATH: '/usr/bin:/bin', ...env } });
}

test('the current Node is used if the binding loads in it', () => {
  pin('exit 1');
  expect(run({ BINDING_LOADS: '1' }).stdout).toBe('a b at hand\n');
});

const canBecomeAnother = 'execve' in process;

test.runIf(canBecomeAnother)('if the binding does not load, the process becomes the pinned Node', () => {
  pin(`PINNED=pinned BINDING_LOADS=1 exec ${process.execPath} "$@"`);
  const { stdout, status } = run();
  expect([stdout, status]).toEqual(['a b pinned\n', 0]);
});

test.runIf(canBecomeAnother)(
  'a pinned Node that is missing or does not run gives a one-sentence error that says what to do',
  () => {
    const missing = run();
    expect([missing.status, missing.stdout]).toEqual([1, '']);
    expect(missing.stderr).toMatch(/^uWebSockets\.js has no binary .* Node v[\d.]+ on .*: run 'npm ci' .*\n$/);
    pin('exit 127');
    const broken = run();
    expect([broken.status, broken.stdout]).toEqual([1, '']);
    expect(broken.stderr).toMatch(/^uWebSockets\.js has no binary .*Install Node 22.*\n$/);
  },
);

test.runIf(canBecomeAnother)('the pinned Node loads a file in TypeScript with tsx, and keeps no code', () => {
  write('node_modules/tsx/package.json', '{"name":"tsx","exports":"./loader.mjs"}');
  pin('echo "$TSX_DISABLE_CACHE$NODE_DISABLE_COMPILE_CACHE $@"');
  const { stdout } = run({}, [], 'program.ts');
  const loader = pathToFileURL(realpathSync(join(project, 'node_modules/tsx'))).href;
  expect(stdout).toBe(`11 --import ${loader}/loader.mjs ${realpathSync(project)}/program.ts a b\n`);
});

/** The content of each file below a folder, by its path. */
function contentOf(folder: string): Record<string, string> {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  const paths = files.map((file) => join(file.parentPath, file.name));
  return Object.fromEntries(paths.map((path) => [path, readFileSync(path, 'utf8')]));
}

test('the programs that operators run neither read nor write code in the folder for temporary files', () => {
  const shared = join(project, 'tmp');
  const planted = join(shared, `tsx-${process.geteuid?.()}`);
  mkdirSync(planted, { recursive: true });
  const env = { PATH: process.env['PATH'], TMPDIR: shared };
  const subject = 'deploy/signpost.ts';
  // What tsx keeps there, if it may, replaced with other code of the same name.
  spawnSync(process.execPath, ['--import', 'tsx', subject, 'version'], { env });
  const kept = Object.entries(contentOf(planted)).filter(([, text]) => text.includes('{"code":'));
  expect(kept.length).toBeGreaterThan(5);
  for (const [file, text] of kept) {
    const entry = JSON.parse(text) as { code: string };
    writeFileSync(file, JSON.stringify({ ...entry, code: `console.log('planted');${entry.code}` }));
  }
  const before = contentOf(shared);
  const inTypeScript = Object.values(own.scripts).filter(
    (script) => /\.ts$/.test(script) && !script.includes('vitest'),
  );
  expect(inTypeScript).toContain(own.scripts.admin);
  expect(inTypeScript).toContain(own.scripts.migrate);
  for (const script of new Set(inTypeScript.map((line) => line.replace(/\S+\.ts$/, `${subject} version`)))) {
    const { stdout, stderr } = spawnSync('/bin/sh', ['-c', script], { encoding: 'utf8', env });
    expect([stdout, stderr]).toEqual([`${own.version}\n`, '']);
  }
  expect(contentOf(shared)).toEqual(before);
});

test('a Node that is older than package.json allows is refused in one sentence, and no newer one', () => {
  const asVersion = (version: string) => {
    write(
      'version.cjs',
      `Object.defineProperty(process, 'versions', { value: { ...process.versions, node: '${version}' } });`,
    );
    const { status, stdout, stderr } = run({ BINDING_LOADS: '1' }, ['--require', join(project, 'version.cjs')]);
    return [status, stdout, stderr];
  };
  const sentence = (older: string) =>
    `Signpost needs Node 20.19 or later, and this is Node ${older}: install Node 22.\n`;
  for (const older of ['20.18.3', '18.99.0', '9.20.0']) expect(asVersion(older)).toEqual([1, '', sentence(older)]);
  for (const newer of ['20.19.0', '20.20.2', '22.0.0', '100.0.0'])
    expect(asVersion(newer)).toEqual([0, 'a b at hand\n', '']);
});

test('the pages name the oldest Node that package.json allows', () => {
  expect(readFileSync('package.json', 'utf8')).toContain('"node": ">=20.19"');
  for (const page of ['README.md', 'docs/platforms.md'])
    expect(readFileSync(page, 'utf8'), page).toContain('20.19 or later');
});
