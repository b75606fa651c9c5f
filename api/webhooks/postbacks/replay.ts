import { changingRoute } from '#api/route.ts';
import { replayAnswers, replayBody, replayExample, replayLimit, replayMessages } from '#api/webhooks/replay.ts';
import { postbackParams, withPostback } from './postback.ts';

export const replayPostback = changingRoute({
  method: 'POST',
  path: '/postbacks/{postback_id}/replay',
  operationId: 'replayPostback',
  caller: 'user',
  scope: 'webhooks',
  limit: 'general',
  tag: 'Webhooks',
  summary: 'Replay postbacks',
  description: `Sends one postback again, or all that were created in a time range, with the current template. A network that does not deduplicate by \`{event_id}\` counts them twice. ${replayLimit}`,
  params: postbackParams,
  body: replayBody,
  bodyExample: replayExample,
  answers: replayAnswers,
  handle: (deps, { caller, note, params, body }) =>
    withPostback(deps, caller, params.postback_id, false, (tenant, postback) =>
      replayMessages({ tenant, note }, postback, body),
    ),
});
