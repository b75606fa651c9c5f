import type { ApiDeps } from '#api/deps.ts';
import type { Route } from '#common/http/route.ts';
import { createWebhook } from './create.ts';
import { deleteWebhook } from './delete.ts';
import { listWebhooks } from './list.ts';
import { listWebhookAttempts, listWebhookMessages } from './list-messages.ts';
import { createPostback } from './postbacks/create.ts';
import { deletePostback } from './postbacks/delete.ts';
import { listPostbacks } from './postbacks/list.ts';
import { listPostbackAttempts } from './postbacks/list-attempts.ts';
import { readPostback } from './postbacks/read.ts';
import { replayPostback } from './postbacks/replay.ts';
import { testPostback } from './postbacks/send-test.ts';
import { updatePostback } from './postbacks/update.ts';
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
  listPostbacks,
  createPostback,
  readPostback,
  updatePostback,
  deletePostback,
  testPostback,
  listPostbackAttempts,
  replayPostback,
];
