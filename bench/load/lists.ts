/**
 * Measures how long GET /links takes over many links of one organization, with each filter and order and at any offset,
 * on a complete Signpost.
 */
import { parseArgs } from 'node:util';
import { localDatabaseUrl } from '#api/admin/local-store.ts';
import { Postgres } from '#common/stores/postgres.ts';
import { Wire } from '#deploy/journeys/fuzz/wire.ts';
import { login, Stack } from '#deploy/journeys/stack.ts';
import { writeResult } from './result-file.ts';

const OFFSET_MAX = 10_000;
const BATCH = 10_000;
/** For comparison: a round trip to the API at the same moment on the same machine, with one small query. */
const control = 'GET /me, to compare';

/** The ids need not be well-formed: lists sort by time and id, whatever the id looks like. */
const insertLinks = `
INSERT INTO links (id, organization_id, app_id, short_code, path, campaign, source, title, fallback_url, created_at, updated_at)
SELECT 'lnk_' || lpad(n::text, 26, '0'), $1, $2, 'b' || lpad(n::text, 6, '0'), '/sale/' || n, 'campaign-' || n % 100, 'dashboard', 'Sale ' || n,
       'https://example.com/' || n, now() - n * interval '1 second', now()
  FROM generate_series($3::int, $4::int) AS n`;

interface Line {
  readonly list: string;
  readonly p50_ms: number;
  readonly p99_ms: number;
  readonly max_ms: number;
}

const tell = (line: string) => process.stderr.write(`${new Date().toISOString().slice(11, 19)} ${line}\n`);

/** Prints a table and writes the figures to bench/results/lists.json. */
export async function benchLists(args: readonly string[]): Promise<void> {
  const { values } = parseArgs({
    args: [...args],
    options: { links: { type: 'string', default: '100000' }, requests: { type: 'string', default: '300' } },
  });
  const links = Number(values.links);
  const stack = await Stack.start();
  try {
    const call = await stack.loggedIn();
    const made = await call('/apps', { method: 'POST', body: { name: 'Lists' } });
    const app = made.json<{ id: string; organization_id: string }>();
    await seed(stack, app, links);
    const lines = await measure(stack, app.id, Number(values.requests));
    console.table(lines);
    writeResult('lists', { links, offset_max: OFFSET_MAX, lines });
  } finally {
    await stack.stop();
  }
}

async function seed(stack: Stack, app: { id: string; organization_id: string }, links: number): Promise<void> {
  const url = localDatabaseUrl(stack.dataDir);
  const db = new Postgres({ url, name: 'bench', connectionsMax: 1, statementTimeoutMs: 120_000 });
  try {
    for (let from = 1; from <= links; from += BATCH) {
      await db.execute(insertLinks, [app.organization_id, app.id, from, Math.min(from + BATCH - 1, links)]);
    }
    await db.execute('VACUUM ANALYZE links');
  } finally {
    await db.close();
  }
  tell(`${links} links written`);
}

async function measure(stack: Stack, appId: string, requests: number): Promise<Line[]> {
  const reply = await stack.api('/auth/login', { method: 'POST', body: login });
  const headers = { authorization: `Bearer ${reply.json<{ access_token: string }>().access_token}` };
  const lists: Record<string, string> = {
    [control]: '',
    'all, 50 at a time': '',
    'all, 100 at a time': 'limit=100',
    'of one app': `app_id=${appId}`,
    'of one campaign': 'campaign=campaign-7',
    'not archived': 'archived=false',
    'a search that finds a ninth of them': 'search=sale/7',
    'by clicks': 'sort=clicks',
  };
  const wire = new Wire(stack.apiPort, 1);
  const lines: Line[] = [];
  try {
    for (const [list, query] of Object.entries(lists)) {
      const times: number[] = [];
      for (let sent = -20; sent < requests; sent++) {
        const offset = sent % 10 === 0 ? OFFSET_MAX : Math.floor(Math.random() * OFFSET_MAX);
        const beganMs = performance.now();
        const target = list === control ? '/v1/me' : `/v1/links?offset=${offset}&${query}`.replace(/&$/, '');
        const answer = await wire.send({ method: 'GET', target, headers, body: null });
        if (typeof answer === 'string' || answer.status !== 200) {
          throw new Error(`${target}: ${typeof answer === 'string' ? answer : answer.body.toString()}`);
        }
        // The first twenty warm up caches and plans.
        if (sent >= 0) times.push(performance.now() - beganMs);
      }
      times.sort((a, b) => a - b);
      const at = (share: number) => Math.round((times[Math.floor((times.length - 1) * share)] ?? 0) * 10) / 10;
      lines.push({ list, p50_ms: at(0.5), p99_ms: at(0.99), max_ms: at(1) });
      tell(list);
    }
  } finally {
    wire.close();
  }
  return lines;
}
