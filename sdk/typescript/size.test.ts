import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { build } from 'esbuild';
import { expect, test } from 'vitest';

const folder = fileURLToPath(new URL('.', import.meta.url));

/** Bytes after gzip, by the source that a chunk begins with. */
async function sizes(): Promise<Map<string, number>> {
  const { outputFiles, metafile } = await build({
    entryPoints: [`${folder}src/web.ts`],
    absWorkingDir: folder,
    outdir: 'out',
    bundle: true,
    splitting: true,
    minify: true,
    format: 'esm',
    target: 'es2022',
    metafile: true,
    write: false,
    logLevel: 'silent',
  });
  return new Map(
    Object.entries(metafile.outputs).map(([path, { entryPoint = path }]) => {
      const contents = outputFiles.find((file) => file.path === folder + path)?.contents ?? new Uint8Array();
      return [entryPoint.replace('src/', ''), gzipSync(contents, { level: 9 }).byteLength];
    }),
  );
}

test('a page loads at most 4.1 KiB for events and for receiving links, and 1.5 KiB more once it resolves or creates one', async () => {
  const found = await sizes();
  // What is shared between chunks would be loaded with the page too.
  expect([...found.keys()].sort()).toEqual(['check.ts', 'link-work.ts', 'web.ts']);
  expect(found.get('web.ts')).toBeLessThanOrEqual(4_198);
  expect(found.get('link-work.ts')).toBeLessThanOrEqual(1_536);
  expect(found.get('check.ts')).toBeLessThanOrEqual(1_024);
});

test('the package has no dependency', () => {
  const about = JSON.parse(readFileSync(`${folder}package.json`, 'utf8')) as Record<string, unknown>;
  expect(Object.keys(about).filter((name) => /dependencies/i.test(name))).toEqual([]);
});
