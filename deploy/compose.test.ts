/** The files of deploy/compose match the code. The whole was never run here: no image can be pulled. */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { loadConfig } from '#common/process/config.ts';
import { findProgram } from '#deploy/local/programs.ts';
import { skipWithout } from '#testing/skip.ts';

const folder = 'deploy/compose';
const compose = readFileSync(`${folder}/compose.yaml`, 'utf8');
const example = readFileSync(`${folder}/example.env`, 'utf8');
/** Settings of the servers, and of the Caddyfile. */
const foreign = /^(POSTGRES_|CLICKHOUSE_(USER|DB|PASSWORD|DEFAULT_)|API_NAME$)/;

test('every setting of the composed processes exists', () => {
  const config = loadConfig([], {});
  const names = [...compose.matchAll(/^ +([A-Z][A-Z_]+):/gm)].map(([, name]) => name ?? '');
  expect(names.length).toBeGreaterThan(10);
  expect(names.filter((name) => !foreign.test(name) && !(name in config))).toEqual([]);
});

test('every variable that the file needs is in example.env, and every image has a version', () => {
  const needed = new Set([...compose.matchAll(/\$\{([A-Z_]+):\?\}/g)].map(([, name]) => name));
  const given = [...example.matchAll(/^([A-Z_]+)=/gm)].map(([, name]) => name);
  expect([...needed].sort()).toEqual(given.sort());
  const images = [...compose.matchAll(/^ +image: (.+)$/gm)].map(([, image]) => image);
  expect(images.filter((image) => !/:[\w.]+\}?$/.test(image ?? ''))).toEqual([]);
});

test('Caddy accepts the Caddyfile', (context) => {
  const program = findProgram(['caddy']);
  skipWithout(program !== undefined, 'caddy', context);
  const env = { PATH: process.env['PATH'] ?? '', HOME: '/nonexistent', API_NAME: 'api.example.com' };
  const adapted = execFileSync(program ?? '', ['adapt', '--config', `${folder}/Caddyfile`], {
    env,
    encoding: 'utf8',
    stdio: 'pipe',
  });
  expect(adapted).toContain('http://origin:9090/tls-allowed');
});
