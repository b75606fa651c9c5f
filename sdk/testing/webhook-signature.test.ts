import { expect, test } from 'vitest';
import { newWebhookSecret } from '#common/webhooks/webhook-secret.ts';
import { verifyWebhook } from '#sdk/typescript/src/webhook.ts';
import { signedHeaders } from '#webhooks/signature.ts';

test('the SDK accepts what the webhooks process signs, also while the secret is being replaced', () => {
  const [old, secret, other] = [newWebhookSecret(), newWebhookSecret(), newWebhookSecret()];
  const body = '{"type":"install.created","data":{"path":"/sömmer"}}';
  const headers = signedHeaders('msg_1', Date.now(), body, [old, secret]);
  expect(verifyWebhook({ body, headers, secret })).toEqual({ ok: true, event: JSON.parse(body) });
  expect(verifyWebhook({ body, headers, secret: old }).ok).toBe(true);
  expect(verifyWebhook({ body, headers, secret: other })).toEqual({ ok: false, reason: 'wrong_signature' });
});
