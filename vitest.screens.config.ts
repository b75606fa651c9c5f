/** `npm run screens`: pictures of every screen of the dashboard to docs/dashboard. */
import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    pool: 'forks',
    include: ['api/**/*.screens.ts'],
    globalSetup: ['testing/build.ts', 'testing/setup.ts'],
    maxWorkers: 1,
    testTimeout: 300_000,
    hookTimeout: 120_000,
  },
});
