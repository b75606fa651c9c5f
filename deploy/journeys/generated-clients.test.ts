/**
 * Clients that two common generators make from the description, compiled and run as programs against a whole Signpost.
 *
 * @module-tag slow
 */
import { execFile } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { createClient } from '@hey-api/openapi-ts';
import { build } from 'esbuild';
import openapiTypes, { astToString } from 'openapi-typescript';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { packageRoot } from '#common/process/paths.ts';
import { login, Stack } from './stack.ts';

const run = promisify(execFile);
const description = join(packageRoot(), 'docs/openapi.json');
const programs = ['openapi-fetch', 'hey-api'] as const;
const options = ['--strict', '--noEmit', '--skipLibCheck', '--allowImportingTsExtensions', '--types', 'node'];
const modules = ['--target', 'ES2023', '--module', 'ESNext', '--moduleResolution', 'Bundler'];

let stack: Stack;
let folder: string;

beforeAll(async () => {
  stack = await Stack.start();
  folder = mkdtempSync(join(tmpdir(), 'signpost-clients-'));
  symlinkSync(join(packageRoot(), 'node_modules'), join(folder, 'node_modules'));
  cpSync(join(packageRoot(), 'deploy/journeys/clients'), folder, { recursive: true });
});
afterAll(async () => {
  await stack.stop();
  rmSync(folder, { recursive: true, force: true });
});

test('clients generated from the description compile, and drive login, apps, links, the SDK endpoints and analytics', async () => {
  const document = JSON.parse(readFileSync(description, 'utf8'));
  const types = astToString(await openapiTypes(document));
  // A type without any field that is not called free-form: nothing could be assigned to it.
  expect(types.replace(/^export type \S+ = Record<string, never>;$/gm, '')).not.toContain('Record<string, never>');
  writeFileSync(join(folder, 'api.ts'), types);
  await createClient({
    input: document,
    output: join(folder, 'hey-api'),
    plugins: ['@hey-api/client-fetch', '@hey-api/sdk', '@hey-api/typescript'],
    logs: { level: 'silent' },
  });
  const sources = programs.map((name) => join(folder, `${name}.ts`));
  const tsc = join(packageRoot(), 'node_modules/typescript/bin/tsc');
  const checked = await run(process.execPath, [tsc, ...options, ...modules, ...sources], { cwd: folder }).catch(
    (error: unknown) => error as { stdout: string },
  );
  expect(checked.stdout).toBe('');

  await build({
    entryPoints: sources,
    outdir: folder,
    outExtension: { '.js': '.mjs' },
    bundle: true,
    format: 'esm',
    platform: 'node',
  });
  for (const name of programs) {
    const environment = [
      'env',
      `NODE_EXTRA_CA_CERTS=${join(stack.dataDir, 'tls/cert.pem')}`,
      process.execPath,
    ] as const;
    const [command, ...words] = environment;
    const base = `https://127.0.0.1:${stack.apiPort}/v1`;
    const { stdout } = await run(command, [...words, join(folder, `${name}.mjs`), base, login.email, login.password]);
    expect(JSON.parse(stdout), name).toEqual({
      title: 'Shoes',
      coupon: 'SUN',
      listed: [true],
      matched: true,
      ref: 'mail',
      attributed: true,
      accepted: 1,
      revenue: '19.99 EUR',
      missing: 'NOT_FOUND',
    });
  }
});
