/**
 * `npm run test:faults`: faults under load, minutes to an hour. FAULTS_SCALE and FAULTS_SEED set the size and the seed.
 */
import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    pool: 'forks',
    include: ['deploy/faults/**/*.fault.ts'],
    globalSetup: ['testing/build.ts'],
    setupFiles: ['testing/end-with-runner.ts'],
    maxWorkers: 1,
    testTimeout: 5_400_000,
    hookTimeout: 120_000,
    disableConsoleIntercept: true,
  },
});
