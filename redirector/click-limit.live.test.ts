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
    click_limit: { used: 0, held: 0, left: 20, given_up: 0 },
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
  expect(await limitOf(id)).toEqual({ used: 20, held: 0, left: 0, given_up: 0 });
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

/** A holder of another machine, of which Postgres heard at this time. */
async function holder(name: string, link: string, reported: string, [granted, used]: [number, number]): Promise<void> {
  const { db } = edges[0];
  await db.execute(
    `INSERT INTO click_holders VALUES ($1, 'gone', $1, now() + $2::interval) ON CONFLICT (holder) DO UPDATE SET reported_at = EXCLUDED.reported_at, gone_at = NULL`,
    [name, reported],
  );
  await db.execute(
    `INSERT INTO click_shares SELECT organization_id, app_id, id, $1, $3, 0, $4 FROM links WHERE id = $2`,
    [name, link, granted, used],
  );
}

const reportAll = () => Promise.all(edges.map((edge) => edge.shares.report()));

test('after Postgres is restored, a link exceeds its limit by no more than was granted since, and the figures say so', async () => {
  const { code, id } = await newLink(30);
  expect(await visits(1, code, () => edges[0])).toBe(1);
  await edges[0].shares.report();
  // The state before the link was visited.
  const before = edges[0].shares.counters.unknown;
  await edges[0].db.execute('DELETE FROM click_shares WHERE link_id = $1', [id]);
  let ledOn = 1 + (await visits(6, code, () => edges[0]));
  expect(ledOn).toBe(7);
  await edges[0].shares.report();
  expect(edges[0].shares.counters.unknown).toBeGreaterThan(before);
  await expect
    .poll(async () => {
      ledOn += await visits(4, code);
      await reportAll();
      return (await limitOf(id)).left + (await limitOf(id)).held;
    })
    .toBe(0);
  expect(ledOn).toBe(30);
  // Another redirector asks before the first has reported.
  const { code: other, id: otherId } = await newLink(10);
  const first = await visits(4, other, () => edges[0]);
  await edges[0].db.execute('DELETE FROM click_shares WHERE link_id = $1', [otherId]);
  const second = await visits(40, other, () => edges[1]);
  expect([first, second]).toEqual([4, 10]);
  await expect
    .poll(async () => {
      await visits(4, other);
      await reportAll();
      return limitOf(otherId);
    })
    .toMatchObject({ held: 0, left: 0 });
  expect((await limitOf(otherId)).used).toBeGreaterThanOrEqual(14);
});

test.each([
  ['an hour ago', '-1 hour'],
  ['a year ahead, by a clock that was wrong', '1 year'],
])(
  'a redirector that last reported %s delays no grant; what it held counts as used, and the figures say so',
  async (_, reported) => {
    const { id, code } = await newLink(50);
    const { counters } = edges[0].shares;
    const before = counters.given_up + edges[1].shares.counters.given_up;
    await holder(`silent ${reported}`, id, reported, [45, 2]);
    let ledOn = await visits(4, code);
    expect(ledOn).toBeGreaterThan(0);
    await expect
      .poll(async () => {
        ledOn += await visits(4, code);
        await reportAll();
        return limitOf(id);
      })
      .toEqual({ used: 50, held: 0, left: 0, given_up: 43 });
    expect(ledOn).toBe(5);
    expect(counters.given_up + edges[1].shares.counters.given_up - before).toBe(43);
  },
);

