import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { type ApiForTest, apiForTest, type Member } from '#api/testing/running-api.ts';
import { TestEdge } from '#redirector/testing/running-edge.ts';

let api: ApiForTest;
let edge: TestEdge;
let owner: Member;
let app: { id: string; host: string };

beforeAll(async () => {
  api = await apiForTest();
  edge = await TestEdge.start({ redis: api.redisServer.url, postgres: api.databaseUrl });
  owner = await api.member();
  app = (await owner.call('POST', '/apps', { name: 'Long' })).body;
});
afterEach(() => expect(api.failures.splice(0)).toEqual([]));
afterAll(async () => {
  await edge.stop();
  await api.stop();
});

const longUrl = (characters: number, more = '') => `https://www.example.com/?a=${more}`.padEnd(characters, 'x');
const create = (fields: object) => owner.call('POST', '/links', { app_id: app.id, path: '/x', ...fields });

test.each([2_049, 3_000, 5_000, 8_192])(
  'a destination of %d characters is accepted everywhere, and leads there',
  async (size) => {
    const url = longUrl(size);
    const one = { ios_url: url, android_url: url, fallback_url: url, expired_url: url };
    for (const fields of [{ url }, one, { rules: [{ url }] }, { rules: [{ variants: [{ url, percent: 100 }] }] }]) {
      const { status, body } = await create(fields);
      expect([status, body.error]).toEqual([201, undefined]);
      for (const _ of [1, 2])
        expect((await edge.get(app.host, `/${body.short_code}?b=%20`)).headers.location).toBe(`${url}&b=%20`);
      const explained = await owner.call('POST', `/links/${body.id}/explain`, {
        user_agent: 'Mozilla/5.0 (X11; Linux)',
      });
      expect(explained.body.location).toBe(url);
      expect((await owner.call('PATCH', `/links/${body.id}`, { fallback_url: url })).status).toBe(200);
    }
    const bulk = await owner.call('POST', '/links/bulk', { links: [{ app_id: app.id, url }] });
    expect(bulk.body.created).toBe(1);
    expect((await owner.call('PATCH', `/apps/${app.id}`, { fallback_url: url })).status).toBe(200);
  },
);

test('the QR code of the longest short URL has less error correction', async () => {
  const { body } = await create({});
  await api.db.execute('UPDATE links SET short_code = $2 WHERE id = $1', [body.id, '😀'.repeat(190)]);
  for (const format of ['svg', 'png'])
    expect((await owner.call('GET', `/links/${body.id}/qr?format=${format}`)).status).toBe(200);
});
