// Bundles every process of ours to dist/<same path>.js, and dist/signpost.js, which starts each of them by name; packages left outside. `node build.mjs` builds; with --if-stale
// only when a source changed; with `start` behind it, runs what was built as `npm start` does.
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

const root = dirname(fileURLToPath(import.meta.url));
const rooms = [
  'api',
  'clickhouse',
  'common',
  'deploy',
  'gateway',
  'ingest',
  'pg-migrations',
  'publisher',
  'redirector',
];

const entries = [
  'api/main.ts',
  'deploy/local/admin.ts',
  'deploy/local/clickhouse/main.ts',
  'deploy/local/migrate.ts',
  'deploy/local/origin.ts',
  'deploy/local/redis-stand-in.ts',
  'deploy/local/start.ts',
  'gateway/main.ts',
  // Tests kill this one.
  'ingest/testing/ingest-to-kill.ts',
  'ingest/main.ts',
  'publisher/main.ts',
  'redirector/main.ts',
];

/** Where each is built to, without its extension: the program that starts all others is at the top level. */
const places = [...entries.map((entry) => [entry, entry.slice(0, -3)]), ['deploy/signpost.ts', 'signpost']];

/** Path, size and time of every source: the same text means that nothing has to be built. */
function fingerprint() {
  const hash = createHash('sha256');
  const walk = (folder) => {
    for (const entry of readdirSync(folder, { withFileTypes: true }).sort((a, b) => (a.name < b.name ? -1 : 1))) {
      const file = join(folder, entry.name);
      if (entry.isDirectory()) walk(file);
      else if (file.endsWith('.ts') && !file.endsWith('.test.ts')) {
        const { mtimeMs, size } = statSync(file);
        hash.update(`${file} ${mtimeMs} ${size}\n`);
      }
    }
  };
  for (const room of rooms) if (existsSync(join(root, room))) walk(join(root, room));
  hash.update(readFileSync(join(root, 'package.json')));
  hash.update(readFileSync(fileURLToPath(import.meta.url)));
  return hash.digest('hex');
}

/** A process that starts at this moment reads the old file or the new one, never half of one. */
function writeWhole(file, contents) {
  mkdirSync(dirname(file), { recursive: true });
  const draft = `${file}.${process.pid}.new`;
  writeFileSync(draft, contents);
  renameSync(draft, file);
}

/** @returns {Promise<boolean>} whether anything had to be built. */
export async function build({ ifStale = false } = {}) {
  const stamp = join(root, 'dist', 'built.txt');
  const now = fingerprint();
  if (ifStale && existsSync(stamp) && readFileSync(stamp, 'utf8') === now) return false;
  const esbuild = await import('esbuild');
  const result = await esbuild.build({
    entryPoints: places.filter(([entry]) => existsSync(join(root, entry))).map(([entry, out]) => ({ in: entry, out })),
    absWorkingDir: root,
    outdir: 'dist',
    outbase: '.',
    bundle: true,
    packages: 'external',
    platform: 'node',
    format: 'esm',
    target: 'node20',
    sourcemap: true,
    sourcesContent: false,
    write: false,
    logLevel: 'warning',
  });
  for (const file of result.outputFiles) writeWhole(file.path, file.contents);
  writeWhole(stamp, now);
  return true;
}

if (process.argv[1] !== undefined && import.meta.url === pathToFileURL(process.argv[1]).href) {
  const started = performance.now();
  const words = process.argv.slice(2);
  const isBuilt = await build({ ifStale: words.includes('--if-stale') || words.includes('start') });
  if (words.includes('start')) await import(pathToFileURL(join(root, 'dist/deploy/local/start.js')).href);
  else console.log(isBuilt ? `built dist/ in ${Math.round(performance.now() - started)} ms` : 'dist/ is up to date');
}