test('a redirector that was cut off goes on using its share, and what it used is counted when it returns', async () => {
  const { id, code } = await newLink(40);
  const edge = await start('cut-off');
  try {
    expect(await visits(1, code, () => edge)).toBe(1);
    await edge.shares.report();
    const { held } = await limitOf(id);
    await edges[0].db.execute(
      `UPDATE click_holders SET reported_at = now() - interval '1 hour' WHERE instance LIKE '%cut-off.shares'`,
    );
    await visits(1, code, () => edges[0]);
    await edges[0].shares.report();
    expect((await limitOf(id)).given_up).toBe(held);
    let ledOn = 2 + (await visits(held, code, () => edge));
    expect(ledOn).toBe(held + 2);
    await edge.shares.report();
    expect(await limitOf(id)).toMatchObject({ given_up: 0 });
    await expect
      .poll(async () => {
        ledOn += await visits(4, code, (n) => (n % 2 ? edge : edges[0]));
        await Promise.all([edge.shares.report(), reportAll()]);
        return limitOf(id);
      })
      .toEqual({ used: 40, held: 0, left: 0, given_up: 0 });
    expect(ledOn).toBe(40);
  } finally {
    await edge.stop();
  }
});

test('the next process on a copied folder or under another name does not block the clicks of the last one', async () => {
  const { id, code } = await newLink(50);
  const killed = await start('renamed');
  expect(await visits(1, code, () => killed)).toBe(1);
  // Killed: it returned nothing, and its file is lost.
  const heir = await TestEdge.start(
    { redis: api.redisServer.url, postgres: api.databaseUrl },
    { sharePath: join(folder, 'new-name.shares') },
  );
  try {
    expect(await visits(20, code, () => heir)).toBeGreaterThan(0);
    expect((await limitOf(id)).held).toBeGreaterThan(0);
  } finally {
    await heir.stop();
    await killed.stop();
  }
});

test('a used-up share that left the file is not granted again', async () => {
  const { id, code } = await newLink(3);
  expect(await visits(9, code, () => edges[0])).toBe(3);
  await edges[0].shares.report();
  await edges[0].shares.report();
  await owner.call('PATCH', `/links/${id}`, { max_clicks: 5 });
  await expect.poll(() => visit(edges[0], code)).toBe('led on');
  let more = 1;
  await expect
    .poll(async () => {
      more += await visits(5, code, () => edges[0]);
      await reportAll();
      return limitOf(id);
    })
    .toMatchObject({ used: 5, held: 0, left: 0 });
  expect(more).toBe(2);
});

test('a machine that was retired counts as gone, and the rows of holders that are gone for 90 days become one per link', async () => {
  const { id, code } = await newLink(50);
  await holder('retired one', id, '-1 minute', [20, 2]);
  await holder('retired two', id, '-1 minute', [20, 20]);
  expect(await retireMachine(edges[0].db, 'gone', false)).toMatchObject({ kind: 'retired', held_clicks: 18 });
  expect(await limitOf(id)).toEqual({ used: 40, held: 0, left: 10, given_up: 18 });
  const { db } = edges[0];
  const holders = () => db.query(`SELECT holder FROM click_holders WHERE holder LIKE 'retired %'`);
  await db.execute(`UPDATE click_holders SET gone_at = now() - interval '91 days' WHERE holder LIKE 'retired %'`);
  // The clock of Postgres has jumped.
  await db.execute(`UPDATE ingest.deletion_clock SET reached = now() - interval '2 days'`);
  await visits(1, code, () => edges[0]);
  await reportAll();
  expect(await holders()).toHaveLength(2);
  await db.execute('UPDATE ingest.deletion_clock SET reached = now()');
  await expect
    .poll(async () => {
      await reportAll();
      return holders();
    })
    .toEqual([]);
  expect(
    await db.query(`SELECT granted, returned, used FROM click_shares WHERE link_id = $1 AND holder = ''`, [id]),
  ).toEqual([{ granted: 40, returned: 0, used: 22 }]);
  expect((await limitOf(id)).given_up).toBe(18);
});

test('a redirector that cannot write its file redirects no one, and takes no share', async () => {
  const { id, code } = await newLink(5);
  writeFileSync(join(folder, 'no-folder'), '');
  const edge = await start(join('no-folder', 'three'));
  try {
    expect([await visit(edge, code), await visit(edge, code)]).toEqual([410, 410]);
    expect(await limitOf(id)).toEqual({ used: 0, held: 0, left: 5, given_up: 0 });
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
