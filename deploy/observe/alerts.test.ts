import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { findProgram } from '#deploy/local/programs.ts';
import { skipWithout } from '#testing/skip.ts';

const alerts = readFileSync('deploy/observe/alerts.yml', 'utf8');
const promtool = findProgram(['promtool']);

test('every alert has a runbook, and every runbook an alert', () => {
  const named = [...alerts.matchAll(/- alert: (\w+)/g)].map(([, name]) => name);
  const runbooks = [...readFileSync('docs/runbooks.md', 'utf8').matchAll(/^## (\w+)$/gm)].map(([, name]) => name);
  expect(named).toEqual(runbooks);
  for (const name of named) expect(alerts).toContain(`runbook: docs/runbooks.md#${name?.toLowerCase()}\n`);
});

test('the rules are valid, and each fires when its condition lasts and not before', { tags: ['slow'] }, (context) => {
  skipWithout(promtool !== undefined, 'promtool', context);
  const run = (...words: string[]) => execFileSync(promtool ?? '', words, { encoding: 'utf8', stdio: 'pipe' });
  expect(run('check', 'rules', 'deploy/observe/alerts.yml')).toContain('SUCCESS');
  expect(run('test', 'rules', 'deploy/observe/alerts.test.yml')).toContain('SUCCESS');
});
