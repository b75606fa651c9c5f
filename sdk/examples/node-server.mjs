// A shop's server: node sdk/examples/node-server.mjs
import { createServer } from 'node:http';
// snippet
import { createSignpost } from '@signpost/sdk/node';

const signpost = createSignpost({
  host: 'https://api.example.com',
  apiKey: 'lk_your_key',
  queueFile: '.data/signpost-events',
});

async function purchased(order) {
  const revenue = { amount: order.total, currency: 'EUR' };
  // The same order counts once, however often this is called.
  await signpost.track('purchase', { userId: order.user, deviceId: order.device, eventId: order.id, revenue });
}

// end
import { verifyWebhook } from '@signpost/sdk/node';

const routes = {
  async 'POST /orders'(body) {
    await purchased(JSON.parse(body));
    return { ok: true };
  },
  async 'POST /invites'(body) {
    const { from } = JSON.parse(body);
    return await signpost.createLink({ path: `/invite/${from}`, campaign: 'invites', data: { from } });
  },
  async 'POST /webhooks'(body, headers) {
    const checked = verifyWebhook({ body, headers, secret: process.env.WEBHOOK_SECRET ?? '' });
    if (checked.ok) console.log('webhook', headers['webhook-id']);
    return checked.ok ? { ok: true } : { status: 400, reason: checked.reason };
  },
};

const server = createServer(async (request, response) => {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  const route = routes[`${request.method} ${request.url}`];
  const answer = route ? await route(Buffer.concat(chunks).toString(), request.headers) : { status: 404 };
  response.writeHead(answer.status ?? 200, { 'content-type': 'application/json' }).end(JSON.stringify(answer));
});
server.listen(Number(process.env.PORT ?? 3000), '127.0.0.1', () =>
  console.log(`listening on ${server.address().port}`),
);

process.once('SIGTERM', async () => {
  server.close();
  await signpost.close();
});
