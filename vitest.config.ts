import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { defineConfig } from 'vitest/config';

const root = import.meta.dirname;
const ignored = ['node_modules', 'dist', '.data', '.git'];

/**
 * Files of which each test is slow: `npm test` does not load them, since vitest would start a worker for each only to skip
 * all of it. A file whose path is on the command line is loaded all the same.
 */
function slowFiles(folder: string): string[] {
  return readdirSync(join(root, folder), { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) return ignored.includes(entry.name) ? [] : slowFiles(path);
    const isNamed = process.argv.some((word) => word.endsWith('.test.ts') && word.endsWith(path));
    if (isNamed || !path.endsWith('.test.ts')) return [];
    return readFileSync(join(root, path), 'utf8').includes('* @module-tag slow') ? [path] : [];
  });
}

const filters = process.argv.filter((word) => word.startsWith('--tags-filter'));
const isQuick = filters.length === 1 && filters[0] === '--tags-filter=!slow';

const shared = {
  pool: 'forks' as const,
  exclude: ['node_modules/**', 'dist/**', '.data/**', ...(isQuick ? slowFiles('') : [])],
  // The default of one second is too short on a busy machine.
  expect: { poll: { timeout: 20_000, interval: 100 } },
};

/** For what hangs. They are this long because a start of all servers takes minutes on a machine with much other work. */
const limitsOfServers = { testTimeout: 180_000, hookTimeout: 300_000 };

/**
 * unit: no servers. simulation: seeds of deploy/simulation. live: real servers, two of them shared, the rest per file.
 * journeys: the whole system, over HTTP. All but unit tests are one group, which ends with short files, so that no core
 * waits for a last long one. More files run concurrently than a small machine has cores, because tests mostly wait for
 * servers.
 */
export default defineConfig({
  test: {
    tags: [{ name: 'slow', description: 'What `npm test` shows in a quicker way; `npm run test:all` has them too.' }],
    experimental: { fsModuleCache: true, fsModuleCachePath: 'node_modules/.cache/vitest' },
    projects: [
      {
        test: {
          ...shared,
          name: 'unit',
          setupFiles: ['testing/property-sizes.ts'],
          provide: { isQuick },
          include: ['**/*.test.ts'],
          exclude: [...shared.exclude, '**/*.live.test.ts', 'deploy/journeys/**', 'deploy/simulation/**'],
          // Properties are tried hundreds of times, which takes seconds on a busy machine.
          testTimeout: 30_000,
          // A third of the time is waiting; each worker loads most of the code.
          maxWorkers: 3,
          isolate: false,
          sequence: { groupOrder: 0 },
        },
      },
      {
        test: {
          ...shared,
          name: 'simulation',
          include: ['deploy/simulation/**/*.test.ts'],
          exclude: [...shared.exclude, '**/*.live.test.ts'],
          testTimeout: 180_000,
          maxWorkers: 4,
          sequence: { groupOrder: 1 },
        },
      },
      {
        test: {
          ...shared,
          name: 'live',
          include: ['**/*.live.test.ts'],
          exclude: [...shared.exclude, 'deploy/journeys/**'],
          globalSetup: ['testing/memory-folder.ts', 'testing/build.ts', 'testing/setup.ts'],
          ...limitsOfServers,
          maxWorkers: 4,
          isolate: false,
          sequence: { groupOrder: 1 },
        },
      },
      {
        test: {
          ...shared,
          name: 'journeys',
          include: ['deploy/journeys/**/*.test.ts'],
          globalSetup: ['testing/memory-folder.ts', 'testing/build.ts'],
          ...limitsOfServers,
          maxWorkers: 4,
          sequence: { groupOrder: 1 },
        },
      },
    ],
  },
});
