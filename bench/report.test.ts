/** Tests the page with charts, and the load on a deployed system. */
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join, relative, sep } from 'node:path';
import { afterAll, expect, onTestFinished, test } from 'vitest';
import { packageRoot } from '#common/process/paths.ts';
import { AgainstError, loadAgainst } from './load/against.ts';
import { ownFolder, publishedFolder, writeResult } from './load/result-file.ts';
import { barChart } from './report-chart.ts';
import { reportPage } from './report-page.ts';
import { measurements } from './report-results.ts';

const folder = mkdtempSync(join(tmpdir(), 'signpost-report-'));
afterAll(() => rmSync(folder, { recursive: true }));

test('the page has a chart of every result in the repository, and loads nothing', () => {
  const page = reportPage(folder);
  for (const name of Object.keys(measurements).filter((one) => one !== 'against')) {
    const section = new RegExp(`<section id="${name}">([\\s\\S]*?)</section>`).exec(page)?.[1] ?? '';
    expect(section.match(/<svg/g)?.length, name).toBeGreaterThan(0);
    expect(section.match(/<rect class="c0"/g)?.length, name).toBeGreaterThan(0);
  }
  expect(page).not.toMatch(/<script|<link|<img|src=|@import|url\(|NaN|undefined/);
});

test('a newer run of this checkout is shown instead, and is marked as such', () => {
  const lists = { time: '2999-01-01T00:00:00Z', links: 7, lines: [{ list: 'a <b> & "c"', p50_ms: 2, p99_ms: 4 }] };
  writeFileSync(join(folder, 'lists.json'), JSON.stringify(lists));
  const page = reportPage(folder);
  expect(page).toContain('Lists of 7 links');
  expect(page).toContain('A run of this checkout, rough if it was a small one. 2999-01-01T00:00:00Z');
  expect(page).toContain('a &lt;b&gt; &amp; &quot;c&quot;');
});

test('a result is written where Git ignores it, not over the published one', () => {
  const file = join(ownFolder, 'of-a-test.json');
  onTestFinished(() => rmSync(file));
  writeResult('of-a-test', { figure: 7 });
  expect(JSON.parse(readFileSync(file, 'utf8'))).toMatchObject({ figure: 7 });
  expect(relative(packageRoot(), file).split(sep)[0]).toBe('.data');
  expect(readdirSync(publishedFolder)).not.toContain('of-a-test.json');
});

test('the length of a bar is proportional to its value, and that of a stacked row to the sum', () => {
  const widths = (svg: string) =>
    [...svg.matchAll(/<rect [^>]*width="(\d+(?:\.\d+)?)"[^>]*height="13"/g)].map(([, text]) => Number(text));
  const rows = [
    { label: 'a', values: [1, 3] },
    { label: 'b', values: [2, null] },
  ];
  const chart = { title: 't', unit: 'ms', series: ['x', 'y'], rows };
  const [one = 0, three = 0, two = 0, ...more] = widths(barChart(chart));
  expect([three / one, two / one, more.length]).toEqual([expect.closeTo(3, 1), expect.closeTo(2, 1), 0]);
  const [first = 0, second = 0] = widths(barChart({ ...chart, isStacked: true }));
  expect(second / first).toBeCloseTo(3, 1);
  expect(first + second).toBeCloseTo(860 - 300 - 90, 0);
});

test.each([
  ['that refuses', 'http://127.0.0.1:1/abc', /ECONNREFUSED/],
  ['whose name is unknown', 'http://nowhere.invalid/abc', /ENOTFOUND|EAI_AGAIN/],
])('load on a host %s gives the reason, not zeros', async (_what, url, reason) => {
  const failure = await loadAgainst({ url, seconds: 30, connections: 2, rate: 0 }).catch((error: unknown) => error);
  expect(failure).toBeInstanceOf(AgainstError);
  expect(String(failure)).toMatch(reason);
});

test('load on a deployed system counts its answers by kind', { tags: ['slow'] }, async () => {
  let requests = 0;
  let userAgent: string | undefined;
  const server = createServer((request, response) => {
    userAgent = request.headers['user-agent'];
    response.writeHead(requests++ % 2 === 0 ? 302 : 503, { location: 'https://example.com/' }).end();
  });
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
  const { port } = server.address() as AddressInfo;
  const result = await loadAgainst({ url: `http://127.0.0.1:${port}/abc`, seconds: 1, connections: 2, rate: 40 });
  server.closeAllConnections();
  server.close();
  expect(result.requests).toBeGreaterThan(5);
  expect(result.answers['3xx'] + result.answers['5xx']).toBe(result.requests);
  expect(result.answers['3xx']).toBeGreaterThan(0);
  expect(result.answers.none).toBe(0);
  expect(userAgent).toMatch(/bot/);
});
