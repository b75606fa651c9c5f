// Bundles every process of ours to dist/<same path>.js, and dist/signpost.js, which starts each of them by name; packages left outside except `bundled`. `node build.mjs` builds; with --if-stale
// only when a source changed; with `start` behind it, runs what was built as `npm start` does.
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { brotliCompress, constants, gzip } from 'node:zlib';
import { noticesOf, packagesOf } from './deploy/packages/notices.mjs';

const root = dirname(fileURLToPath(import.meta.url));
const rooms = [
  'api',
  'clickhouse',
  'common',
  'dashboard',
  'deploy',
  'gateway',
  'ingest',
  'pg-migrations',
  'publisher',
  'redirector',
  'webhooks',
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
  'webhooks/main.ts',
];

/** Where each is built to, without its extension: the program that starts all others is at the top level. */
const places = [...entries.map((entry) => [entry, entry.slice(0, -3)]), ['deploy/signpost.ts', 'signpost']];

/**
 * Packages that become part of dist/: typebox has hundreds of small files, and loading them took a quarter of the CPU time of
 * a short admin command.
 */
const bundled = ['typebox'];

/** Packages that a process loads from node_modules. */
function externalPackages() {
  const { dependencies, devDependencies } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  return Object.keys({ ...dependencies, ...devDependencies }).filter((name) => !bundled.includes(name));
}

/** Path, size and time of every source: the same text means that nothing has to be built. */
function fingerprint() {
  const hash = createHash('sha256');
  const walk = (folder) => {
    for (const entry of readdirSync(folder, { withFileTypes: true }).sort((a, b) => (a.name < b.name ? -1 : 1))) {
      const file = join(folder, entry.name);
      if (entry.isDirectory()) walk(file);
      else if (/\.(tsx?|css|svg|json)$/.test(file) && !file.endsWith('.test.ts')) {
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

/** Small and never changed once it is served under its name. */
async function writeCompressed(file, contents) {
  const brotli = { params: { [constants.BROTLI_PARAM_QUALITY]: 9 } };
  const forms = [
    ['.br', promisify(brotliCompress)(contents, brotli)],
    ['.gz', promisify(gzip)(contents, { level: 9 })],
  ];
  // Fonts are compressed already.
  for (const [extension, packed] of file.endsWith('.woff2') ? [] : forms) writeWhole(file + extension, await packed);
  writeWhole(file, contents);
}

/** Entries of the dashboard, and the page of each. */
const dashboardPages = [
  ['dashboard/main.tsx', 'index.html'],
  ['dashboard/shared.tsx', 'shared.html'],
];

/** Bundles the dashboard to dist/dashboard: its pages, and assets with a hash in their names. */
async function buildDashboard(esbuild) {
  if (!existsSync(join(root, 'dashboard', 'main.tsx'))) return;
  const result = await esbuild.build({
    entryPoints: dashboardPages.map(([entry]) => entry),
    absWorkingDir: root,
    outdir: 'dist/dashboard/assets',
    entryNames: '[name]-[hash]',
    chunkNames: '[name]-[hash]',
    assetNames: '[name]-[hash]',
    publicPath: '/assets/',
    bundle: true,
    splitting: true,
    format: 'esm',
    platform: 'browser',
    target: ['chrome120', 'firefox121', 'safari17'],
    jsx: 'automatic',
    minify: true,
    legalComments: 'none',
    define: { 'process.env.NODE_ENV': '"production"' },
    loader: { '.woff2': 'file', '.svg': 'file' },
    metafile: true,
    write: false,
    logLevel: 'warning',
  });
  const folder = join(root, 'dist', 'dashboard');
  const nameOf = (path) => path.slice(path.lastIndexOf('/') + 1);
  const written = result.outputFiles.map(({ path, contents }) => [nameOf(path), contents]);
  // The licences of React, Inter and others demand that their texts go with the bundle.
  const licences = Buffer.from(
    noticesOf(packagesOf(Object.keys(result.metafile.inputs)), readFileSync(join(root, 'LICENSE'), 'utf8')),
  );
  const licencesName = `licenses-${createHash('sha256').update(licences).digest('hex').slice(0, 8).toUpperCase()}.txt`;
  written.push([licencesName, licences]);
  await Promise.all(written.map(([name, contents]) => writeCompressed(join(folder, 'assets', name), contents)));
  const font = written.map(([name]) => name).find((name) => name.startsWith('inter-latin-wght'));
  for (const [entry, file] of dashboardPages) {
    const [script, { cssBundle, imports }] = Object.entries(result.metafile.outputs).find(
      ([, { entryPoint }]) => entryPoint === entry,
    );
    const early = imports.filter(({ kind }) => kind === 'import-statement').map(({ path }) => nameOf(path));
    const page = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="robots" content="noindex">
<title>Signpost</title>
<link rel="icon" href="data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 32 32'%3E%3Crect width='32' height='32' rx='8' fill='%234338ca'/%3E%3Cpath d='M9 10h11l4 4-4 4H9zM15 18v7' fill='none' stroke='white' stroke-width='2.6' stroke-linejoin='round' stroke-linecap='round'/%3E%3C/svg%3E">
<link rel="preload" href="/assets/${font}" as="font" type="font/woff2" crossorigin>
<link rel="stylesheet" href="/assets/${nameOf(cssBundle)}">
<link rel="license" href="/assets/${licencesName}">
${early.map((name) => `<link rel="modulepreload" href="/assets/${name}">\n`).join('')}<script type="module" src="/assets/${nameOf(script)}"></script>
</head>
<body><div id="root"></div><noscript>The dashboard needs JavaScript. The API is described at <a href="/v1/docs">/v1/docs</a>.</noscript></body>
</html>
`;
    await writeCompressed(join(folder, file), Buffer.from(page));
  }
  const current = new Set(written.flatMap(([name]) => [name, `${name}.br`, `${name}.gz`]));
  for (const name of readdirSync(join(folder, 'assets'))) if (!current.has(name)) rmSync(join(folder, 'assets', name));
}

/** @returns {Promise<boolean>} whether anything had to be built. */
export async function build({ ifStale = false } = {}) {
  const stamp = join(root, 'dist', 'built.txt');
  const now = fingerprint();
  if (ifStale && existsSync(stamp) && readFileSync(stamp, 'utf8') === now) return false;
  const esbuild = await import('esbuild');
  const dashboard = buildDashboard(esbuild);
  const result = await esbuild.build({
    entryPoints: places.filter(([entry]) => existsSync(join(root, entry))).map(([entry, out]) => ({ in: entry, out })),
    absWorkingDir: root,
    outdir: 'dist',
    outbase: '.',
    bundle: true,
    external: externalPackages(),
    platform: 'node',
    format: 'esm',
    target: 'node20',
    sourcemap: true,
    sourcesContent: false,
    write: false,
    logLevel: 'warning',
  });
  for (const file of result.outputFiles) writeWhole(file.path, file.contents);
  await dashboard;
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
