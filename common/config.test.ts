import { expect, test } from 'vitest';
import { ConfigError, loadConfig } from './config.ts';

test('all faults are named at once, and no secret is shown', () => {
  let told: readonly string[] = [];
  try {
    loadConfig(['NATS_URL'], { API_PORT: 'x', DATABASE_URL: 'http://user:hush@host', LOG_LEVEL: 'loud' });
  } catch (error) {
    if (error instanceof ConfigError) told = error.faults;
  }
  expect(told.map((fault) => fault.split(' ')[0])).toEqual(['LOG_LEVEL', 'DATABASE_URL', 'API_PORT', 'NATS_URL']);
  expect(told.join()).not.toContain('hush');
});

test('what is not given has its default, and empty text is not given', () => {
  expect(loadConfig([], { API_PORT: '' })).toMatchObject({ API_PORT: 8443, DATA_DIR: '.data', CORS_ORIGINS: [] });
});
