/** Checks what docs/supply-chain.md says about the packages that `npm ci` installs. */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { expect, test } from 'vitest';

interface Entry {
  readonly integrity?: string;
  readonly link?: boolean;
  readonly optional?: boolean;
  readonly os?: readonly string[];
  readonly cpu?: readonly string[];
  readonly libc?: readonly string[];
}

const page = readFileSync('docs/supply-chain.md', 'utf8');
const lockFiles = [
  'package-lock.json',
  ...readdirSync('deploy/packages', { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map((entry) => join('deploy', 'packages', entry.name, 'package-lock.json')),
];

function unverified(file: string): [string, Entry][] {
  const { packages } = JSON.parse(readFileSync(file, 'utf8')) as { packages: Record<string, Entry> };
  return Object.entries(packages).filter(([at, entry]) => at !== '' && entry.link !== true && !entry.integrity);
}

const isForHere = ({ os, cpu, libc }: Entry) =>
  (os === undefined || os.includes('linux')) &&
  (cpu === undefined || cpu.includes('x64')) &&
  (libc === undefined || libc.includes('glibc'));

test('every package that the tests run with has an integrity in its lock file', () => {
  expect(lockFiles.length).toBeGreaterThan(1);
  for (const file of lockFiles) {
    const wrong = unverified(file).filter(
      ([at, entry]) => entry.optional !== true || (isForHere(entry) && !/musl/.test(at)),
    );
    expect(wrong.map(([at]) => `${file}: ${at}`)).toEqual([]);
  }
});

test('the packages without an integrity are those that the page names', () => {
  const found = lockFiles.flatMap(unverified).map(([at]) => at.slice(at.lastIndexOf('node_modules/') + 13));
  const listed = [...page.matchAll(/^- `([^`]+)`$/gm)].map((match) => match[1] ?? '');
  expect(listed.filter((name) => !name.endsWith('.node')).sort()).toEqual([...new Set(found)].sort());
});

test('the binaries of uWebSockets.js have the checksums on the page', () => {
  const folder = 'node_modules/uWebSockets.js/dist/bin';
  const listed = new Map(
    [...page.matchAll(/^\| `(uws_\S+\.node)` \| `([0-9a-f]{64})` \|$/gm)].map(([, name, sum]) => [name, sum]),
  );
  const found = new Map(
    readdirSync(folder).map((name) => [
      name,
      createHash('sha256')
        .update(readFileSync(join(folder, name)))
        .digest('hex'),
    ]),
  );
  expect(listed).toEqual(found);
});

test('npm run sbom lists what a production image installs, in CycloneDX with hashes', {
  tags: ['slow'],
  timeout: 60_000,
}, () => {
  const { stdout, stderr } = spawnSync('npm', ['run', '--silent', 'sbom'], {
    encoding: 'utf8',
    maxBuffer: 64 * 1024 * 1024,
  });
  expect(stderr).not.toMatch(/npm error/);
  const sbom = JSON.parse(stdout) as {
    bomFormat: string;
    components: { name: string; version: string; hashes?: { alg: string; content: string }[] }[];
  };
  expect(sbom.bomFormat).toBe('CycloneDX');
  const names = sbom.components.map(({ name }) => name);
  const { dependencies } = JSON.parse(readFileSync('package.json', 'utf8')) as {
    dependencies: Record<string, string>;
  };
  expect(Object.keys(dependencies).filter((name) => !names.includes(name))).toEqual([]);
  expect(names).not.toContain('vitest');
  const unhashed = sbom.components.filter(({ hashes }) => hashes?.[0]?.alg !== 'SHA-512').map(({ name }) => name);
  expect(unhashed).toEqual([]);
});

interface Notices {
  packagesOf(files: readonly string[]): string[];
  packagesBelow(folder: string): string[];
  noticesOf(folders: readonly string[], apache: string): string;
}

test('the licences of everything that a production image or the dashboard contains are in its notices', async () => {
  const { noticesOf, packagesBelow, packagesOf }: Notices = await import(resolve('deploy/packages/notices.mjs'));
  const apache = readFileSync('LICENSE', 'utf8');
  const { packages } = JSON.parse(readFileSync('package-lock.json', 'utf8')) as {
    packages: Record<string, { dev?: boolean }>;
  };
  const production = Object.keys(packages).filter((at) => at !== '' && packages[at]?.dev !== true && existsSync(at));
  const below = packagesBelow('node_modules');
  expect(production.filter((at) => !below.includes(at))).toEqual([]);
  const text = noticesOf(production, apache);
  for (const at of production) {
    const { name, version } = JSON.parse(readFileSync(join(at, 'package.json'), 'utf8')) as {
      name: string;
      version: string;
    };
    expect(text).toContain(`\n${name} ${version}\n`);
  }
  expect(text).toContain(`The binaries are uWebSockets.js by Alex Hultman and contributors`);
  const bundle = [
    'node_modules/react-dom/client.js',
    'node_modules/@fontsource-variable/inter/files/a.woff2',
    'dashboard/app.tsx',
  ];
  const dashboard = noticesOf(packagesOf(bundle), apache);
  expect(dashboard).toContain('Permission is hereby granted, free of charge');
  expect(dashboard).toMatch(/SIL OPEN FONT LICENSE Version 1\.1/i);
});
