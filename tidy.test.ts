/**
 * Checks the structure of the project: walls between rooms, one vendor per file, names, sizes. The tables below are the
 * rules; ARCHITECTURE.md explains them.
 */
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { expect, test } from 'vitest';

const rooms = [
  'common',
  'gateway',
  'publisher',
  'ingest',
  'api',
  'redirector',
  'webhooks',
  'dashboard',
  'sdk',
  'clickhouse',
  'pg-migrations',
  'bench',
  'deploy',
  'testing',
] as const;
type Room = (typeof rooms)[number];

/** What the code of a room may import, besides itself. */
const walls: Record<Room, readonly Room[]> = {
  common: [],
  clickhouse: ['common'],
  'pg-migrations': ['common'],
  gateway: ['common'],
  redirector: ['common'],
  publisher: ['common'],
  webhooks: ['common', 'clickhouse'],
  ingest: ['common', 'clickhouse'],
  api: ['common', 'clickhouse'],
  // A browser's program: it uses the API over HTTP only.
  dashboard: [],
  // Packages of their own.
  sdk: [],
  bench: rooms,
  deploy: rooms,
  testing: rooms,
};

/** Each vendor's package is imported by one file; all other code uses that file. */
const vendors: Record<string, readonly string[]> = {
  'uWebSockets.js': ['common/http/uws.ts'],
  nats: ['common/stores/nats.ts'],
  pg: ['common/stores/postgres.ts'],
  ioredis: ['common/stores/redis.ts'],
  '@clickhouse/client': ['clickhouse/client.ts'],
  chdb: ['deploy/local/clickhouse/'],
  '@opentelemetry/api': ['common/tracing/tracing.ts'],
  '@opentelemetry/sdk-trace': ['common/tracing/tracing.ts'],
  'fast-jwt': ['common/access-token.ts'],
  '@node-rs/argon2': ['api/auth/password.ts'],
};

const bannedInNames = /(^|[-./])(utils?|helpers?|manager|service|handler|process|data|info|misc|index)([-.]|$)/;
const LINES_MAX = 400;
const FUNCTION_LINES_MAX = 70;
/** A component is mostly markup, one attribute on a line. */
const COMPONENT_LINES_MAX = 120;

const tracked = execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard'], { encoding: 'utf8' })
  .split('\n')
  .filter((file) => file !== '' && existsSync(file));
const sources = tracked.filter((file) => /\.tsx?$/.test(file) && !file.endsWith('.d.ts'));
/** Tests, and what only tests import. */
const isTest = (file: string) => /\.test\.ts$|(?:^|\/)testing\//.test(file);
/** Suites that have their own commands, and their helpers. */
const isSuite = (file: string) => /^bench\/|^deploy\/(?:faults|journeys|simulation)\//.test(file);
const textOf = (file: string) => readFileSync(file, 'utf8');
const roomOf = (path: string) => rooms.find((room) => path.startsWith(`${room}/`));

