/**
 * What deploy/observe watches is what the processes show, and traces reach a collector.
 *
 * @module-tag slow
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Collector } from './collector.ts';
import { LoadedModules } from './loaded-modules.ts';
import { Stack } from './stack.ts';

const alerts = readFileSync('deploy/observe/alerts.yml', 'utf8');
const dashboard = JSON.parse(readFileSync('deploy/observe/dashboard.json', 'utf8')) as {
  panels: { targets: { expr: string }[] }[];
};

let collector: Collector;
let modules: LoadedModules;
let stack: Stack;
beforeAll(async () => {
  collector = await Collector.start();
  modules = new LoadedModules();
  stack = await Stack.start({
    OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
    OTEL_TRACES_SAMPLER_ARG: '1',
    NODE_OPTIONS: modules.nodeOptions,
  });
});
afterAll(async () => {
  await stack.stop();
  modules.remove();
  await collector.stop();
});

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

interface ShownMetric {
  readonly type: string;
  readonly help: string;
  readonly processes: Set<string>;
}

/** Every metric but those of Node itself, which differ between its versions. */
async function shownMetrics(): Promise<Map<string, ShownMetric>> {
  const found = new Map<string, ShownMetric>();
  const listed: { name: string; metrics_url: string | null }[] = JSON.parse(
    readFileSync(join(stack.dataDir, 'processes.json'), 'utf8'),
  );
  for (const { name: process, metrics_url } of listed) {
    if (metrics_url === null) continue;
    const page = await (await fetch(`${metrics_url}/metrics`)).text();
    for (const [, name = '', help = '', type = ''] of page.matchAll(/^# HELP (\S+) (.*)\n# TYPE \S+ (\S+)$/gm)) {
      if (/(^|_)(nodejs|process)_/.test(name)) continue;
      const known = found.get(name) ?? { type, help, processes: new Set() };
      known.processes.add(process.replace(/-\d+$/, '').replace('origin', 'api, gateway'));
      found.set(name, known);
    }
  }
  return found;
}

test('docs/metrics.md lists every metric that a running installation shows; their names have one prefix and base units (written with: vitest -u)', async () => {
  const shown = await shownMetrics();
  // One prefix, and a counter ends with _total; seconds and bytes are the only units of time and size.
  for (const [name, { type }] of shown) {
    expect(name).toMatch(/^signpost_[a-z_]+$/);
    expect(name).not.toMatch(/_(?:ms|milliseconds|us|kb|mb|gb)(?:_|$)/);
    expect(name.endsWith('_total'), name).toBe(type === 'counter');
  }
  const rows = [...shown].sort(([a], [b]) => (a < b ? -1 : 1));
  const lines = rows.map(
    ([name, { type, help, processes }]) =>
      `| \`${name}\` | ${type} | ${[...processes].sort().join(', ')} | ${help.replaceAll('|', '\\|')} |`,
  );
  const page = `# Metrics

This page lists every metric at \`/metrics\`, as the processes describe them, for operators who build dashboards and alerts. Counters start at 0
with their process. Node's own metrics (\`process_…\`, \`nodejs_…\`) are not listed.

- [operating.md](operating.md#monitoring) says which metrics to watch.
- [runbooks.md](runbooks.md) says what to do about an alert.

\`deploy/journeys/observe.test.ts\` generates this page, and compares it with a running installation.

| Metric | Type | Processes | Meaning |
|---|---|---|---|
${lines.join('\n')}
`;
  await expect(page).toMatchFileSnapshot('../../docs/metrics.md');
});

const chromeOnAndroid =
  'Mozilla/5.0 (Linux; Android 14; Pixel 8) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/125.0.0.0 Mobile Safari/537.36';

test('the trace of a click has the redirect, its publishing, its batch and its insert into ClickHouse; that of a request its statements', async () => {
  const call = await stack.loggedIn();
  const create = { name: 'Traced', fallback_url: 'https://example.com/' };
  const app = (await call('/apps', { method: 'POST', body: create })).json<{ id: string; host: string }>();
  const link = (await call('/links', { method: 'POST', body: { app_id: app.id, path: '/traced' } })).json<{
    id: string;
    short_code: string;
  }>();
  const visit = { headers: { host: app.host, 'user-agent': chromeOnAndroid } };
  const reply = await stack.redirector(`/${link.short_code}?secret=hush`, visit);
  expect(reply.status).toBe(302);

  const traceOfClick = () => {
    const redirect = collector.spans.find(({ attributes }) => attributes['signpost.link_id'] === link.id);
    return redirect === undefined ? [] : collector.pathsOf(redirect.traceId);
  };
  await expect.poll(() => traceOfClick().length, { timeout: 20_000, interval: 100 }).toBeGreaterThanOrEqual(7);
  // The redirector looked the link up, since it was new to it.
  const [root = '', ...below] = traceOfClick();
  expect(root).toBe('redirector GET /{short_code}');
  expect(below).toContainEqual(expect.stringMatching(/ > redirector SELECT .*\blinks\b/));
  expect(new Set(below.filter((path) => !path.includes(' > redirector SELECT ')))).toEqual(
    new Set([
      `${root} > publisher publish log.click.0`,
      `${root} > ingest store batch`,
      `${root} > ingest store batch > ingest INSERT clicks`,
      `${root} > ingest store batch > ingest commit marks`,
    ]),
  );

  const overview = await call(`/analytics/overview?link_id=${link.id}`);
  const requestId = overview.headers['x-request-id'];
  const traceOfRequest = () => {
    const span = collector.spans.find(({ attributes }) => attributes['signpost.request_id'] === requestId);
    return span === undefined ? [] : collector.pathsOf(span.traceId);
  };
  await expect.poll(() => traceOfRequest().length, { timeout: 20_000, interval: 100 }).toBeGreaterThan(2);
  const request = 'origin GET /analytics/overview';
  expect(traceOfRequest()[0]).toBe(request);
  expect(traceOfRequest()).toContainEqual(expect.stringMatching(`^${request} > origin SELECT clicks_by_`));

  // Nothing about the visitor, the caller or the values of statements.
  const all = collector.bodies.join();
  for (const secret of ['hush', '127.0.0.1', 'Pixel', 'Bearer', 'first@example.com', app.host, link.short_code])
    expect(all).not.toContain(secret);
});

test('the SDK of OpenTelemetry is loaded by the processes that send traces', async () => {
  for (const name of ['origin', 'redirector-0', 'publisher', 'ingest']) {
    expect(await modules.of(stack.pidOf(name)), name).toContain('@opentelemetry/sdk-trace');
  }
});
