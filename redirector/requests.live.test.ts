/** Forms of requests that browsers, proxies and programs send. */
import { connect } from 'node:net';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type ApiForTest, apiForTest, type Member } from '#api/testing/running-api.ts';
import { TestEdge } from './testing/running-edge.ts';

let api: ApiForTest;
let edge: TestEdge;
let owner: Member;
let app: { id: string; host: string };
const web = 'https://www.example.com/x';

beforeAll(async () => {
  api = await apiForTest();
  edge = await TestEdge.start({ redis: api.redisServer.url, postgres: api.databaseUrl });
  owner = await api.member();
  app = (await owner.call('POST', '/apps', { name: 'Requests', fallback_url: `${web}?root` })).body;
});
afterAll(async () => {
  await edge.stop();
  await api.stop();
});

async function newLink(short_code: string, fields: object = {}): Promise<string> {
  const { status, body } = await owner.call('POST', '/links', { app_id: app.id, url: web, short_code, ...fields });
  expect([status, body.error]).toEqual([201, undefined]);
  return body.id;
}

/** Sends the bytes of one request, and returns the answer once the server closes the connection or it is complete. */
function raw(request: string | Buffer): Promise<{ status: number; location: string; text: string }> {
  return new Promise((done, fail) => {
    const socket = connect(edge.port, '127.0.0.1', () => socket.write(request));
    let text = '';
    const finish = () => {
      socket.destroy();
      const [, location = ''] = /\r\nlocation: (.*)\r\n/i.exec(text) ?? [];
      done({ status: Number(text.slice(9, 12)), location, text });
    };
    socket.setTimeout(5_000, finish);
    socket.on('data', (chunk) => {
      text += chunk.toString('latin1');
      if (text.includes('\r\n\r\n')) finish();
    });
    socket.on('end', finish).on('error', fail);
  });
}

const visit = (path: string, headers: Record<string, string> = {}) => edge.get(app.host, path, headers);

test.each(['city=M%FCnchen', 'abc', 'q=a%20b', '?a=1', '&&a=1&', 'q=%7e!()', 'list[]=1', 'q=%'])(
  'the query %j passes from the request to the Location unchanged, at the first and at later visits, and with the password',
  async (query) => {
    const code = `bytes-${Buffer.from(query).toString('hex')}`;
    const id = await newLink(code);
    for (const _ of [1, 2]) expect((await visit(`/${code}?${query}`)).headers.location).toBe(`${web}?${query}`);
    expect((await raw(`HEAD /${code}?${query} HTTP/1.1\r\nHost: ${app.host}\r\n\r\n`)).location).toBe(
      `${web}?${query}`,
    );
    await owner.call('PUT', `/links/${id}/password`, { password: 'secret words' });
    await expect.poll(async () => (await visit(`/${code}?${query}`)).status).toBe(200);
    const page = (await visit(`/${code}?${query}`)).body;
    const [, link = ''] = /name="link" value="([^"]*)"/.exec(page) ?? [];
    const form = new URLSearchParams({ link: link.replaceAll('&amp;', '&'), password: 'secret words' }).toString();
    const head = `POST /-/unlock HTTP/1.1\r\nHost: ${app.host}\r\nContent-Length: ${form.length}\r\n\r\n`;
    expect((await raw(head + form)).location).toBe(`${web}?${query}`);
  },
);

test('with query_merge visit, the visit replaces the parameters of every destination within a second', async () => {
  const other = (await owner.call('POST', '/apps', { name: 'Merge', fallback_url: `${web}?a=root` })).body;
  const link = { app_id: other.id, short_code: 'merge', url: `${web}?a=own` };
  expect((await owner.call('POST', '/links', link)).status).toBe(201);
  const locations = async () =>
    Promise.all(['/merge?a=1', '/?a=1'].map(async (path) => (await edge.get(other.host, path)).headers.location));
  expect(await locations()).toEqual([`${web}?a=own`, `${web}?a=root`]);
  const set = await owner.call('PATCH', `/apps/${other.id}`, { settings: { query_merge: 'visit' } });
  expect([set.status, set.body.settings.query_merge]).toEqual([200, 'visit']);
  await expect.poll(locations).toEqual([`${web}?a=1`, `${web}?a=1`]);
});

