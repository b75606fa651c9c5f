import { createHmac } from 'node:crypto';
import { expect, test } from 'vitest';
import { verifyWebhook } from './src/webhook.ts';

// The example of the specification.
const secret = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw';
const body = '{"test": 2432232314}';
const headers = {
  'webhook-id': 'msg_p5jXN8AQM9LWM0D4loKWxJek',
  'webhook-timestamp': '1614265330',
  'webhook-signature': 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=',
};
const now = 1_614_265_330_000;

test('a webhook with the signature of the specification’s example is accepted, as text and as bytes', () => {
  expect(verifyWebhook({ body, headers, secret, now })).toEqual({ ok: true, event: { test: 2_432_232_314 } });
  expect(verifyWebhook({ body: Buffer.from(body), headers: new Headers(headers), secret, now }).ok).toBe(true);
});

test('one of several signatures is enough while a secret is being replaced', () => {
  const several = { ...headers, 'webhook-signature': `v1,AAAA v1a,xyz ${headers['webhook-signature']}` };
  expect(verifyWebhook({ body, headers: several, secret, now }).ok).toBe(true);
});

test('whatever differs from what was signed is refused, with its reason', () => {
  const check = (more: object) => verifyWebhook({ body, headers, secret, now, ...more });
  expect(check({ body: `${body} ` })).toEqual({ ok: false, reason: 'wrong_signature' });
  expect(check({ secret: 'whsec_AAAA' })).toEqual({ ok: false, reason: 'wrong_signature' });
  expect(check({ headers: { ...headers, 'webhook-id': 'msg_other' } })).toEqual({
    ok: false,
    reason: 'wrong_signature',
  });
  expect(check({ headers: { ...headers, 'webhook-signature': '' } })).toEqual({ ok: false, reason: 'header_missing' });
  expect(check({ now: now + 301_000 })).toEqual({ ok: false, reason: 'too_old' });
  expect(check({ now: now - 301_000 })).toEqual({ ok: false, reason: 'too_old' });
  expect(check({ headers: { ...headers, 'webhook-timestamp': 'now' } })).toEqual({ ok: false, reason: 'too_old' });
  const signature = createHmac('sha256', Buffer.from(secret.slice(6), 'base64')).update('a.1614265330.no json');
  const odd = { ...headers, 'webhook-id': 'a', 'webhook-signature': `v1,${signature.digest('base64')}` };
  expect(check({ body: 'no json', headers: odd })).toEqual({ ok: false, reason: 'not_json' });
});
