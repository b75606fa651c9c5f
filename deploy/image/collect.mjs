// Collects what an image needs: `node deploy/image/collect.mjs FOLDER`, after a build and `npm prune --omit=dev`.
import { cpSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { noticesOf, packagesBelow } from '../packages/notices.mjs';

const [folder = ''] = process.argv.slice(2);
if (folder === '') {
  console.error('Usage: node deploy/image/collect.mjs FOLDER');
  process.exit(1);
}

const binding = `uws_${process.platform}_${process.arch}_${process.versions.modules}.node`;
/** Parts of packages that no process loads. */
const unneeded = [
  /\.(map|d\.[cm]?ts)$/,
  // Copies for bundlers and browsers.
  /\/swagger-ui(-es-bundle|-es-bundle-core|-dist-es)[^/]*$|\/swagger-ui\.js$/,
  /\/@opentelemetry\/[^/]+\/build\/(esm|esnext)$/,
  /\/csv-parse\/dist\/(iife|umd)$/,
  /\/pngjs\/(browser\.js|coverage)$/,
  /\/bintrees\/test$/,
];
/** uWebSockets.js comes with 28 binaries of 5 MB. */
const isNeeded = (path) =>
  path.endsWith('.node') && basename(path).startsWith('uws_')
    ? basename(path) === binding
    : !unneeded.some((pattern) => pattern.test(path));

const target = join(folder, 'signpost');
mkdirSync(join(folder, 'data'), { recursive: true });
cpSync('package.json', join(target, 'package.json'));
cpSync('dist', join(target, 'dist'), { recursive: true });
cpSync('node_modules', join(target, 'node_modules'), { recursive: true, filter: isNeeded, verbatimSymlinks: true });
cpSync('clickhouse/migrations', join(target, 'clickhouse', 'migrations'), { recursive: true });
cpSync('deploy/image/health.sh', join(target, 'health.sh'));
cpSync('docs/api.md', join(target, 'docs', 'api.md'));
cpSync('pg-migrations', join(target, 'pg-migrations'), { recursive: true, filter: (path) => !path.endsWith('.ts') });
// The dashboard's packages are no longer installed: the build wrote their licences.
const assets = join('dist', 'dashboard', 'assets');
const licences = readdirSync(assets).filter((name) => /^licenses-\w+\.txt$/.test(name));
const apache = readFileSync('LICENSE', 'utf8');
cpSync('LICENSE', join(target, 'LICENSE'));
writeFileSync(
  join(target, 'NOTICE'),
  ['Signpost, Apache License 2.0 (LICENSE). It contains the following packages.\n']
    .concat(noticesOf(packagesBelow('node_modules'), apache))
    .concat(
      'The dashboard:\n',
      licences.map((name) => readFileSync(join(assets, name), 'utf8')),
    )
    .join('\n'),
);
console.log(`signpost ${JSON.parse(readFileSync('package.json', 'utf8')).version}, ${binding}`);