test('a link is found with a slash at the end of its path, also by lookup, explain and with a query', async () => {
  const id = await newLink('slash');
  for (const _ of [1, 2, 3]) {
    expect((await visit('/slash/')).headers.location).toBe(web);
    expect((await visit('/slash/?a=1')).headers.location).toBe(`${web}?a=1`);
    expect((await visit('/slash//')).status).toBe(404);
  }
  expect((await edge.get(app.host, '/slash/', {}, 'HEAD')).status).toBe(302);
  const found = await owner.call('GET', `/links/lookup?url=${encodeURIComponent(`https://${app.host}/slash/?a=1`)}`);
  expect(found.body.id).toBe(id);
});

test.each([
  ['sec-purpose', 'prefetch'],
  ['sec-purpose', 'prefetch;prerender'],
  ['purpose', 'prefetch'],
  ['x-purpose', 'preview'],
  ['X-Purpose', ': preview'],
  ['x-moz', 'prefetch'],
])('a visit with %s: %s is a prefetch, and uses nothing of max_clicks up', async (name, value) => {
  const code = `limited-${name}-${Buffer.from(value).toString('hex')}`;
  const id = await newLink(code, { max_clicks: 1 });
  for (const _ of [1, 2]) expect((await visit(`/${code}`, { [name]: value })).status).toBe(503);
  expect((await visit(`/${code}`)).status).toBe(302);
  expect((await visit(`/${code}`)).status).toBe(410);
  const open = await newLink(`open-${code}`);
  for (const _ of [1, 2]) expect((await visit(`/open-${code}`, { [name]: value })).status).toBe(302);
  const clicks = (link: string) => edge.clicks().filter(({ link_id }) => link_id === link);
  expect(clicks(open).map(({ is_prefetch }) => is_prefetch)).toEqual([true, true]);
  expect(clicks(id)).toHaveLength(1);
});

/** Follows redirects between the hosts of the test. */
async function follow(host: string, path: string, max = 25) {
  for (let hops = 0; hops < max; hops++) {
    const { status, headers } = await edge.get(host, path);
    if (status !== 302) return { status, hops, location: '' };
    const next = new URL(headers.location ?? '');
    if (!next.hostname.endsWith('.localhost')) return { status, hops, location: next.href };
    [host, path] = [next.host, next.pathname + next.search];
  }
  return { status: 302, hops: max, location: '' };
}

test('redirects that go round among hosts of two organizations end with a 508, and are counted', async () => {
  const stranger = await api.member();
  const theirs = (await stranger.call('POST', '/apps', { name: 'Theirs' })).body;
  await newLink('ours', { url: `https://${theirs.host}/round?signpost_hop=0` });
  const their = { app_id: theirs.id, path: '/', short_code: 'round', url: `https://${app.host}/ours` };
  expect((await stranger.call('POST', '/links', their)).status).toBe(201);
  const before = edge.edge.counters.answers.loop;
  const round = await follow(app.host, '/ours?a=1');
  expect(round.status).toBe(508);
  expect(round.hops).toBeLessThanOrEqual(12);
  expect(edge.edge.counters.answers.loop).toBe(before + 1);
  const queries = edge.clicks().flatMap(({ query }) => (typeof query === 'string' ? [query] : []));
  expect(queries.some((query) => query.includes('signpost_hop'))).toBe(false);
});

test('a root that leads to itself, and unknown codes that lead to it, end with a 508', async () => {
  const bare = (await owner.call('POST', '/apps', { name: 'Bare' })).body;
  await api.db.query('UPDATE apps SET fallback_url = $2 WHERE id = $1', [bare.id, `https://${bare.host}/`]);
  await edge.announce({ kind: 'app', host: bare.host });
  await expect.poll(async () => (await follow(bare.host, '/')).status).toBe(508);
});

test('the count of redirects reaches no other destination, and a chain of own links passes the query on', async () => {
  await newLink('last', { url: `${web}?own=1` });
  await newLink('middle', { url: `https://${app.host}/last` });
  await newLink('first', { url: `https://${app.host}/middle` });
  for (const _ of [1, 2]) {
    expect(await follow(app.host, '/first?b=%FC')).toMatchObject({ location: `${web}?own=1&b=%FC` });
    expect(await follow(app.host, '/first')).toMatchObject({ location: `${web}?own=1` });
    expect((await visit('/last?signpost_hop=10')).headers.location).toBe(`${web}?own=1`);
    expect((await visit('/middle?signpost_hop=x')).headers.location).toBe(`https://${app.host}/last?signpost_hop=1`);
  }
});
