import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { loadConfig } from '#common/process/config.ts';
import { processPlans, type StoreUrls } from '#deploy/local/launch-plan.ts';
import { findProgram } from '#deploy/local/programs.ts';
import { skipWithout } from '#testing/skip.ts';

const alerts = readFileSync('deploy/observe/alerts.yml', 'utf8');
const settingsText = readFileSync('deploy/single/signpost.env', 'utf8');
const promtool = findProgram(['promtool']);

test('the example of a Prometheus configuration scrapes the processes where npm start puts them, and loads the rules', () => {
  const example = readFileSync('deploy/observe/prometheus.yml', 'utf8');
  const config = loadConfig(
    [],
    Object.fromEntries([...settingsText.matchAll(/^(\w+)=(.*)$/gm)].map(([, n, v]) => [n, v])),
  );
  const stores = { database: {}, nats: {}, redis: {}, clickhouse: {} } as StoreUrls;
  const facts = { dataDir: '', secretKey: '', addressKey: '', certFile: '', keyFile: '', apiPort: 0, stores };
  const names = processPlans({ ...config, REDIRECTOR_PROCESSES: 2 }, facts).map(({ name }) => name);
  const targets = [...example.matchAll(/- 127\.0\.0\.1:(\d+) # (.*)/g)].map(([, port, name]) => [Number(port), name]);
  expect(targets).toEqual(
    names.map((name, at) => [config.METRICS_PORT + at, name === 'origin' ? 'API and SDK endpoints' : name]),
  );
  expect(example).toMatch(/rule_files:\n {2}- alerts\.yml\n/);
});

test('every alert has a runbook, and every runbook an alert', () => {
  const named = [...alerts.matchAll(/- alert: (\w+)/g)].map(([, name]) => name);
  const runbooks = [...readFileSync('docs/runbooks.md', 'utf8').matchAll(/^## (\w+)$/gm)].map(([, name]) => name);
  expect(named).toEqual(runbooks);
  for (const name of named) expect(alerts).toContain(`runbook: docs/runbooks.md#${name?.toLowerCase()}\n`);
});

test('the rules are valid, and each fires when its condition lasts and not before', { tags: ['slow'] }, (context) => {
  skipWithout(promtool !== undefined, 'promtool', context);
  const run = (...words: string[]) => execFileSync(promtool ?? '', words, { encoding: 'utf8', stdio: 'pipe' });
  expect(run('check', 'config', 'deploy/observe/prometheus.yml')).toContain('SUCCESS');
  expect(run('check', 'rules', 'deploy/observe/alerts.yml')).toContain('SUCCESS');
  expect(run('test', 'rules', 'deploy/observe/alerts.test.yml')).toContain('SUCCESS');
});