function importsOf(file: string): string[] {
  const found = textOf(file).matchAll(
    /(?:^|\s)(?:import|export)\s[^'"`;]*?from\s+'([^']+)'|import\('([^']+)'\)|^import\s+'([^']+)'/gm,
  );
  return [...found].map((match) => match[1] ?? match[2] ?? match[3] ?? '');
}

const code = sources.filter((file) => !isTest(file));

test('the file search finds the sources', () => {
  expect(code.length).toBeGreaterThan(10);
});

test('no import goes up with ../, and none leaves out the .ts', () => {
  const faults = sources.flatMap((file) =>
    importsOf(file)
      .filter((target) => target.startsWith('../') || (/^[.#]/.test(target) && !/\.(tsx?|json|css)$/.test(target)))
      .map((target) => `${file} → ${target}`),
  );
  expect(faults).toEqual([]);
});

test('a room imports only the rooms on its list', () => {
  const faults = code.flatMap((file) => {
    const from = roomOf(file);
    if (!from) return [];
    return importsOf(file).flatMap((target) => {
      const to = target.startsWith('#') ? roomOf(target.slice(1)) : undefined;
      return to && to !== from && !walls[from].includes(to) ? [`${file} → ${target}`] : [];
    });
  });
  expect(faults).toEqual([]);
});

test('no product code imports what only tests use', () => {
  const faults = code
    .filter((file) => !isSuite(file))
    .flatMap((file) =>
      importsOf(file)
        .filter((target) => isTest(target.replace('#', '')))
        .map((target) => `${file} → ${target}`),
    );
  expect(faults).toEqual([]);
});

test('no file imports itself through others, not even for a type', () => {
  const imports = new Map(
    code.map((file) => [
      file,
      importsOf(file)
        .filter((target) => /^[.#]/.test(target))
        .map((target) => (target.startsWith('#') ? target.slice(1) : join(dirname(file), target))),
    ]),
  );
  const circles: string[] = [];
  const settled = new Set<string>();
  const walk = (file: string, path: readonly string[]): void => {
    const at = path.indexOf(file);
    if (at !== -1) circles.push([...path.slice(at), file].join(' → '));
    if (at !== -1 || settled.has(file)) return;
    for (const target of imports.get(file) ?? []) walk(target, [...path, file]);
    settled.add(file);
  };
  for (const file of imports.keys()) walk(file, []);
  expect(circles).toEqual([]);
});

test('a redirector does not load the schema library, which takes 20 MB', () => {
  const loaded = new Set<string>();
  const load = (file: string): void => {
    if (loaded.has(file)) return;
    loaded.add(file);
    if (!file.endsWith('.ts')) return;
    for (const [, target = ''] of textOf(file).matchAll(/^(?:import|export) (?!type )[^'"`;]*?from '([^']+)'/gm))
      load(target.startsWith('#') ? target.slice(1) : target.startsWith('./') ? join(dirname(file), target) : target);
  };
  load('redirector/main.ts');
  expect([loaded.has('lru-cache'), loaded.has('typebox')]).toEqual([true, false]);
});

test('within api, no entity imports another, and only analytics imports ClickHouse', () => {
  const faults = code
    .filter((file) => file.startsWith('api/') && dirname(file) !== 'api')
    .flatMap((file) => {
      const own = file.split('/')[1];
      return importsOf(file).flatMap((target) => {
        const other = /^#api\/([^/]+)\//.exec(target)?.[1];
        const crosses = other !== undefined && other !== own && own !== 'admin';
        const reads = target.startsWith('#clickhouse/') && own !== 'analytics' && own !== 'admin';
        return crosses || reads ? [`${file} → ${target}`] : [];
      });
    });
  expect(faults).toEqual([]);
});

test('each vendor is imported only by its one file', () => {
  const faults = code.flatMap((file) =>
    importsOf(file).flatMap((target) => {
      const doors = vendors[target];
      return doors && !doors.some((door) => file.startsWith(door)) ? [`${file} → ${target}`] : [];
    }),
  );
  // The minimal server for comparison is the vendor's own, without our kernel.
  expect(faults.filter((fault) => !fault.startsWith('bench/'))).toEqual([]);
});

test('only common/process/config.ts reads the environment', () => {
  const readers = code.filter(
    (file) => file !== 'common/process/config.ts' && !isSuite(file) && /process\.env\b/.test(textOf(file)),
  );
  expect(readers).toEqual([]);
});

test('file names are nouns that describe the content', () => {
  expect(sources.filter((file) => bannedInNames.test(basename(file)))).toEqual([]);
});

test(`no file is longer than ${LINES_MAX} lines`, () => {
  const long = sources.filter((file) => !isTest(file) && textOf(file).split('\n').length > LINES_MAX);
  expect(long).toEqual([]);
});

test(`no function is longer than ${FUNCTION_LINES_MAX} lines, no component than ${COMPONENT_LINES_MAX}`, () => {
  const long: string[] = [];
  for (const file of code) {
    const lines = textOf(file).split('\n');
    for (const [at, line] of lines.entries()) {
      const start =
        /^( *)(?:export )?(?:default )?(?:static |private |async |get |set )*(?:function\b|[#\w]+(?:<[^>]*>)?\([^)]*\)?.*\{$)/.exec(
          line,
        );
      if (!start || /^ *(?:if|for|while|switch|return|else|await|test|describe|expect)\b/.test(line)) continue;
      const end = lines.findIndex((next, below) => below > at && next.startsWith(`${start[1]}}`));
      if (end - at > (file.endsWith('.tsx') ? COMPONENT_LINES_MAX : FUNCTION_LINES_MAX))
        long.push(`${file}:${at + 1} (${end - at} lines)`);
    }
  }
  expect(long).toEqual([]);
});

test('the code has no open to-dos, and no test is switched off', () => {
  const mark = new RegExp(`\\b(${['TO', 'DO'].join('')}|${['FIX', 'ME'].join('')}|X{3}|HACK)\\b`);
  const off = new RegExp(`\\b(?:it|test|describe)\\.(?:${['on', 'ly'].join('')}|todo)\\(`);
  expect(sources.filter((file) => file !== 'tidy.test.ts' && mark.test(textOf(file)))).toEqual([]);
  expect(sources.filter((file) => isTest(file) && off.test(textOf(file)))).toEqual([]);
});

test('every optional package of the lock file is in it, so that npm ci accepts it everywhere', () => {
  type Entry = { optionalDependencies?: Record<string, string> };
  const { packages } = JSON.parse(textOf('package-lock.json')) as { packages: Record<string, Entry> };
  const missing = Object.entries(packages).flatMap(([at, entry]) =>
    Object.keys(entry.optionalDependencies ?? {}).flatMap((name) => {
      for (let dir = at; ; dir = dir.slice(0, Math.max(0, dir.lastIndexOf('/node_modules/')))) {
        if (packages[`${dir === '' ? '' : `${dir}/`}node_modules/${name}`]) return [];
        if (dir === '') return [`${name}, wanted by ${at}`];
      }
    }),
  );
  expect(missing).toEqual([]);
});

test('no required package is bound to a platform, so that npm ci accepts the lock file everywhere', () => {
  type Entry = { os?: unknown; cpu?: unknown; libc?: unknown; optional?: boolean };
  const { packages } = JSON.parse(textOf('package-lock.json')) as { packages: Record<string, Entry> };
  const bound = Object.entries(packages).filter(
    ([, { os, cpu, libc, optional }]) => (os ?? cpu ?? libc) !== undefined && optional !== true,
  );
  expect(bound.map(([at]) => at)).toEqual([]);
});

test('versions are exact', () => {
  const loose = tracked
    .filter((file) => basename(file) === 'package.json')
    .flatMap((file) => {
      type Versions = Record<string, string>;
      const { dependencies, devDependencies, optionalDependencies } = JSON.parse(textOf(file)) as Record<
        string,
        Versions
      >;
      return Object.entries({ ...dependencies, ...devDependencies, ...optionalDependencies });
    })
    .filter(([, version]) => !/^(npm:[\w-]+@)?\d+\.\d+\.\d+(-[\w.]+)?$/.test(version));
  expect(loose).toEqual([]);
});

test('every link in a page leads to an existing file', () => {
  const pages = tracked.filter((file) => file.endsWith('.md'));
  const broken = pages.flatMap((page) =>
    [...textOf(page).matchAll(/\]\((?!https?:|#|mailto:)([^)#\s]+)/g)].flatMap((match) =>
      existsSync(join(dirname(page), match[1] ?? '')) ? [] : [`${page} → ${match[1]}`],
    ),
  );
  expect(broken).toEqual([]);
});
