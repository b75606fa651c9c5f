/** The secret of a webhook endpoint, as the Standard Webhooks specification writes it. Stored encrypted with SECRET_KEY. */
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

/** What is authenticated with the encrypted secret, so that one that is moved to another endpoint does not decrypt. */
export function webhookSecretContext(endpointId: string): string {
  return `webhook secret of ${endpointId}`;
}
