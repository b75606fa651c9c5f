/** Hosts below the installation's own domain: which ones a tenant may take, and how many. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type ApiForTest, apiForTest, type Member } from '#api/testing/running-api.ts';
import { certificateQuestion } from './served-host.ts';

let api: ApiForTest;
let owner: Member;
let stranger: Member;
beforeAll(async () => {
  api = await apiForTest({ API_PUBLIC_URL: 'https://api.localhost/v1' });
  [owner, stranger] = await Promise.all([api.member(), api.member()]);
});
afterAll(() => api.stop());

const create = (member: Member, host: string) => member.call('POST', '/apps', { name: 'App', host });
const rules = { domain: 'localhost', reserved: new Set<string>() };
const allowed = (domain: string) => certificateQuestion(api.db, rules)['/tls-allowed'](new URLSearchParams({ domain }));

test.each(['login.shop-of-a.localhost', 'www.shop-of-a.localhost', '_dmarc.localhost', 'xn--a-shp-ctb.localhost'])(
  'a tenant does not get %s, neither for a new app nor for one that it has',
  async (host) => {
    await create(owner, 'shop-of-a.localhost');
    const mine = (await create(stranger, `mine-${host.length}-${Date.now()}.localhost`)).body;
    for (const answer of [await create(stranger, host), await stranger.call('PATCH', `/apps/${mine.id}`, { host })])
      expect([answer.status, answer.body.error?.details.field]).toEqual([400, 'host']);
    expect(await allowed(host)).toBe(false);
  },
);

test.each(['api', 'admin', 'mail', 'autoconfig', 'wpad', 'login', 'www', '_dmarc', 'màil', 'ADMIN', 'ẃpad', 'łogin'])(
  'no tenant gets the host %s, which stands for the installation itself',
  async (label) => {
    const answer = await create(stranger, `${label}.localhost`);
    expect([answer.status, answer.body.error?.details.field]).toEqual([400, 'host']);
  },
);

test('an app called like a reserved host gets another one', async () => {
  const { status, body } = await owner.call('POST', '/apps', { name: 'Login' });
  expect([status, body.host]).toEqual([201, expect.stringMatching(/^login-\d+\.localhost$/)]);
});

test('an app that has a reserved host from before keeps it', async () => {
  const { id } = (await create(owner, 'before.localhost')).body;
  await api.db.execute(`UPDATE apps SET host = 'support.localhost' WHERE id = $1`, [id]);
  const answer = await owner.call('PATCH', `/apps/${id}`, { name: 'New name', host: 'support.localhost' });
  expect([answer.status, answer.body.host]).toEqual([200, 'support.localhost']);
});

test.each([
  ['appa', 'àppa'],
  ['köln', 'koln'],
  ['müñchen', 'mûnchen'],
  ['lodz', 'łódź'],
  ['gone-soon', 'gône-soon'],
])('beside %s of one organization, another does not get %s', async (taken, alike) => {
  const { id } = (await create(owner, `${taken}.localhost`)).body;
  const mine = (await create(stranger, `mine-${taken.length}-${Date.now()}.localhost`)).body;
  if (taken === 'gone-soon') expect((await owner.call('DELETE', `/apps/${id}`)).status).toBe(200);
  const host = `${alike}.localhost`;
  for (const answer of [await create(stranger, host), await stranger.call('PATCH', `/apps/${mine.id}`, { host })]) {
    expect([answer.status, answer.body.error?.details.field]).toEqual([400, 'host']);
    expect(answer.body.error.message).toContain('looks like');
  }
  expect((await create(stranger, `${alike}-2.localhost`)).status).toBe(201);
  expect((await create(owner, host)).status).toBe(201);
});

test('an app whose name leads to a host like another one gets a number', async () => {
  await create(owner, 'zürich.localhost');
  const { status, body } = await stranger.call('POST', '/apps', { name: 'Zurich' });
  expect([status, body.host]).toEqual([201, expect.stringMatching(/^zurich-\d+\.localhost$/)]);
});

test('an app that has a host of two labels keeps it through other changes', async () => {
  const { id } = (await create(owner, 'old.localhost')).body;
  await api.db.execute(`UPDATE apps SET host = 'old.nested.localhost' WHERE id = $1`, [id]);
  const answer = await owner.call('PATCH', `/apps/${id}`, { name: 'New name', host: 'old.nested.localhost' });
  expect([answer.status, answer.body.host, answer.body.host_verification.status]).toEqual([
    ...[200, 'old.nested.localhost', 'verified'],
  ]);
  expect(await allowed('old.nested.localhost')).toBe(true);
});

test('an organization has at most 100 apps, also if many are created at once; a deleted one makes room', async () => {
  const member = await api.member();
  const [{ organization_id }] = await api.db
    .query<{ organization_id: string }>('SELECT organization_id FROM apps WHERE id = $1', [
      (await create(member, 'first-of-many.localhost')).body.id,
    ])
    .then((rows) => [rows[0] ?? { organization_id: '' }] as const);
  await api.db.execute(
    `INSERT INTO apps (id, organization_id, name, host, settings, allowed_destination_hosts, api_key_ciphertext, api_key_hash,
       api_key_preview, created_at, updated_at)
     SELECT a.id || n, a.organization_id, 'Many', n || '.many.example', a.settings, '{}', a.api_key_ciphertext,
            decode(md5(n::text), 'hex'), '', now(), now() FROM apps a, generate_series(1, 97) n
      WHERE a.organization_id = $1`,
    [organization_id],
  );
  const answers = await Promise.all([1, 2, 3, 4, 5].map((n) => create(member, `late-${n}.localhost`)));
  expect(answers.map(({ status }) => status).sort()).toEqual([201, 201, 400, 400, 400]);
  expect(answers.find(({ status }) => status === 400)?.body.error.message).toContain('100 apps');
  const made = answers.find(({ status }) => status === 201)?.body.id;
  expect((await member.call('DELETE', `/apps/${made}`)).status).toBeLessThan(300);
  expect((await create(member, 'again.localhost')).status).toBe(201);
});

test('a proxy may request certificates for 5 new hosts of an organization per day, and for all that it had before', async () => {
  const member = await api.member();
  const hosts = Array.from({ length: 7 }, (_, n) => `certificate-${n}.localhost`);
  for (const host of hosts) expect((await create(member, host)).status).toBe(201);
  const first = await Promise.all(hosts.map(allowed));
  expect(first.filter(Boolean)).toHaveLength(5);
  expect(await Promise.all(hosts.map(allowed))).toEqual(first);
  await create(owner, 'certificate-of-another.localhost');
  expect(await allowed('certificate-of-another.localhost')).toBe(true);
  await api.db.execute(`UPDATE certificate_hosts SET asked_at = asked_at - interval '1 day'`);
  expect(await Promise.all(hosts.map(allowed))).toEqual(hosts.map(() => true));
  expect(await allowed('CERTIFICATE-0.localhost')).toBe(true);
});

test('a host that was removed from its app gets no certificate', async () => {
  const { id } = (await create(owner, 'leaving.localhost')).body;
  expect(await allowed('leaving.localhost')).toBe(true);
  await owner.call('DELETE', `/apps/${id}`);
  expect(await allowed('leaving.localhost')).toBe(false);
  expect(await allowed('')).toBe(false);
});
