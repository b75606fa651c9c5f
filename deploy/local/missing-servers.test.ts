import { afterEach, expect, test, vi } from 'vitest';
import { missingServers, refuseMissingServers } from './missing-servers.ts';

const here = { arch: process.arch };

/** A machine for which no package provides a server, with nothing on the PATH. */
function standOnAnotherMachine(): void {
  Object.defineProperty(process, 'arch', { value: 'riscv64', configurable: true });
  vi.stubEnv('PATH', '/nowhere');
}

afterEach(() => {
  Object.defineProperty(process, 'arch', { value: here.arch, configurable: true });
  vi.unstubAllEnvs();
});

test('every server that neither a package nor the PATH provides is named immediately, with the command that installs it', () => {
  standOnAnotherMachine();
  const missing = missingServers().join('\n');
  expect(missing).toMatch(/No nats-server for \w+ riscv64 was found: .*'brew install nats-server'.*NATS_URL/);
  expect(missing).toMatch(/No ClickHouse engine for \w+ riscv64 was found: .*CLICKHOUSE_URL/);
  expect(() => refuseMissingServers()).toThrow(missing.split('\n')[0]);
});

test('a server with a configured URL is not looked for', () => {
  standOnAnotherMachine();
  const urls = {
    DATABASE_URL: 'postgres://a.example/db',
    NATS_URL: 'nats://a.example',
    REDIS_URL: 'redis://a.example',
    CLICKHOUSE_URL: 'http://a.example',
  };
  expect(missingServers(urls)).toEqual([]);
});

test('for a real domain, npm start refuses the stand-in for Redis unless a setting allows it', () => {
  vi.stubEnv('PATH', '/nowhere');
  const real = { SHORT_LINK_DOMAIN: 'go.example.com' };
  expect(missingServers({ SHORT_LINK_DOMAIN: 'localhost' })).toEqual([]);
  expect(missingServers(real)).toEqual([
    expect.stringMatching(/stand-in .* only for development.*REDIS_STAND_IN=true/),
  ]);
  expect(() => refuseMissingServers(real)).toThrow(/apt install redis-server/);
  expect(missingServers({ ...real, REDIS_STAND_IN: true })).toEqual([]);
  expect(missingServers({ ...real, REDIS_URL: 'redis://a.example' })).toEqual([]);
});
