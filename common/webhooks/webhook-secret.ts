/**
 * The secret of a webhook endpoint, in the format of the Standard Webhooks specification. Stored encrypted with
 * SECRET_KEY.
 */
import { randomBytes } from 'node:crypto';

const SECRET_BYTES = 32;
const prefix = 'whsec_';

export function newWebhookSecret(): string {
  return prefix + randomBytes(SECRET_BYTES).toString('base64');
}

/** The key of its signatures. */
export function keyOfSecret(secret: string): Buffer {
  return Buffer.from(secret.slice(prefix.length), 'base64');
}

/** Context authenticated with the encrypted secret, so that a secret moved to another endpoint does not decrypt. */
export function webhookSecretContext(endpointId: string): string {
  return `webhook secret of ${endpointId}`;
}
