import type { ApiDeps } from '#api/deps.ts';
import type { Route } from '#common/http/route.ts';
import { createWebhook } from './create.ts';
import { deleteWebhook } from './delete.ts';
import { listWebhooks } from './list.ts';
import { listWebhookAttempts, listWebhookMessages } from './list-messages.ts';
import { readWebhook } from './read.ts';
import { replayWebhook } from './replay.ts';
import { rotateWebhookSecret } from './rotate-secret.ts';
import { testWebhook } from './send-test.ts';
import { updateWebhook } from './update.ts';

export const webhookRoutes: readonly Route<ApiDeps>[] = [
  listWebhooks,
  createWebhook,
  readWebhook,
  updateWebhook,
  deleteWebhook,
  rotateWebhookSecret,
  testWebhook,
  listWebhookMessages,
  listWebhookAttempts,
  replayWebhook,
];
