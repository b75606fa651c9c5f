import { Type } from 'typebox';
import { changingRoute } from '#api/route.ts';
import { messageExample } from '#api/webhooks/message.ts';
import { testMessage } from '#api/webhooks/send-test.ts';
import { invalid } from '#common/http/rejection.ts';
import { postbackParams, withPostback } from './postback.ts';

export const testPostback = changingRoute({
  method: 'POST',
  path: '/postbacks/{postback_id}/test',
  operationId: 'testPostback',
  caller: 'user',
  scope: 'webhooks',
  limit: 'general',
  tag: 'Webhooks',
  summary: 'Send a test postback',
  description: 'Sends a request for a made-up event within seconds. The list of attempts shows the result.',
  params: postbackParams,
  answers: {
    202: {
      description: 'The postback will be sent.',
      schema: Type.Object({ message_id: Type.String() }),
      example: { message_id: messageExample.id },
    },
  },
  handle: (deps, { caller, note, params }) =>
    withPostback(deps, caller, params.postback_id, false, async (tenant, postback) => {
      if (postback.disabled_at !== null) return invalid('id', 'the postback is disabled: enable it first');
      const message_id = await testMessage(tenant, postback.id);
      return { status: 202, body: { message_id }, noted: await note(tenant, postback) };
    }),
});
