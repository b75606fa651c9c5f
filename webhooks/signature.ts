/** Headers of a delivery. Source: the Standard Webhooks specification, version 1.0.0, symmetric signatures. */
import { createHmac } from 'node:crypto';
import { keyOfSecret } from '#common/webhooks/webhook-secret.ts';

/** @param secrets both secrets during a rotation; each adds a signature. */
export function signedHeaders(
  id: string,
  nowMs: number,
  body: string,
  secrets: readonly string[],
): Record<string, string> {
  const seconds = Math.floor(nowMs / 1000);
  const signatures = secrets.map((secret) => {
    const mac = createHmac('sha256', keyOfSecret(secret)).update(`${id}.${seconds}.${body}`);
    return `v1,${mac.digest('base64')}`;
  });
  return { 'webhook-id': id, 'webhook-timestamp': String(seconds), 'webhook-signature': signatures.join(' ') };
}
