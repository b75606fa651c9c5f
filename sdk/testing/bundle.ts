/** Bundles programs with the SDK, as an app's own build does. */
import { readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { build } from 'esbuild';
import { packageRoot } from '#common/process/paths.ts';

export interface BundleOptions {
  /** Relative to the project. */
  readonly entry: string;
  readonly platform: 'browser' | 'node';
  /** Texts of the entry that are replaced. */
  readonly replace?: Readonly<Record<string, string>>;
  /** Contents of modules that are not installed. */
  readonly modules?: Readonly<Record<string, string>>;
}

const source = (name: string) => join(packageRoot(), `sdk/typescript/src/${name}.ts`);

/** One file: its text. */
export async function bundle({ entry, platform, replace = {}, modules = {} }: BundleOptions): Promise<string> {
  const path = join(packageRoot(), entry);
  let contents = await readFile(path, 'utf8');
  for (const [from, to] of Object.entries(replace)) contents = contents.replaceAll(from, to);
  const result = await build({
    stdin: { contents, resolveDir: dirname(path), sourcefile: path, loader: path.endsWith('.ts') ? 'ts' : 'js' },
    alias: {
      '@signpost/sdk/web': source('web'),
      '@signpost/sdk/node': source('node'),
      '@signpost/sdk/react-native': source('react-native'),
    },
    plugins: [
      {
        name: 'stand-ins',
        setup(plugin) {
          const filter = /^[@\w]/;
          plugin.onResolve({ filter }, (one) =>
            one.path in modules ? { path: one.path, namespace: 'own' } : undefined,
          );
          plugin.onLoad({ filter: /.*/, namespace: 'own' }, (one) => ({ contents: modules[one.path] ?? '' }));
        },
      },
    ],
    bundle: true,
    format: 'esm',
    target: 'es2022',
    platform,
    write: false,
    logLevel: 'silent',
  });
  return result.outputFiles[0]?.text ?? '';
}
