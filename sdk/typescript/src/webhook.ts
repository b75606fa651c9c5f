/** Verifies webhooks that are signed as Standard Webhooks (standardwebhooks.com) describes it. */
import { createHmac, timingSafeEqual } from 'node:crypto';

const TOLERANCE_MS = 5 * 60_000;
const SIGNATURES_MAX = 20;

export type WebhookCheck =
  | { readonly ok: true; readonly event: unknown }
  | { readonly ok: false; readonly reason: 'header_missing' | 'too_old' | 'wrong_signature' | 'not_json' };

export interface Webhook {
  /** As received, before any parser. */
  readonly body: string | Uint8Array;
  readonly headers: Headers | Readonly<Record<string, string | readonly string[] | undefined>>;
  /** `whsec_…` */
  readonly secret: string;
  /** Epoch milliseconds; default: now. */
  readonly now?: number;
}

/** A refused webhook is a 400; answer 2xx only after you have stored the event. An event that is delivered twice has the same `webhook-id`. */
export function verifyWebhook({ body, headers, secret, now = Date.now() }: Webhook): WebhookCheck {
  const id = headerOf(headers, 'webhook-id');
  const time = headerOf(headers, 'webhook-timestamp');
  const signatures = headerOf(headers, 'webhook-signature');
  if (!id || !time || !signatures) return { ok: false, reason: 'header_missing' };
  const isFresh = /^\d{1,12}$/.test(time) && Math.abs(now - Number(time) * 1_000) <= TOLERANCE_MS;
  if (!isFresh) return { ok: false, reason: 'too_old' };
  const key = Buffer.from(secret.replace(/^whsec_/, ''), 'base64');
  const signed = createHmac('sha256', key).update(`${id}.${time}.`).update(body).digest();
  // Several while a secret is being replaced.
  const isSigned = signatures
    .split(' ', SIGNATURES_MAX)
    .some((one) => one.startsWith('v1,') && isSame(signed, Buffer.from(one.slice(3), 'base64')));
  if (!isSigned) return { ok: false, reason: 'wrong_signature' };
  try {
    return { ok: true, event: JSON.parse(typeof body === 'string' ? body : Buffer.from(body).toString('utf8')) };
  } catch {
    return { ok: false, reason: 'not_json' };
  }
}

function isSame(one: Buffer, other: Buffer): boolean {
  return one.length === other.length && timingSafeEqual(one, other);
}

function headerOf(headers: Webhook['headers'], name: string): string {
  if (headers instanceof Headers) return headers.get(name) ?? '';
  const value = headers[name];
  return typeof value === 'string' ? value : (value?.[0] ?? '');
}
