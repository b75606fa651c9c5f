/** Secrets in the URLs of receivers are hidden from those who may not change them. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type ApiForTest, apiForTest, type Member } from '#api/testing/running-api.ts';

let api: ApiForTest;
let owner: Member;
let viewer: Member;
beforeAll(async () => {
  api = await apiForTest();
  owner = await api.member();
  viewer = await api.member('viewer', owner.organization_id);
});
afterAll(() => api.stop());

const secret = 'EAAB-s3cret';
const webhook = {
  url: `https://ada:${secret}@hooks.example.com/services/${secret}?token=${secret}`,
  events: ['link.created'],
};
const postback = {
  method: 'POST',
  url: `https://graph.example.com/v1/events?access_token=${secret}&click={query.gclid}`,
  body: `token=${secret}&value={revenue}`,
  events: ['event.recorded'],
  event_names: ['purchase'],
};

test('a viewer sees only the hosts of webhooks and postbacks, in lists, messages and attempts too; a member sees all', async () => {
  const url = webhook.url.replace(`ada:${secret}@`, '');
  const hook = (await owner.call('POST', '/webhooks', { ...webhook, url })).body;
  const back = (await owner.call('POST', '/postbacks', postback)).body;
  for (const { id } of [hook, back]) {
    await api.db.execute(
      `INSERT INTO webhook_messages (id, endpoint_id, organization_id, type, occurred_at, data, created_at)
       VALUES ($1, $2, $3, 'endpoint.disabled', now(), $4, now())`,
      [`msg_${id}`, id, owner.organization_id, { id: hook.id, url, reason: 'gone' }],
    );
    await api.db.execute(
      `INSERT INTO webhook_attempts (endpoint_id, organization_id, message_id, type, url, outcome, answer, duration_ms, attempted_at)
       VALUES ($1, $2, $3, 'endpoint.disabled', $4, 'timeout', '', 1, now())`,
      [id, owner.organization_id, `msg_${id}`, id === hook.id ? url : postback.url],
    );
  }
  const paths = [
    ...['/webhooks', `/webhooks/${hook.id}`, `/webhooks/${hook.id}/messages`, `/webhooks/${hook.id}/attempts`],
    ...['/postbacks', `/postbacks/${back.id}`, `/postbacks/${back.id}/attempts`],
  ];
  for (const path of paths) {
    const [seen, whole] = [await viewer.call('GET', path), await owner.call('GET', path)];
    expect([seen.status, whole.status], path).toEqual([200, 200]);
    expect(JSON.stringify(seen.body), path).not.toContain(secret);
    expect(JSON.stringify(seen.body), path).toMatch(/https:\/\/(hooks|graph)\.example\.com\/…/);
    expect(JSON.stringify(whole.body), path).toContain(secret);
  }
});
