import { rmSync, writeFileSync } from 'node:fs';
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { retireMachine } from '#api/admin/machines.ts';
import { type ApiForTest, apiForTest, type Member } from '#api/testing/running-api.ts';
import { TestEdge } from './testing/running-edge.ts';

let api: ApiForTest;
let owner: Member;
let app: { id: string; host: string };
let folder: string;
let edges: [TestEdge, TestEdge];
const destination = 'https://secret-destination.example/page';
const person = { 'user-agent': 'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/126.0.0.0 Safari/537.36' };

const start = (name: string) =>
  TestEdge.start(
    { redis: api.redisServer.url, postgres: api.databaseUrl },
    { sharePath: join(folder, `${name}.shares`) },
  );

beforeAll(async () => {
  api = await apiForTest();
  folder = await mkdtemp(join(tmpdir(), 'signpost-shares-'));
  edges = [await start('one'), await start('two')];
  owner = await api.member();
  app = (await owner.call('POST', '/apps', { name: 'Limited' })).body;
});
afterAll(async () => {
  for (const edge of edges) await edge.stop();
  rmSync(folder, { recursive: true });
  await api.stop();
});

async function newLink(max_clicks: number | null, more: object = {}) {
  const { body } = await owner.call('POST', '/links', { app_id: app.id, url: destination, max_clicks, ...more });
  return { id: String(body.id), code: String(body.short_code) };
}

type Answer = 'led on' | number | string;

async function visit(
  edge: TestEdge,
  code: string,
  headers: Record<string, string> = person,
  method = 'GET',
): Promise<Answer> {
  const { status, headers: answered } = await edge.get(app.host, `/${code}`, headers, method);
  if (answered.location === destination) return 'led on';
  return answered.location ?? status;
}

const limitOf = async (id: string) => (await owner.call('GET', `/links/${id}`)).body.click_limit;

async function visits(count: number, code: string, edgeOf = (n: number) => edges[n % 2] ?? edges[0]): Promise<number> {
  const answers = await Promise.all(Array.from({ length: count }, (_, n) => visit(edgeOf(n), code)));
  expect(answers.filter((answer) => answer !== 'led on' && answer !== 410)).toEqual([]);
  return answers.filter((answer) => answer === 'led on').length;
}

test('exactly max_clicks people are redirected, by all redirectors together, and the API reports the count', async () => {
  const { id, code } = await newLink(20);
  expect((await owner.call('GET', `/links/${id}`)).body).toMatchObject({
    max_clicks: 20,
    click_limit: { used: 0, held: 0, left: 20 },
  });
  let ledOn = await visits(60, code);
  // One redirector returns its remaining clicks when the other asks for them.
  await expect
    .poll(async () => {
      ledOn += await visits(2, code);
      return ledOn;
    })
    .toBe(20);
  await Promise.all(edges.map((edge) => edge.shares.report()));
  expect(await limitOf(id)).toEqual({ used: 20, held: 0, left: 0 });
  expect(await visits(4, code)).toBe(0);
  const explained = await owner.call('POST', `/links/${id}/explain`, { user_agent: person['user-agent'] });
  expect([explained.body.outcome, explained.body.rule, explained.body.status]).toEqual([
    ...['gone', 'link.max_clicks', 410],
  ]);
  expect(explained.body.sentences.join(' ')).toContain('The link has reached its max_clicks, so it has ended.');
});

test('visitors who wait for the last clicks get them with one request, not one by one', async () => {
  const { code } = await newLink(40);
  const { counters } = edges[0].shares;
  const before = counters.grants + counters.refused_grants;
  expect(await visits(100, code, () => edges[0])).toBe(40);
  // For the first visitor, for those who arrived in the meantime, and to find out that nothing is left.
  expect(counters.grants + counters.refused_grants - before).toBeLessThanOrEqual(4);
});

test('previews, bots and HEAD requests use no clicks, and a prefetch gets 503', async () => {
  const { code } = await newLink(1, { og_title: 'Preview' });
  const programs = [
    { 'user-agent': 'Slackbot 1.0' },
    { 'user-agent': 'Googlebot/2.1 (+http://www.google.com/bot.html)' },
  ];
  for (let n = 0; n < 3; n++) {
    expect([await visit(edges[0], code, programs[0]), await visit(edges[0], code, programs[1])]).toEqual([
      200,
      'led on',
    ]);
    expect(await visit(edges[0], code, person, 'HEAD')).toBe('led on');
    expect(await visit(edges[0], code, { ...person, 'sec-purpose': 'prefetch' })).toBe(503);
  }
  expect(await visit(edges[0], code)).toBe('led on');
  expect(await visit(edges[0], code)).toBe(410);
  // Once the end is known, it applies to everyone.
  expect([await visit(edges[0], code, programs[0]), await visit(edges[0], code, person, 'HEAD')]).toEqual([410, 410]);
});

test('later visitors get expired_url, and a prompt for a password uses no click', async () => {
  const { code, id } = await newLink(1, { expired_url: 'https://ended.example/' });
  await owner.call('PUT', `/links/${id}/password`, { password: 'open sesame' });
  await expect.poll(() => visit(edges[0], code)).toBe(200);
  await owner.call('DELETE', `/links/${id}/password`);
  await expect.poll(() => visit(edges[0], code)).toBe('led on');
  expect(await visit(edges[1], code)).toBe('https://ended.example/');
});

