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
/** Two programs that do the same with two generators, and one that uses the rest of the API with one of them. */
const programs = ['openapi-fetch', 'hey-api', 'whole-api'] as const;
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

const sameOfBoth = {
  title: 'Shoes',
  coupon: 'SUN',
  listed: [true],
  matched: true,
  ref: 'mail',
  attributed: true,
  accepted: 1,
  revenue: '19.99 EUR',
  missing: 'NOT_FOUND',
};
const whole = {
  keys: { scope: 'scope_missing', keys: 'server_key_not_accepted', isHidden: true, sdkLinks: 'sdk_links_off' },
  links: {
    path: '/products/1?color=red',
    statuses: [201, 200],
    isFound: true,
    bulk: [2, 1],
    taken: 'taken',
    isHolder: true,
    isReplayed: 'true',
    isSame: true,
    other: 'idempotency-key',
    pages: [4, 4],
    updated: 2,
    tags: [
      { tag: 'a', links: 1 },
      { tag: 'b', links: 2 },
      { tag: 'c', links: 2 },
    ],
    counts: [2, 2],
    deleted: 2,
  },
  foreign: [200, 200],
  figures: {
    events: ['from_posthog 1', 'from_segment 1', 'null 0', 'purchase 1'],
    certainty: ['guaranteed 1', 'null 0'],
    sources: ['mail 1 1', 'null 0 0'],
    page: [1, 1, 2],
    cohort: [1],
    funnel: ['click 1', 'install 1', 'purchase 1'],
    cost: [{ currency: 'EUR', amount: '8' }],
    usd: 'currency',
    isViewKept: true,
  },
  live: ['event: click', 'event: event', 'event: hello', 'event: install', 'event: match', 'event: open'],
  people: {
    members: ['owner'],
    isOpen: true,
    hasLink: true,
    name: 'Renamed',
    sessions: true,
    audit: ['updateOrganization', 'deleteInvitation'],
  },
  session: { status: 201, read: 200, foreign: 401, ended: 401 },
  explained: ['ios', 'link.ios_url', 302, 'https://example.com/products/1?color=red'],
  endedKey: 'UNAUTHORIZED',
};
const expected = { 'openapi-fetch': sameOfBoth, 'hey-api': sameOfBoth, 'whole-api': whole };

test('clients generated from the description compile, and drive every part of the API', async () => {
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
    expect(JSON.parse(stdout), name).toEqual(expected[name]);
  }
});
