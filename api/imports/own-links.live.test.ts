/** The file of links that the dashboard saves, imported again. */
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { type ApiForTest, apiForTest, type Member } from '#api/testing/running-api.ts';
import { linkFieldNames } from '#common/links/link-fields.ts';
import { csvOf } from '#dashboard/csv.ts';
import { jsonText, parseExact } from '#dashboard/exact-numbers.ts';
import { linkColumns } from '#dashboard/link-csv.ts';

type Link = Parameters<(typeof linkColumns)[number][1]>[0];

let api: ApiForTest;
let owner: Member;

beforeAll(async () => {
  api = await apiForTest();
  owner = await api.member();
});
afterEach(() => expect(api.failures.splice(0)).toEqual([]));
afterAll(() => api.stop());

const newApp = async (name: string) => (await owner.call('POST', '/apps', { name })).body;

async function made(method: string, path: string, body: object): Promise<Link> {
  const answer = await owner.call(method, path, body);
  expect([answer.status < 300, answer.body?.error]).toEqual([true, undefined]);
  return answer.body;
}

/** Every link, page by page, as the dashboard reads them. */
async function linksOf(app: { id: string }): Promise<Link[]> {
  const links: Link[] = [];
  for (let cursor: string | null = ''; cursor !== null; ) {
    const url = `${api.url}/links?app_id=${app.id}&limit=3&cursor=${cursor}`;
    const headers = { authorization: `Bearer ${owner.token}`, 'x-forwarded-proto': 'https' };
    const reply = await fetch(url, { headers });
    expect(reply.status).toBe(200);
    const page = parseExact(await reply.text()) as { data: Link[]; pagination: { next_cursor: string | null } };
    links.push(...page.data);
    cursor = page.pagination.next_cursor;
  }
  return links;
}

async function imported(app: { id: string }, text: string, hosts: string[]) {
  const { id } = (await owner.call('POST', '/imports', { app_id: app.id, source: 'csv', hosts })).body;
  const headers = { authorization: `Bearer ${owner.token}`, 'content-type': 'text/csv', 'x-forwarded-proto': 'https' };
  const sent = await fetch(`${api.url}/imports/${id}/parts/1`, { method: 'PUT', headers, body: Buffer.from(text) });
  expect(sent.status).toBe(200);
  for (const step of ['check', 'confirm']) {
    await made('POST', `/imports/${id}/${step}`, {});
    while (await api.imports.work(id));
  }
  return (await owner.call('GET', `/imports/${id}`)).body;
}

const odd = 'Ünï, "quoted"\r\nline; a|b\ttab \u{1f389} ';
const everything = {
  path: '/a b/ü?x=1,2&y="3"',
  title: `=${odd}'`,
  campaign: ' -sale, "50 %" ',
  archived: true,
  tags: ['a,b', 'c"d"', '=e', "'=f", 'g|h;i', ' j '],
  external_id: '@sku-1',
  ios_url: 'https://ios.example/maps/@52.5,13.4,15z?a=1;b=2',
  android_url: 'https://android.example/?q=%22a%22,b#c',
  fallback_url: 'https://www.example.com/M%FCnchen?abc&x=',
  utm_source: 'newsletter, May',
  utm_medium: '+email',
  utm_campaign: "'quoted'",
  utm_term: 'NULL',
  utm_content: String.raw`\N`,
  og_title: odd,
  og_description: `'${odd}\n\n=1+1`,
  og_image_url: 'https://img.example/a,b.png',
  expires_at: '2031-02-03T04:05:06.789Z',
  expired_url: 'https://www.example.com/over',
  max_clicks: 1_000_000_000,
  tap_page: 'off',
  rules: [
    { country: ['DE', 'AT'], platform: ['ios'], os_version_min: '17.4', url: 'https://de.example/a,"b"' },
    {
      ...{ language: ['pt-BR'], weekdays: ['mon', 'sun'], time_from: '22:00', time_until: '06:30' },
      ...{ timezone: 'Europe/Berlin', after: '2026-01-01T00:00:00Z' },
      variants: [
        { url: 'https://a.example/', percent: 30 },
        { url: 'https://b.example/', percent: 70 },
      ],
    },
  ],
  data: parseExact(
    `{"big":12345678901234567890,"small":0.1234567890123456789,"n":-7,"ü":[null,true,"=1","\\r\\n\u{1f389}"]}`,
  ),
};

test('links that were saved as a file and imported into another app have every field that they had', async () => {
  const [app, other] = [await newApp('Saved'), await newApp('Read')];
  const headers = {
    authorization: `Bearer ${owner.token}`,
    'content-type': 'application/json',
    'x-forwarded-proto': 'https',
  };
  const body = jsonText({ app_id: app.id, ...everything });
  expect((await fetch(`${api.url}/links`, { method: 'POST', headers, body })).status).toBe(201);
  await made('POST', '/links', { app_id: app.id, path: '/', short_code: 'plain-1' });
  await made('POST', '/links', { app_id: app.id, url: 'https://www.example.com/x?y=1', title: ';semi', data: {} });
  await made('POST', '/links', { app_id: app.id, path: '/t', title: ' \ttab', max_clicks: 5, tap_page: 'mobile' });
  const foreign =
    'code,other_codes,destination,created_at,clicks\nsömmer/2024.~a,"[""https://HOST/b.c/d"",""ee""]",https://e.example/,2019-05-06T07:08:09Z,12345';
  await imported(app, foreign.replace('HOST', app.host), []);
  const secret = await made('POST', '/links', { app_id: app.id, path: '/secret', short_code: 'secret-1' });
  await made('PUT', `/links/${secret.id}/password`, { password: 'correct horse battery' });
  const saved = await linksOf(app);
  expect(saved).toHaveLength(6);
  const file = csvOf(linkColumns, saved);

  const report = await imported(other, file, [app.host]);
  expect(report).toMatchObject({ problem: null, rows: { new: 5, same: 0, conflict: 0, unsupported: 1 } });
  expect(report.results).toMatchObject({ created: 5, taken: 0 });
  const rows = (await owner.call('GET', `/imports/${report.id}/rows?outcome=unsupported`)).body.data;
  expect(rows).toMatchObject([{ field: 'has_password', reason: 'password' }]);
  const kept = [...linkFieldNames, 'other_codes', 'clicks_before', 'created_at', 'click_limit'] as const;
  const textOf = (links: Link[]) =>
    links.map((link) => jsonText(Object.fromEntries(kept.map((name) => [name, link[name]])))).sort();
  const read = await linksOf(other);
  expect(textOf(read)).toEqual(textOf(saved.filter(({ id }) => id !== secret.id)));
  expect(jsonText(read)).toContain('"big":12345678901234567890');
  expect(jsonText(read)).toContain('"small":0.1234567890123456789');

  // The file of the copy says the same, and the first app has its links already.
  expect(await imported(app, file, [])).toMatchObject({ rows: { new: 0, same: 5, conflict: 0, unsupported: 1 } });
});
