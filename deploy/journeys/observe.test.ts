/** What deploy/observe watches is what the processes show, and every alert has a runbook. */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { findProgram } from '#deploy/local/programs.ts';
import { skipWithout } from '#testing/skip.ts';
import { Stack } from './stack.ts';

const alerts = readFileSync('deploy/observe/alerts.yml', 'utf8');
const dashboard = JSON.parse(readFileSync('deploy/observe/dashboard.json', 'utf8')) as {
  panels: { targets: { expr: string }[] }[];
};
const promtool = findProgram(['promtool']);

let stack: Stack;
beforeAll(async () => {
  stack = await Stack.start();
});
afterAll(() => stack.stop());

/** Every metric name in an expression: what is not a function, a keyword or a label. */
function metricsIn(expr: string): string[] {
  const bare = expr
    .replaceAll(/(?:by|on|without) \([^)]*\)/g, ' ')
    .replaceAll(/"[^"]*"/g, (text) => (/^"[a-z_|]+"$/.test(text) ? text.replaceAll(/["|]/g, ' ') : ' '));
  return [...bare.matchAll(/\b[a-z]+(?:_[a-z0-9]+)+\b(?!\s*\()/g)]
    .map(([name]) => name)
    .filter((name) => !/^(?:__|match_type$|dead_letters$|in_doubt$|histogram_quantile$)/.test(name));
}

test('every metric of the alerts and the dashboard is one that a running installation shows', async () => {
  await (await stack.loggedIn())('/me');
  const listed: { metrics_url: string | null }[] = JSON.parse(
    readFileSync(join(stack.dataDir, 'processes.json'), 'utf8'),
  );
  const urls = listed.flatMap(({ metrics_url }) => (metrics_url === null ? [] : [`${metrics_url}/metrics`]));
  const pages = await Promise.all(urls.map(async (url) => (await fetch(url)).text()));
  const shown = new Set(
    pages.flatMap((page) => [...page.matchAll(/^(?:# TYPE )?([a-z_0-9]+)/gm)].map(([, name]) => name)),
  );
  const exprs = [...alerts.matchAll(/expr: (?:>-\n)?((?:.|\n)*?)\n {8}(?:for|labels):/g)].map(([, expr]) => expr ?? '');
  expect(exprs.length).toBe((alerts.match(/- alert: /g) ?? []).length);
  const used = [...exprs, ...dashboard.panels.flatMap(({ targets }) => targets.map(({ expr }) => expr))].flatMap(
    metricsIn,
  );
  expect(new Set(used).size).toBeGreaterThan(25);
  expect([...new Set(used)].filter((name) => !shown.has(name))).toEqual([]);
});

test('every alert has a runbook, and every runbook an alert', () => {
  const named = [...alerts.matchAll(/- alert: (\w+)/g)].map(([, name]) => name);
  const runbooks = [...readFileSync('docs/runbooks.md', 'utf8').matchAll(/^## (\w+)$/gm)].map(([, name]) => name);
  expect(named).toEqual(runbooks);
  for (const name of named) expect(alerts).toContain(`runbook: docs/runbooks.md#${name?.toLowerCase()}\n`);
});

test('the rules are valid, and each fires when its condition lasts and not before', (context) => {
  skipWithout(promtool !== undefined, 'promtool', context);
  const run = (...words: string[]) => execFileSync(promtool ?? '', words, { encoding: 'utf8', stdio: 'pipe' });
  expect(run('check', 'rules', 'deploy/observe/alerts.yml')).toContain('SUCCESS');
  expect(run('test', 'rules', 'deploy/observe/alerts.test.yml')).toContain('SUCCESS');
});