test('many links can get a limit at once', async () => {
  const links = [{ app_id: app.id, url: destination, max_clicks: 1 }];
  const created = await owner.call('POST', '/links/bulk', { links });
  const { id, short_code: code } = created.body.results[0].link;
  expect([await visit(edges[0], code), await visit(edges[0], code)]).toEqual(['led on', 410]);
  await owner.call('PATCH', '/links/bulk', { ids: [id], changes: { max_clicks: 2 } });
  await expect.poll(() => visit(edges[0], code)).toBe('led on');
});

test('all codes of a link share its limit', async () => {
  const { id, code } = await newLink(2);
  await edges[0].db.execute(
    `INSERT INTO link_codes (organization_id, app_id, link_id, code, created_at) SELECT organization_id, app_id, id, 'other-code', now() FROM links WHERE id = $1`,
    [id],
  );
  expect([
    await visit(edges[0], 'other-code'),
    await visit(edges[0], code),
    await visit(edges[0], 'other-code'),
  ]).toEqual(['led on', 'led on', 410]);
});

test('a higher limit reopens the link within a second, and a lower one ends it', async () => {
  const { id, code } = await newLink(1);
  expect([await visit(edges[0], code), await visit(edges[0], code)]).toEqual(['led on', 410]);
  await owner.call('PATCH', `/links/${id}`, { max_clicks: 100 });
  await expect.poll(() => visit(edges[0], code)).toBe('led on');
  // The redirector now holds a share, granted under the limit of 100.
  expect(edges[0].shares.openShares).toBeGreaterThan(0);
  await owner.call('PATCH', `/links/${id}`, { max_clicks: 2 });
  await expect.poll(() => visit(edges[0], code)).toBe(410);
  await Promise.all(edges.map((edge) => edge.shares.report()));
  const { used, held } = await limitOf(id);
  expect(held).toBe(0);
  await owner.call('PATCH', `/links/${id}`, { max_clicks: used + 3 });
  await expect
    .poll(async () => {
      await visits(2, code);
      await edges[0].shares.report();
      return (await limitOf(id)).used;
    })
    .toBeGreaterThan(used);
  await owner.call('PATCH', `/links/${id}`, { max_clicks: null });
  await expect.poll(() => visits(5, code)).toBe(5);
  expect(await limitOf(id)).toBe(null);
});

test('after Postgres is restored to a state before the grants, no click is granted twice', async () => {
  const { code, id } = await newLink(30);
  expect(await visit(edges[0], code)).toBe('led on');
  const tables = ['click_shares', 'click_holders'];
  const rows = await Promise.all(tables.map((table) => edges[0].db.query(`SELECT * FROM ${table} WHERE true`)));
  let ledOn = 1 + (await visits(16, code, () => edges[0]));
  // Restores that state, as in a server that was started afterwards. In one step, because redirectors report in the
  // meantime.
  await edges[0].db.transaction(async (queries) => {
    for (const [n, table] of tables.entries()) {
      await queries.execute(`DELETE FROM ${table}`);
      await queries.execute(
        `INSERT INTO ${table} SELECT (jsonb_populate_record(NULL::${table}, one)).* FROM jsonb_array_elements($1::jsonb) AS one`,
        [JSON.stringify(rows[n])],
      );
    }
    await queries.execute(`UPDATE click_holders SET incarnation = 'before'`);
  });
  // The other redirector asks first; it gets nothing until the first has reported its grants, which it does every second.
  ledOn += await visits(3, code, () => edges[1]);
  await expect
    .poll(async () => {
      ledOn += await visits(4, code);
      return ledOn;
    })
    .toBe(30);
  expect(await visits(10, code)).toBe(0);
  await Promise.all(edges.map((edge) => edge.shares.report()));
  await expect.poll(() => limitOf(id)).toEqual({ used: 30, held: 0, left: 0 });
});

test('clicks held by a retired machine count as used, and other redirectors do not wait for them', async () => {
  const { id, code } = await newLink(50);
  await edges[0].db.execute(
    `INSERT INTO click_holders VALUES ('gone-holder', 'gone', 'redirector-0', 'before', false, now() - interval '1 hour')`,
  );
  await edges[0].db.execute(
    `INSERT INTO click_shares SELECT organization_id, app_id, id, 'gone-holder', 45, 0, 2 FROM links WHERE id = $1`,
    [id],
  );
  expect(await visits(2, code)).toBe(0);
  expect(await retireMachine(edges[0].db, 'gone', false)).toMatchObject({ kind: 'retired', held_clicks: 43 });
  let ledOn = 0;
  await expect
    .poll(async () => {
      ledOn += await visits(4, code);
      return ledOn;
    })
    .toBe(5);
  await Promise.all(edges.map((edge) => edge.shares.report()));
  expect(await limitOf(id)).toEqual({ used: 50, held: 0, left: 0 });
});

test('a redirector that cannot write its file redirects no one, and takes no share', async () => {
  const { id, code } = await newLink(5);
  writeFileSync(join(folder, 'no-folder'), '');
  const edge = await start(join('no-folder', 'three'));
  try {
    expect([await visit(edge, code), await visit(edge, code)]).toEqual([410, 410]);
    expect(await limitOf(id)).toEqual({ used: 0, held: 0, left: 5 });
    expect(await visits(5, code)).toBe(5);
  } finally {
    await edge.stop();
  }
});

test('the rows of a deleted link are removed', async () => {
  const { id, code } = await newLink(5);
  await visit(edges[0], code);
  const count = () => edges[0].db.query('SELECT FROM click_shares WHERE link_id = $1', [id]);
  expect(await count()).toHaveLength(1);
  await owner.call('DELETE', `/links/${id}`);
  expect(await count()).toHaveLength(0);
});
