/** What the public key of an app reads of its links. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { linkFieldNames } from '#common/links/link-fields.ts';
import { SdkEdge } from '#gateway/testing/sdk-edge.ts';

let edge: SdkEdge;
beforeAll(async () => {
  edge = await SdkEdge.start();
});
afterAll(() => edge.stop());

const secret = { external_id: 'order-1001', title: 'For the team', data: { token: 's3cret' }, tags: ['vip'] };

test.each(['dashboard', 'import', 'visit', 'learned'])(
  'the external_id of a link with the source %s is only called used, and nothing of the link is shown',
  async (source) => {
    const { app_id, key } = await edge.app();
    await edge.link(app_id, 'summer', { ...secret, source });
    const answer = await edge.post('/sdk/links', key, { path: '/x', external_id: 'order-1001' });
    expect([answer.status, answer.body.error.details.field]).toEqual([400, 'external_id']);
    expect(JSON.stringify(answer.body)).not.toMatch(/team|s3cret|vip|summer/);
  },
);

test('a link created with the key is not returned any more once it has a password', async () => {
  const { key } = await edge.app();
  const body = { path: '/x', external_id: 'invite-7' };
  const { id } = (await edge.post('/sdk/links', key, body)).body;
  expect(await edge.post('/sdk/links', key, body)).toMatchObject({ status: 200, body: { id } });
  await edge.db.execute('UPDATE links SET has_password = true WHERE id = $1', [id]);
  const answer = await edge.post('/sdk/links', key, body);
  expect([answer.status, answer.body.error.details.field]).toEqual([400, 'external_id']);
});

test('the answers have the fields that the endpoint accepts, and where the link is', async () => {
  const { key } = await edge.app();
  const fields = ['id', 'app_id', 'url', 'created_at', ...linkFieldNames].sort();
  for (const status of [201, 200]) {
    const answer = await edge.post('/sdk/links', key, { path: '/x', external_id: 'one' });
    expect([answer.status, Object.keys(answer.body).sort()]).toEqual([status, fields]);
  }
});

test('the title, which is for the team, is in no answer about a match or an install', async () => {
  const { app_id, key, host } = await edge.app();
  await edge.link(app_id, 'summer', secret);
  const device = { platform: 'ios', device_id: 'd1', url: `https://${host}/summer` };
  const [match, install] = [await edge.post('/sdk/match', key, device), await edge.post('/sdk/install', key, device)];
  expect([match.body.link.short_code, install.body.link.short_code]).toEqual(['summer', 'summer']);
  expect(JSON.stringify([match.body, install.body])).not.toContain(secret.title);
});
